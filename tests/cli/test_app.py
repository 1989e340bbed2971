"""The command line as people meet it."""

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from confide.cli.app import app, exit_code
from confide.errors import BadDeclaration, ConfideError, Fault, Refusal


def test_demo_prints_a_line_for_each_mechanism() -> None:
    """`confide demo` ends well and shows every mechanism and the total."""
    shown = CliRunner().invoke(app, ["demo"], env={"COLUMNS": "160"}, catch_exceptions=False)

    assert 0 == shown.exit_code
    for name in ("Laplace", "Gaussian", "Exponential", "Permute-and-flip", "Sparse vector"):
        assert name in shown.output
    assert re.search(r"together: epsilon [\d.]+ at delta 1e-06", shown.output)


def test_the_module_runs() -> None:
    """`python -m confide --help` names the commands."""
    command = [sys.executable, "-m", "confide", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert "demo" in done.stdout


def test_wrong_use_exits_with_two() -> None:
    """A command that does not exist is wrong use."""
    assert 2 == CliRunner().invoke(app, ["nonsense"]).exit_code


@pytest.mark.parametrize(
    ("code", "error"), [(1, Refusal("no")), (2, BadDeclaration("no")), (3, Fault("no"))]
)
def test_each_family_has_its_exit_code(code: int, error: ConfideError) -> None:
    """Refusals exit with 1, bad declarations with 2, faults of ours with 3."""
    assert code == exit_code(error)
