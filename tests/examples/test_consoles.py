"""Commands on pages run, in order, and print what the page shows."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.tree import ROOT, documents

BLOCK = re.compile(r'^```(\w+)(?: title="([\w./-]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
CODE = re.compile(r"#\s*exit code (\d)\s*$")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PAGES = [path for path in documents() if "\n```console\n" in path.read_text(encoding="utf-8")]


@dataclass(frozen=True, slots=True)
class Typed:
    """A command on a page: its text, its exit code, and its output."""

    command: str
    exit_code: int
    printed: str


def read_console(block: str) -> list[Typed]:
    """Return the commands of a block; lines that begin with a dollar sign are commands."""
    _, *parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    return [
        Typed(command, int(found[1]) if (found := CODE.search(command)) else 0, printed)
        for command, printed in zip(parts[::2], parts[1::2], strict=True)
    ]


def run_command(typed: Typed, folder: Path) -> str:
    """Run one command in a folder, and return the difference from the page, or ""."""
    program, *arguments = shlex.split(typed.command, comments=True)
    assert program == "confide", f"pages type confide only, not {program}"
    done = subprocess.run(
        [sys.executable, "-m", "confide", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"},
    )
    if typed.exit_code != done.returncode:
        return f"{typed.command} exits with {done.returncode}:\n{done.stdout}"
    if not typed.printed or doctest.OutputChecker().check_output(typed.printed, done.stdout, FLAGS):
        return ""
    return f"{typed.command} prints\n{done.stdout}\nand not\n{typed.printed}"


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_command_lines_run(path: Path, tmp_path: Path) -> None:
    """Every command on the page ends and prints as shown, in the page's order."""
    for language, title, block in BLOCK.findall(path.read_text(encoding="utf-8")):
        if title:
            (tmp_path / title).write_text(block, encoding="utf-8")
        elif language == "console":
            assert [] == [
                said for typed in read_console(block) if (said := run_command(typed, tmp_path))
            ]


def test_a_wrong_console_example_is_detected(tmp_path: Path) -> None:
    """The runner above detects another exit code, and other output."""
    [fine, wrong, other] = read_console(
        "$ confide ledger  # exit code 2\nbad-declaration: ...\n"
        "$ confide ledger\n"
        "$ confide ledger  # exit code 2\nall is well\n"
    )

    assert "" == run_command(fine, tmp_path)
    assert "exits with 2" in run_command(wrong, tmp_path)
    assert "and not" in run_command(other, tmp_path)
