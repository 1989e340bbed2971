"""Run benchmarks one after another: `make bench`, or by name, `bench/__main__.py noise`.

A benchmark is a script in this folder. It prints its measurements as ratios within one run, and
exits with an error if a ratio misses its target.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
# Benchmarks with their own targets, such as `make bench-compare`, or that are run by hand.
APART = {"beside", "compare", "coverage", "estimates", "models", "scale", "utility"}


def find(names: list[str]) -> list[Path]:
    """Return the named scripts, or all scripts that measure speed."""
    scripts = sorted(path for path in HERE.glob("*.py") if not path.stem.startswith("_"))
    unknown = set(names) - {path.stem for path in scripts}
    if unknown:
        sys.exit(f"no benchmark named {', '.join(sorted(unknown))}")
    return [path for path in scripts if path.stem in (names or {path.stem} - APART)]


def run(scripts: list[Path]) -> list[str]:
    """Run each script in its own process and return the names of those that failed."""
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
