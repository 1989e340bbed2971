"""Run the benchmarks one after the other: `make bench`, or with names, `bench/__main__.py noise`.

A benchmark is a script in this folder. It prints what it measured as ratios within its own run and
exits with an error where a promised ratio is missed.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
# These have targets of their own, such as `make bench-compare`, or are run by hand.
APART = {"beside", "compare", "coverage", "estimates", "models", "scale", "utility"}


def find(names: list[str]) -> list[Path]:
    """Return the scripts asked for, or all that measure speed."""
    scripts = sorted(path for path in HERE.glob("*.py") if not path.stem.startswith("_"))
    unknown = set(names) - {path.stem for path in scripts}
    if unknown:
        sys.exit(f"no benchmark named {', '.join(sorted(unknown))}")
    return [path for path in scripts if path.stem in (names or {path.stem} - APART)]


def run(scripts: list[Path]) -> list[str]:
    """Run each script by itself and return the names of those that failed."""
    failed = []
    for script in scripts:
        print(f"\n== {script.stem} ==", flush=True)
        if subprocess.run([sys.executable, script], check=False).returncode:
            failed.append(script.stem)
    return failed


if __name__ == "__main__":
    failed = run(find(sys.argv[1:]))
    if failed:
        sys.exit(f"missed: {', '.join(failed)}")
