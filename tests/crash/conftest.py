"""Folders for ledgers in crash tests."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SHARED = Path("/dev/shm")
ROOM = 2**28
"""The bytes that these tests may need, which containers often lack there."""


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """Yield a folder, in memory if possible: killing a process does not affect the disk."""
    is_fit = os.access(SHARED, os.W_OK) and shutil.disk_usage(SHARED).free > ROOM
    place = str(SHARED) if is_fit else None
    folder = Path(tempfile.mkdtemp(prefix="confide-crash-", dir=place))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
