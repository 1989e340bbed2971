"""Audits of every query method of the curator, end to end."""

import inspect
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from confide import curator as curators
from confide.audit import Finding, Verdict, claim_of
from confide.audit.method_cases import METHODS, TEXTS, WITHOUT_DATA, method_cases
from confide.audit.query_cases import NeighboringCurators, epsilon_for, open_sides, query_cases
from confide.audit.worlds import PAIRS, Person, make_pair
from confide.curator import Curator
from confide.declare import Bool, Budget, Category, Date, Float, Int, Table, Text
from confide.engines import Sealed
from confide.loss import PureLoss
from confide.mechanisms import Neighbours
from confide.noise import Entropy
from confide.plan import Plan
from confide.plan.calibration import noise_for
from confide.release import NoisyMeasurement, add_noise, payable
from support.laws import ALPHA

VISITS: Final = Table(
    "visits",
    "nowhere.parquet",
    unit="pid",
    columns={
        "age": Int(0, 120),
        "cost": Float(0, 5_000),
        "ward": Category(["A", "B", "C"]),
        "note": Text(),
        "smoker": Bool(),
        "insured": Bool(),
        "day": Date("2020-01-01", "2026-12-31"),
    },
    max_rows_per_unit=2,
    max_groups_per_unit=1,
)
OUTLIER: Final = (None, Person.HIGH)
PURE: Final = Budget(1)
SAMPLES: Final = 40


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> NeighboringCurators:
    """Two curators whose data differ in an outlier, with pure DP noise."""
    folder = tmp_path_factory.mktemp("sides")
    return open_sides([VISITS], PURE, Neighbours.ADD_REMOVE, OUTLIER, folder)


def query_methods() -> set[str]:
    """Return the public methods of a curator, including inherited ones."""
    found = inspect.getmembers(Curator, inspect.isfunction)
    return {name for name, _ in found if not name.startswith("_")}


def test_every_query_method_has_an_audit() -> None:
    """Every public method of the curator has an audit, or is listed as showing no data."""
    covered = {name.split(",")[0] for name in METHODS} | set(TEXTS)

    assert query_methods() == covered | WITHOUT_DATA


def test_a_method_is_skipped_only_without_suitable_columns() -> None:
    """Without Boolean columns, estimates that need only numbers are still audited."""
    plain = replace(VISITS, columns={"age": Int(0, 120)})
    left_out = {name for name, make in METHODS.items() if make(plain, 1.0) is None}

    assert {
        "sql, selection",
        "fit",
        "compare_means",
        "compare_proportions",
        "independence",
    } == left_out


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", METHODS)
def test_no_method_gives_away_more_than_it_claims(name: str, sides: NeighboringCurators) -> None:
    """The answers of each method on both sides, end to end, do not disprove its claim."""
    (case,) = _cases(sides, name)

    assert case.verdict in (Verdict.ACQUITTED, Verdict.ALIKE)
    assert case.evidence is not None, case.note


def test_free_methods_give_identical_output(sides: NeighboringCurators) -> None:
    """Previews, explanations, and prices are identical on neighboring datasets."""
    for name in TEXTS:
        (case,) = _cases(sides, name)

        assert case.verdict is Verdict.ALIKE


def _cases(
    sides: NeighboringCurators,
    name: str,
    *,
    epsilon: float = 3,
    false_alarms: float = ALPHA,
    samples: int = SAMPLES,
) -> Iterator[Finding]:
    cases = method_cases(sides, samples, epsilon=epsilon)
    return (one.run(false_alarms) for one in cases if one.subject.split(":")[0] == name)


def add_too_little_noise(sealed: Sealed, plan: Plan, entropy: Entropy) -> NoisyMeasurement:
    """Add noise as if the answer could cost forty times as much."""
    rich = noise_for(plan.sensitivities, PureLoss(10))
    return add_noise(sealed, replace(plan, noise=rich), entropy)


