"""JSON that means one thing to every reader: no name twice, no NaN, little depth."""

import json
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError

from confide.client.http import MalformedRequest
from confide.server.models import WRITTEN

__all__ = ["read_json", "read_shape", "write_complaints"]

T = TypeVar("T")


def read_json(body: bytes) -> Any:
    """Return the value of a text in JSON, or raise `json.JSONDecodeError`.

    >>> read_json(b'{"sql": "SELECT 1"}')
    {'sql': 'SELECT 1'}
    """
    text = body.decode("utf-8", "replace")
    if "\ufffd" in text and b"\xef\xbf\xbd" not in body:
        raise json.JSONDecodeError("not UTF-8", "", 0)
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise json.JSONDecodeError("too long a number, or nested too deeply", "", 0) from error


def read_shape(shape: TypeAdapter[T], value: dict[str, Any]) -> T:
    """Return a request of the documented shape, or refuse it as the routes do."""
    try:
        return shape.validate_python(value)
    except ValidationError as error:
        raise MalformedRequest(write_complaints(error.errors())) from None


def write_complaints(problems: Sequence[Any]) -> str:
    """Return where a request differs from the documented shape; its values are not repeated."""
    found: list[str] = []
    for problem in problems[:5]:
        parts = [str(part) for part in problem["loc"] if part != "body"]
        # What begins like this is a word of pydantic's for one of several shapes.
        place = ".".join(part for part in parts if not part.startswith("constrained-"))
        is_amount = problem.get("ctx", {}).get("pattern") == WRITTEN
        said = 'or text such as "5%" or "1/20"' if is_amount else problem["msg"]
        found.append(f"{place[:80] or 'the body'}: {said}")
    return "; ".join(dict.fromkeys(found))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise json.JSONDecodeError("a name stands twice", "", 0)
    return found


def _refuse(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is not a number", "", 0)
