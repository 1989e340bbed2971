"""Places for ledgers that are about to be mistreated."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SHARED = Path("/dev/shm")


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """Return a folder in memory where there is one: killing a process does not touch the disk."""
    place = str(SHARED) if SHARED.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="confide-crash-", dir=place))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