@pytest.mark.statistical
def test_a_curator_with_too_little_noise_is_convicted(
    sides: NeighboringCurators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """120 outputs per side convict a curator with far too little noise, at 99.9%.

    Half of them select the event; the others prove an epsilon of about 1.9. To prove no more than
    0.25, 15 of those 60 would have to be on the wrong side; with a fortieth of the noise, one in
    200 is.
    """
    monkeypatch.setattr(payable, "add_noise", add_too_little_noise)
    (case,) = _cases(sides, "sql", epsilon=0.25, false_alarms=1e-3, samples=120)

    assert case.verdict is Verdict.CONVICTED


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("level", "neighbours", "people"),
    [
        ("0.9", Neighbours.ADD_REMOVE, (None, Person.HIGH)),
        ("0.1", Neighbours.ADD_REMOVE, (None, Person.LOW)),
        ("0.9", Neighbours.REPLACE, (Person.LOW, Person.HIGH)),
    ],
)
def test_quantiles_off_the_middle_keep_their_claim(
    level: str, neighbours: Neighbours, people: tuple[Person | None, Person], tmp_path: Path
) -> None:
    """800 choices with and without the most influential outlier do not disprove epsilon 3.

    They do disprove epsilon 0: the lower bound is about 0.8, with an error of about 0.1.
    """
    opened = open_sides([VISITS], PURE, neighbours, people, tmp_path)
    asked = f'SELECT QUANTILE_CONT("age", {level}) AS q FROM "visits"'
    cases = query_cases(opened, 800, epsilon=3)
    (finding,) = [case.run(ALPHA) for case in cases if case.subject == asked]

    assert Verdict.ACQUITTED is finding.verdict
    assert finding.evidence is not None
    assert finding.evidence.found > 0


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("budget", [PURE, Budget(1, 1e-6)], ids=["pure", "gaussian"])
def test_no_question_gives_away_more_than_it_claims(
    budget: Budget, neighbours: Neighbours, tmp_path: Path
) -> None:
    """Noise redrawn for each query of a declaration does not disprove its claim."""
    people = PAIRS[neighbours][1]
    opened = open_sides([VISITS], budget, neighbours, people, tmp_path)
    findings = [case.run(ALPHA) for case in query_cases(opened, 128, epsilon=epsilon_for(budget))]

    assert [] == [one.subject for one in findings if one.verdict is Verdict.CONVICTED]
    assert sum(one.evidence is not None for one in findings) >= 12


def test_a_refusal_on_one_side_alone_is_convicted(
    sides: NeighboringCurators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that fails only if one person is in the data is convicted without any sample."""
    whole = curators.Curator.sql

    def choosy(self: Curator, text: str, **want: Any) -> Any:
        if self is sides.curators[1]:
            return whole(self, "SELECT MAX(age) FROM visits", **want)
        return whole(self, text, **want)

    monkeypatch.setattr(curators.Curator, "sql", choosy)
    case = next(iter(query_cases(sides, 64, epsilon=1)))

    assert case.run(ALPHA).verdict is Verdict.CONVICTED


def test_the_claim_is_the_charge(sides: NeighboringCurators) -> None:
    """The audited claim is exactly the loss that the ledger charged."""
    first = sides.curators[0]
    share = first.preview("SELECT COUNT(*) AS n FROM visits", epsilon=3).cost.share

    assert 3 == pytest.approx(float(share) * float(first.terms.epsilon), rel=1e-9)
    assert claim_of(PureLoss(3)).value == 3


def test_outliers_are_not_alike_where_no_value_is_above_zero() -> None:
    """High and low outliers differ, for any bounds."""
    table = Table("t", "nowhere.parquet", unit="pid", columns={"x": Float(-5, 0)})
    low, high = make_pair([table], Person.LOW, Person.HIGH)

    assert [-5.0, 0.0] == [world.rows["t"][-1]["x"] for world in (low, high)]
