"""Requirements of tests are pinned and hashed, without URLs."""

import re
from pathlib import Path

import pytest

from support.tree import ROOT, project

PINNED = [ROOT / f"requirements-{name}.txt" for name in ("dev", "oracle", "peers")]


def entries(path: Path) -> list[str]:
    """Return the requirements of a file, each with its hashes."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [entry for entry in re.split(r"\n(?=\S)", text) if entry.strip()]


@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.name)
def test_requirements_are_pinned_and_hashed(path: Path) -> None:
    """Each requirement has one version and at least one hash."""
    loose = [text for text in entries(path) if "==" not in text or "--hash=sha256:" not in text]

    assert entries(path)
    assert [] == loose


@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.name)
def test_requirements_hold_no_address(path: Path) -> None:
    """No registry, index, or file is named, since the source is up to each machine."""
    text = path.read_text(encoding="utf-8")

    assert [] == re.findall(r"\S*(?:://|index-url|find-links|trusted-host)\S*", text)


def test_everything_declared_is_pinned() -> None:
    """Each requirement of confide and of its tests is in the pinned file."""
    declared = project()["project"]
    extras = declared["optional-dependencies"]
    own = [text for text in extras["dev"] if text.startswith("confide[")]
    tested = [extra for text in own for extra in re.split(r"[\[\],]", text)[1:] if extra]
    wanted = declared["dependencies"] + [
        text for extra in ["dev", *tested] for text in extras[extra]
    ]
    names = {re.split(r"[<>=\[ ]", text)[0] for text in wanted if not text.startswith("confide[")}
    pinned = {text.split("==")[0].split("[")[0] for text in entries(PINNED[0])}

    assert set() == names - pinned
