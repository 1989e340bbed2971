"""The server fixture for the tests in this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.service import House, open_house


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A separate server with a ledger on disk."""
    with open_house(tmp_path) as opened:
        yield opened
