"""The libraries that we are compared with, and how a program runs where one is installed."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
LONGEST: Final = 900


@dataclass(frozen=True, slots=True)
class Library:
    """A library, its package, and the variable and folder that say where it is installed."""

    title: str
    package: str
    variable: str
    home: str

    @property
    def python(self) -> str:
        """The interpreter that has the library."""
        return os.environ.get(self.variable, str(ROOT / self.home / "bin" / "python"))

    def run(self, *arguments: str) -> str:
        """Return what a program prints in the library's environment.

        Raises:
            OSError: the library is not installed.
            subprocess.SubprocessError: the program fails or takes more than a quarter of an hour.
        """
        done = subprocess.run(
            [self.python, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
            timeout=LONGEST,
        )
        return done.stdout.strip()

    @property
    def version(self) -> str:
        """Which version is installed."""
        text = f"from importlib.metadata import version; print(version({self.package!r}))"
        return self.run("-c", text)


ORACLE: Final = ("CONFIDE_ORACLE_PYTHON", ".venv-oracle")
PEERS: Final = ("CONFIDE_PEERS_PYTHON", ".venv-peers")
ERRING: Final = {
    "opendp": Library("opendp", "opendp", *ORACLE),
    "diffprivlib": Library("diffprivlib", "diffprivlib", *PEERS),
    "pipelinedp": Library("PipelineDP", "pipeline-dp", *PEERS),
    "smartnoise": Library("SmartNoise SQL", "smartnoise-sql", *PEERS),
}
"""Those whose errors are measured."""
TUMULT: Final = Library("Tumult", "tmlt.analytics", "CONFIDE_TUMULT_PYTHON", ".venv-tumult")
TIMED: Final = {**ERRING, "tumult": TUMULT}
"""Those whose seconds are measured."""
