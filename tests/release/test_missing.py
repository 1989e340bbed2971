"""Without optional packages, methods that need one say how to install it and charge nothing."""

import inspect
import sys
from pathlib import Path

import pytest

from confide.client.results import RemoteAnswer
from confide.curator import Curator
from confide.declare import Budget, Category, Int, Table
from confide.errors import BadDeclaration, MissingPackage
from confide.statistics import StatisticMethods
from support.tree import run_python

CORE = """
import sys

class Core:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pandas", "polars", "pyarrow", "scipy", "sklearn", "vl_convert"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Core())
import confide as cf

columns = {"age": cf.Int(0, 120), "ward": cf.Category(["A", "B"])}
curator = cf.Curator(
    [cf.Table("visits", sys.argv[1], unit="pid", columns=columns)], budget=cf.Budget(epsilon=1)
)
answer = curator.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", share="10%")
calls = [
    answer.to_pandas,
    answer.to_polars,
    answer.to_arrow,
    answer.intervals,
    lambda: answer.plot().save("x.png"),
    lambda: curator.mean("visits", "age", share="1%"),
    lambda: curator.variance("visits", "age", share="1%"),
    lambda: curator.covariance("visits", ["age"], share="1%"),
    lambda: curator.density("visits", "age", share="1%"),
    lambda: curator.quantiles("visits", "age", 0.5, share="1%"),
    lambda: curator.exponential_family("visits", "age", family="poisson", share="1%"),
    lambda: curator.fit("visits", "age ~ ward", share="1%"),
    lambda: curator.compare_means("visits", "age", by="ward", share="1%"),
    lambda: curator.compare_proportions("visits", "age", by="ward", share="1%"),
    lambda: curator.independence("visits", "age", "ward", share="1%"),
    lambda: curator.sample_and_aggregate(
        "visits", len, columns=["age"], bounds="column", share="1%"
    ),
]
for call in calls:
    try:
        call()
    except cf.BadDeclaration as error:
        print(error.code, "|", error)
print("left", curator.budget.left.share)
"""


def people() -> Table:
    rows = Path(__file__).parents[2] / "src/confide/examples/nhanes.parquet"
    sex = Category(["Female", "Male"])
    return Table("people", rows, unit="person", columns={"sex": sex, "age": Int(0, 120)})


def test_a_core_install_names_missing_packages(tmp_path: Path) -> None:
    """Every method that needs a package names it, and only the one answer is charged."""
    rows = [f"{pid},{'A' if pid % 2 else 'B'},{pid % 90}" for pid in range(100)]
    (tmp_path / "visits.csv").write_text("\n".join(["pid,ward,age", *rows]), encoding="utf-8")
    *said, left = run_python("-c", CORE, str(tmp_path / "visits.csv")).strip().splitlines()

    assert 16 == len(said)
    assert {"missing-package"} == {line.split(" | ")[0] for line in said}
    assert all(". Run `pip install " in line for line in said)
    frames = "This DataFrame needs pandas. Run `pip install pandas`, or use `.rows` and"
    assert frames in said[0]
    assert 'Statistics need SciPy. Run `pip install "confide[statistics]"`.' in said[-1]
    assert "left 9/10" == left


def test_every_estimator_asks_for_its_package_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without SciPy, each statistic is refused before its arguments are checked."""
    curator = Curator([people()], budget=Budget(1))
    monkeypatch.setitem(sys.modules, "scipy", None)
    methods = [
        name
        for name, method in vars(StatisticMethods).items()
        if inspect.isfunction(method)
        and not name.startswith("_")
        and "share" in inspect.signature(method).parameters
    ]

    assert len(methods) >= 11
    for name in methods:
        method = getattr(curator, name)
        needed = inspect.signature(method).parameters.values()
        given = {
            one.name: "none"
            for one in needed
            if one.default is one.empty and one.kind is not one.VAR_KEYWORD
        }
        with pytest.raises(MissingPackage, match="SciPy"):
            method(**given)
    assert 1 == curator.budget.left.share


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_a_remote_answer_names_missing_packages(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A remote answer names the package that its DataFrames need."""
    body = {
        "columns": ["n"],
        "rows": [{"n": 1}],
        "cost": {"share": "1/100", "epsilon": 0.1},
        "receipt": {"entry": 1, "digest": ""},
        "reused": False,
        "notes": [],
        "intervals": [{"n_low": 0, "n_high": 2}],
        "confidence": 0.95,
    }
    answer = RemoteAnswer.of(body, lambda *_: [])
    monkeypatch.setitem(sys.modules, package, None)
    name = {"pyarrow": "arrow"}.get(package, package)

    with pytest.raises(BadDeclaration, match=f"Run `pip install {package}`, or use"):
        getattr(answer, f"to_{name}")()
