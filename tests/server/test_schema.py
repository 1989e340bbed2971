"""Every response to a random request matches the OpenAPI document, and none is a fault."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import Response
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.service import House, bearer, build_house, serving

CASES = int(os.environ.get("CONFIDE_SCHEMA_CASES", "300"))
TIMEOUT = 300
"""Timeout in seconds, generous enough for a busy machine."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, str]]:
    """A server on a real socket, with a very high rate limit."""
    house = build_house(tmp_path_factory.mktemp("house"), requests_per_minute=1_000_000)
    with serving(house.app) as address:
        yield house, address


def operations(address: str) -> list[Any]:
    """Return every operation in the document, with its request strategy."""
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    found: list[Any] = list(schema.get_all_operations())
    return [result.ok() for result in found]


@pytest.mark.slow
@pytest.mark.parametrize("who", ["ana", "owner", "nobody"])
def test_every_answer_is_declared(served: tuple[House, str], who: str) -> None:
    """No request, valid or not, gets a 5xx or a response that is not in the document."""
    house, address = served
    token = {"ana": house.ana, "owner": house.owner, "nobody": "none"}[who]
    every = operations(address)
    share = max(1, CASES // (3 * len(every)))
    for operation in every:
        cases = st.one_of(
            operation.as_strategy(),
            operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE),
        )

        @given(case=cases)
        @settings(
            max_examples=share,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def send(case: Any) -> None:
            answer = case.call(headers=bearer(token), timeout=TIMEOUT)
            case.validate_response(answer, checks=CHECKS)

        send()


def test_the_check_detects_an_undeclared_status(tmp_path: Path) -> None:
    """The check fails for a route that returns an undeclared status."""
    house = build_house(tmp_path)

    @house.app.get("/odd")
    async def odd() -> Response:
        return Response("{}", 418, media_type="application/json")

    with serving(house.app) as address:
        wrong = next(one for one in operations(address) if one.path == "/odd")
        case = wrong.Case()
        answer = case.call(timeout=TIMEOUT)
        with pytest.raises(FailureGroup):
            case.validate_response(answer, checks=CHECKS)
