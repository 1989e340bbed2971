"""Libraries that confide is compared with, each run in its own environment."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
MAX_SECONDS: Final = 900


@dataclass(frozen=True, slots=True)
class Library:
    """A library, its package, and the variable and folder that locate its environment."""

    title: str
    package: str
    variable: str
    home: str

    @property
    def python(self) -> str:
        """The interpreter of the library's environment."""
        return os.environ.get(self.variable, str(ROOT / self.home / "bin" / "python"))

    def run(self, *arguments: str) -> str:
        """Return the output of a program in the library's environment.

        Raises:
            OSError: the library is not installed.
            subprocess.SubprocessError: the program fails or takes more than 15 minutes.
        """
        done = subprocess.run(
            [self.python, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
            timeout=MAX_SECONDS,
        )
        return done.stdout.strip()

    @property
    def version(self) -> str:
        """The installed version."""
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
"""Libraries whose errors are measured."""
TUMULT: Final = Library("Tumult", "tmlt.analytics", "CONFIDE_TUMULT_PYTHON", ".venv-tumult")
TIMED: Final = {**ERRING, "tumult": TUMULT}
"""Libraries whose answers are timed."""
