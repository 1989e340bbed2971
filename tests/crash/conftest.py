"""Places for ledgers that are about to be mistreated."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SHARED = Path("/dev/shm")
ROOM = 2**28
"""Bytes that these tests may need, and containers often do not have there."""


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """Return a folder in memory where there is one: killing a process does not touch the disk."""
    is_fit = os.access(SHARED, os.W_OK) and shutil.disk_usage(SHARED).free > ROOM
    place = str(SHARED) if is_fit else None
    folder = Path(tempfile.mkdtemp(prefix="confide-crash-", dir=place))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
