"""Install and use the wheel alone and with each extra, each time in a new environment.

Then run each page that says "Needs `pip install ...`", and the notebooks, with just that install.

It needs only Python. It prints the time of each install without a cache, its download size, and its
size on disk. It fails if an install cannot be used, or if the core downloads more than promised.
Name extras or pages to try only those: ``python tools/try_installs.py core pages``.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_DOWNLOAD = 150
NEEDS = re.compile(r"[Nn]eeds\s+`pip install ([^`]+)`")
OPEN = """
import confide as cf
from confide.examples import sample_table
curator = cf.Curator([sample_table()], budget=cf.Budget(epsilon=10.0))
"""
USES = {
    "core": OPEN
    + """
answer = curator.sql("SELECT sex, AVG(systolic) AS mean FROM people GROUP BY sex", epsilon=0.5)
assert len(answer.rows) == 2 and len(answer.interval_rows()) == 2, answer.rows
assert curator.sql("SELECT MEDIAN(age) AS m FROM people", epsilon=0.5).rows
""",
    "statistics": OPEN
    + """
assert curator.quantiles("people", "age", [0.25, 0.75], epsilon=0.5).interval(0.95)
assert curator.fit("people", "systolic ~ age", family="linear", epsilon=1.0).value
""",
    "server": OPEN
    + """
from fastapi.testclient import TestClient
from confide.server import TokenStore, make_app, open_tables
tokens = TokenStore(open_tables(None))
text, _ = tokens.make("ana")
with TestClient(make_app(curator, tokens)) as client:
    asked = {"sql": "SELECT COUNT(*) AS n FROM people", "share": "10%"}
    head = {"Authorization": f"Bearer {text}"}
    assert client.post("/v1/query", json=asked, headers=head).status_code == 200
    assert client.get("/healthz").status_code == 200
    assert "<html" in client.get("/", headers={"Accept": "text/html"}).text
""",
    "mcp": """
from confide.mcp import make_tools
assert make_tools(lambda _: None)
""",
    "ml": """
import numpy as np
from sklearn.linear_model import LogisticRegression
import confide as cf
rng = np.random.default_rng()
X = rng.normal(size=(4_000, 2)); y = (X[:, 0] > 0).astype(int)
holdout = cf.Holdout((X[:2_000], y[:2_000]), (X[2_000:], y[2_000:]), tau=0.15, beta=0.05,
                     queries=20, overfits=2)
model = LogisticRegression().fit(X[:2_000], y[:2_000])
assert holdout.scorer("accuracy")(model, X[:2_000], y[:2_000]) > 0.5
""",
    "postgres": """
import psycopg
from confide.engines import find_engine
assert find_engine("postgresql").load()
assert psycopg.pq.version() > 0
""",
    "spark": """
import pyspark
from confide.engines import find_engine
assert find_engine("spark").load()
""",
}


def main() -> None:
    """Try the named installs, or all of them; exit with 1 if any fails."""
    chosen = sys.argv[1:] or [*USES, "pages"]
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        extras = [name for name in chosen if name in USES]
        failed = [name for name in extras if not try_extra(name, wheel, Path(folder))]
        for named, pages in installs().items() if "pages" in chosen else ():
            failed += try_pages(named, pages, wheel, Path(folder))
    print(f"failed: {', '.join(failed)}" if failed else "every install can be used")
    raise SystemExit(bool(failed))


def installs() -> dict[str, list[Path]]:
    """Return the installs that pages need, each with its pages."""
    found: dict[str, list[Path]] = {}
    for page in sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "notebooks" / "README.md"]):
        if needed := NEEDS.search(page.read_text(encoding="utf-8")):
            shown = sorted(page.parent.glob("*.ipynb")) or [page]
            found.setdefault(needed[1], []).extend(shown)
    return found


def build_wheel(folder: Path) -> Path:
    """Return this project's wheel, built as pip builds it."""
    pip = make_environment(folder / "build")
    run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)])
    [wheel] = folder.glob("confide-*.whl")
    return wheel


def try_extra(name: str, wheel: Path, folder: Path) -> bool:
    """Install one extra alone, use it, and print a line; return whether it worked."""
    place, wheels = folder / name, folder / f"{name}-wheels"
    pip = make_environment(place)
    wanted = f"{wheel}[{name}]" if name != "core" else str(wheel)
    before, start = megabytes(place), time.monotonic()
    run([*pip, "wheel", "--no-cache-dir", "--wheel-dir", str(wheels), wanted])
    run([*pip, "install", "--no-index", "--find-links", str(wheels), wanted])
    seconds, loaded = time.monotonic() - start, megabytes(wheels)
    python = str(place / "bin" / "python")
    done = [
        subprocess.run([python, *arguments], check=False, cwd=folder, stdout=subprocess.DEVNULL)
        for arguments in (["-c", USES[name]], ["-m", "confide", "--version"])
    ]
    works = all(one.returncode == 0 for one in done)
    fits = name != "core" or loaded <= MAX_DOWNLOAD
    verdict = "TOO LARGE" if not fits else "used" if works else "CANNOT BE USED"
    sizes = f"{loaded:5.0f} MB loaded {megabytes(place) - before:5.0f} MB on disk"
    print(f"{name:<12}{seconds:5.0f} s {sizes}  {verdict}", flush=True)
    return works and fits


def try_pages(named: str, pages: list[Path], wheel: Path, folder: Path) -> list[str]:
    """Install what pages need and run them; return the names of those that fail."""
    place = Path(tempfile.mkdtemp(dir=folder))
    pip = make_environment(place)
    wanted = [f"{wheel}{name[1:]}" if name[0] == "." else name for name in shlex.split(named)]
    run([*pip, "install", *wanted])
    failed = []
    for page in pages:
        command = [str(place / "bin" / "python"), str(ROOT / "tools" / "run_page.py"), str(page)]
        done = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        name = str(page.relative_to(ROOT))
        print(
            f"{name} with pip install {named}: {'FAILS' if done.returncode else 'runs'}", flush=True
        )
        if done.returncode:
            failed.append(name)
            print(done.stdout)
    return failed


def make_environment(place: Path) -> list[str]:
    """Create an environment and return its pip command."""
    run([sys.executable, "-m", "venv", str(place)])
    return [str(place / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]


def megabytes(place: Path) -> float:
    """Return the size of a folder on disk, in megabytes."""
    files = (Path(where) / name for where, _, names in os.walk(place) for name in names)
    return sum(file.stat().st_size for file in files if not file.is_symlink()) / 1e6


def run(command: list[str]) -> None:
    """Run a command; exit with its output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
