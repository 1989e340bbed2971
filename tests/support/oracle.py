"""Calls to the libraries in .venv-oracle, which confide is compared with."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

__all__ = ["ask_oracle"]

HOME: Final = Path(__file__).parents[2] / ".venv-oracle" / "bin" / "python"


def ask_oracle(program: str, *arguments: object, seconds: float = 600) -> Any:
    """Run ``program`` in the oracles' environment and return its output, parsed as JSON.

    The program receives the arguments as a list named ``arguments``, passed as JSON. Without the
    oracles, the test is skipped, which conftest.py turns into a failure in CI.
    """
    interpreter = Path(os.environ.get("CONFIDE_ORACLE_PYTHON", HOME))
    if not interpreter.exists():
        pytest.skip(f"no oracles at {interpreter}; run `make oracle`")
    opening = "import json, sys\narguments = json.loads(sys.argv[1])\n"
    done = subprocess.run(
        [interpreter, "-c", opening + program, json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"the oracle failed:\n{done.stderr}")
    return json.loads(done.stdout)
