"""Fixtures that provide each kind of ledger in turn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ledgers import KINDS, Home


@pytest.fixture(params=KINDS)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    """Return a location of ledgers of each kind, in turn."""
    needed = request.param == "postgresql"
    server = request.getfixturevalue("postgres") if needed else None
    home = Home(request.param, tmp_path, server)
    yield home
    home.close()


@pytest.fixture(params=KINDS[1:])
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    """Return a location of each kind of ledger that outlives its process, in turn."""
    server = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    home = Home(request.param, tmp_path, server)
    yield home
    home.close()
