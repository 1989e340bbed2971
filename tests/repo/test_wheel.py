"""The wheel contains the whole package with types and data, and nothing else."""

import email
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tree import ROOT, project

DECLARED = project()["project"]
HEAVY = {"pandas", "polars", "pyarrow", "scipy", "scikit-learn", "fastapi", "mcp", "pyspark"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """Yield the wheel, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(folder)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    [path] = folder.glob("*.whl")
    with zipfile.ZipFile(path) as found:
        yield found


def metadata(wheel: zipfile.ZipFile) -> email.message.Message:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return email.message_from_bytes(wheel.read(name))


def test_every_file_of_the_package_is_in_it(wheel: zipfile.ZipFile) -> None:
    """The wheel contains code, type marker, survey, pages, scripts, and licenses, unchanged."""
    source = ROOT / "src"
    files = {
        str(path.relative_to(source)): path.read_bytes()
        for path in (source / "confide").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name: wheel.read(name) for name in wheel.namelist() if name.startswith("confide/")}

    assert {"confide/py.typed", "confide/examples/nhanes.parquet"} < set(files)
    assert files == packed


def test_nothing_else_is_in_it(wheel: zipfile.ZipFile) -> None:
    """Apart from the package, the wheel contains only its metadata and license."""
    beside = {Path(name).parts[-1] for name in wheel.namelist() if not name.startswith("confide/")}

    assert {"METADATA", "WHEEL", "entry_points.txt", "LICENSE", "RECORD"} == beside


def test_the_metadata_matches_the_project(wheel: zipfile.ZipFile) -> None:
    """Name, version, Python version, license, and extras match those of the project."""
    told = metadata(wheel)

    assert ("confide", DECLARED["version"]) == (told["Name"], told["Version"])
    assert ">=3.11" == told["Requires-Python"]
    assert "Apache-2.0" == told["License-Expression"]
    assert set(DECLARED["optional-dependencies"]) == set(told.get_all("Provides-Extra", []))
    assert "text/markdown" == told["Description-Content-Type"]


def test_the_core_has_few_requirements(wheel: zipfile.ZipFile) -> None:
    """DataFrames, statistics, servers, and clusters are extras, not requirements of the core."""
    wanted = [text for text in metadata(wheel).get_all("Requires-Dist", []) if "extra" not in text]
    names = {text.split(">")[0].split("<")[0].split(";")[0].strip() for text in wanted}

    assert names
    assert set() == names & HEAVY


def test_the_version_is_the_same_everywhere() -> None:
    """The project, the newest version in the changelog, and the citation have one version."""
    version = DECLARED["version"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")

    newest = changes.replace("\n## Unreleased\n", "\n").split("\n## ", 1)[1]

    assert newest.startswith(f"{version}, ")
    assert f"\nversion: {version}\n" in citation
