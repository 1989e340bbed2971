"""Attacks on numbers: last digits, order of sums, overflow, odd values, and empty tables.

Each attack first succeeds against a naive program on the same rows.
"""

import gc
import math
import random
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from confide.audit import Claim, weigh
from confide.curator import Curator
from confide.declare import Budget, Float, Int, Table, Text
from confide.ledger import Hold, QueryIdentity
from confide.loss import Share
from confide.mechanisms import Gaussian
from confide.noise import SYSTEM, DiscreteLaplace, Integer, RoundedGaussian
from confide.release import add_noise
from support.entropy import SeededEntropy
from support.neighbours import LARGE_BUDGET, open_one, outcome, totals_of
from support.places import PLACES, find_place

TINY: Final = 2.0**-60
SUMS: Final = "SELECT SUM(x) AS s FROM p"
STATISTICS: Final = (
    SUMS,
    "SELECT AVG(x) AS m FROM p",
    "SELECT VAR_SAMP(x) AS v FROM p",
    "SELECT COUNT(*) AS n, SUM(x * 3) AS s FROM p",
    "SELECT MEDIAN(x) AS q FROM p",
    "SELECT x > 0 AS k, COUNT(*) AS n FROM p GROUP BY 1",
)


def naive_laplace(size: int, entropy: SeededEntropy) -> np.ndarray:
    uniform = (entropy.words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53 - 0.5
    return np.asarray(-np.sign(uniform) * np.log1p(-2 * np.abs(uniform)))


@pytest.mark.statistical
def test_last_digits_tell_nothing(entropy: SeededEntropy) -> None:
    """Answers near 0 and near 2**-60 lie on one grid; naive doubles are distinguished at once.

    The auditor rejects a correct mechanism with probability at most 1e-9.
    """
    size = 2_000
    naive = [x + naive_laplace(size, entropy) for x in (0.0, TINY * 3)]
    assert weigh(naive[0], 1.0 + naive[1], Claim.epsilon(1.5)).is_disproof

    released = []
    for value in (0.0, TINY * 3):
        curator = open_one([{"who": 1, "x": value}, {"who": 2, "x": 0.5}], {"x": Float(0, 1)})
        answer = curator.sql(SUMS, epsilon=1)
        sealed = curator._engine.run(answer.plan.measurement, _pay(curator))
        drawn = [
            add_noise(sealed, answer.plan, entropy).values(answer.plan)[0] for _ in range(size)
        ]
        step = float(answer.plan.noise.steps[0])
        released.append(np.array(drawn))
        assert (np.rint(released[-1] / step) * step == released[-1]).all()
    assert not weigh(released[0], released[1], Claim.epsilon(1), false_alarms=1e-9).is_disproof


def _pay(curator: Curator) -> Hold:
    return curator.ledger.reserve(QueryIdentity("test", "", ""), Share.floor("1%"))


def test_the_order_of_rows_does_not_change_sums() -> None:
    """If a large value precedes or follows small ones, doubles differ by 1,000, our totals by 0."""
    values = [2.0**53] + [1.0] * 1_000
    naive = [float(np.add.accumulate(np.array(order))[-1]) for order in (values, values[::-1])]
    assert 1_000 == naive[1] - naive[0]

    sums = [
        totals_of(
            open_one([{"who": i, "x": x} for i, x in enumerate(order)], {"x": Float(0, 2.0**53)}),
            SUMS,
        )
        for order in (values, values[::-1])
    ]
    assert sums[0] == sums[1]


@pytest.mark.parametrize(
    ("kind", "column", "value"),
    [
        (pa.int8(), Int(-200, 200), 127),
        (pa.int64(), Int(-(2**53), 2**53), 2**63 - 1),
        (pa.int64(), Float(0, 1e19), 2**63 - 1),
        (pa.uint64(), Int(-5, 100), 2**64 - 1),
        (pa.uint32(), Int(-5, 100), 2**32 - 1),
        (pa.float32(), Float(0, 1e38), 3e38),
        (pa.float32(), Int(0, 100), 16_777_217.0),
        (pa.decimal128(38, 0), Int(0, 100), 10**37),
        (pa.float64(), Int(0, 2**53), 1e300),
    ],
    ids=str,
)
def test_wide_values_neither_wrap_nor_fail(kind: Any, column: Any, value: Any) -> None:
    """The largest value of a stored type changes the sum by at most one clipped row."""
    schema = pa.schema({"who": pa.int64(), "x": kind})
    rows = [{"who": i, "x": 1} for i in range(50)]
    before = open_one(rows, {"x": column}, schema=schema)
    after = open_one([*rows, {"who": 50, "x": value}], {"x": column}, schema=schema)
    plan = before.sql(SUMS, epsilon=1).plan

    moved = totals_of(after, SUMS)[()][0] - totals_of(before, SUMS)[()][0]
    assert 0 < moved <= plan.totals[0].per_row


def test_naive_sums_of_small_types_wrap() -> None:
    """The naive version is vulnerable: int8 sums wrap around, and float32 loses single rows."""
    with np.errstate(over="ignore"):
        assert np.array([127, 1], dtype=np.int8).sum(dtype=np.int8) < 0
    assert np.float32(2**24) + np.float32(1) == np.float32(2**24)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, -0.0, None, 5e-324, 1e308], ids=str)
@pytest.mark.parametrize("text", STATISTICS)
def test_odd_values_change_no_shape(text: str, odd: float | None) -> None:
    """With one odd value, or none, answers have the same shape and finite numbers."""
    rows: list[dict[str, Any]] = [{"who": i, "x": i / 10} for i in range(10)]
    sides = [open_one(more, {"x": Float(0, 1)}) for more in (rows, [*rows, {"who": 99, "x": odd}])]

    assert 1 == len({outcome(side, text) for side in sides})
    for side in sides:
        told = side.sql(text, epsilon=1).rows
        assert all(
            value is not None and math.isfinite(value) for row in told for value in row.values()
        )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) AS n FROM p WHERE {} % -1 = 0",
        "SELECT SUM({} % -1) AS s FROM p",
        "SELECT COUNT(*) AS n FROM p WHERE {} / -1 > 0",
        "SELECT COUNT(*) AS n FROM p WHERE -({}) > 0",
        "SELECT COUNT(*) AS n FROM p WHERE ABS({}) > 0",
        "SELECT COUNT(*) AS n FROM p WHERE ROUND({}, -3) > 0",
        "SELECT COUNT(*) AS n FROM p WHERE {} - 1 > 0",
        "SELECT COUNT(*) AS n FROM p WHERE {} * 3 > 0",
    ],
)
@pytest.mark.parametrize(
    "least",
    ["-9223372036854775808", "-9223372036854775807 - 1", "CAST('-9223372036854775808' AS BIGINT)"],
)
def test_the_smallest_64_bit_integer_is_not_a_fault(text: str, least: str) -> None:
    """A row that reaches -2^63 is answered like any other; dividing it by -1 overflows naively."""
    with pytest.raises(duckdb.Error):
        duckdb.execute("SELECT x % -1 FROM (VALUES ((-9223372036854775808)::BIGINT)) v(x)")
    reached = text.format(f"(CASE WHEN x > 50 THEN {least} ELSE 0 END)")
    seen = {
        outcome(
            open_one([{"who": 1, "x": 1}, {"who": 2, "x": value}], {"x": Int(0, 100)}, unique=True),
            reached,
        )
        for value in (30, 60)
    }
    assert {"answered"} == {words[0] for words in seen}
    assert 1 == len(seen)


def test_naive_clipping_lets_nan_through() -> None:
    """The naive version is vulnerable: one NaN makes a clipped sum NaN."""
    assert math.isnan(np.clip(np.array([0.1, math.nan]), 0, 1).sum())


@pytest.mark.parametrize("text", STATISTICS)
def test_no_rows_are_answered_like_one(text: str) -> None:
    """An empty table is answered in the same shape as a table of one person."""
    schema = pa.schema({"who": pa.int64(), "x": pa.float64()})
    sides = [
        open_one(rows, {"x": Float(0, 1)}, schema=schema) for rows in ([], [{"who": 1, "x": 0.5}])
    ]

    assert outcome(sides[0], text) == outcome(sides[1], text)
    with pytest.raises(ZeroDivisionError):
        _ = sum([]) / len([])


NAMES: Final = ("u", "#", "//", "--", ";", "'", "\t", "|", "\\", "%", "\ufeff")


@pytest.mark.parametrize("mark", NAMES, ids=ascii)
def test_no_line_of_a_file_changes_how_others_are_read(mark: str, tmp_path: Path) -> None:
    """In a CSV file, one more person adds one row, whatever their identifiers begin with.

    A reader that guesses the dialect treats lines that begin with # as comments as soon as one line
    begins differently. That one person then changes a count by all others.
    """
    lines = [f"{mark}{i},1,n\n" for i in range(40)]
    counts: list[int] = []
    nobody: list[str] = []
    for more in (nobody, ["7,1,n\n"], [f"{mark},1,n\n"]):
        path = tmp_path / f"{len(counts)}.csv"
        path.write_text("who,x,note\n" + "".join([*more, *lines]), encoding="utf-8")
        table = Table("p", str(path), unit="who", columns={"x": Int(0, 1), "note": Text()})
        counts.append(
            totals_of(Curator([table], budget=LARGE_BUDGET), "SELECT COUNT(*) AS n FROM p")[()][0]
        )

    assert [40, 41, 41] == counts


def flip_coins(chance: float) -> Callable[[], int]:
    """Return a naive sampler that flips coins until the first tail and adds a sign."""

    def draw() -> int:
        size = 0
        while random.random() > chance:
            size += 1
        return size if random.random() < 0.5 else -size

    return draw


def list_steps(draw: Callable[[], Integer]) -> tuple[tuple[str, int], ...]:
    """Return the instructions of one draw, in order."""
    steps: list[tuple[str, int]] = []

    def note(frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes = True
        module = frame.f_globals.get("__name__", "")
        if event == "opcode" and (module == __name__ or module.startswith("confide.")):
            steps.append((frame.f_code.co_qualname, frame.f_lasti))
        return note

    before = sys.gettrace()
    gc.disable()  # collecting the garbage of other tests would add steps
    sys.settrace(note)
    try:
        draw()
    finally:
        sys.settrace(before)
        gc.enable()
    return tuple(steps)


LAWS: Final = (DiscreteLaplace(Fraction(20)), RoundedGaussian(Fraction(400)))


@pytest.mark.statistical
def test_instructions_do_not_depend_on_the_noise() -> None:
    """Every draw runs the same instructions, whatever its size; coin flips take more for more.

    Draws that doubles cannot decide are left out. They depend on digits far beyond those that
    determine the size, and occur once in 10^8 draws or less.
    """
    assert 10 < len({list_steps(flip_coins(1 / 20)) for _ in range(300)})
    for law in LAWS:
        taken = [list_steps(partial(law.draw_one, SYSTEM)) for _ in range(300)]
        assert 1 == len({steps for steps in taken if "_settle" not in dict(steps)})


def test_gaussian_noise_meets_its_claim_at_every_epsilon() -> None:
    """At epsilon 20, the textbook's standard deviation exceeds delta 100 times; ours is exact."""
    epsilon, delta = 20.0, 1e-5
    textbook = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    broken = Gaussian(1, mu=Fraction(1 / textbook).limit_denominator(10**6)).loss.delta(epsilon)
    kept = Gaussian(1, epsilon, delta).loss.delta(epsilon)

    assert 100 * delta < broken
    assert 0.9 * delta < kept <= delta


@pytest.mark.parametrize("name", PLACES)
def test_no_engine_adds_in_small_floats(name: str, request: pytest.FixtureRequest) -> None:
    """One row of 1 changes a sum of float32 by 1, however large the others are.

    In float32 it is lost next to 2^24, or changes the sum by 2, which is more than one row may.
    """
    many = [float(2**20)] * 16
    naive = [np.add.accumulate(np.array(x, dtype=np.float32))[-1] for x in (many, [*many, 1.0])]
    assert naive[0] == naive[1]

    schema = pa.schema({"who": pa.int64(), "x": pa.float32()})
    totals = []
    for values in (many, [*many, 1.0]):
        rows = pa.table({"who": list(range(len(values))), "x": values}, schema=schema)
        table = Table("p", rows, unit="who", columns={"x": Float(0, 2**20, step=1)})
        moved = find_place(name, request).move([table])
        totals.append(totals_of(Curator(moved, budget=LARGE_BUDGET), SUMS)[()])

    assert 1 == totals[1][0] - totals[0][0]


def test_bounds_and_counts_are_never_taken_from_rows() -> None:
    """Noise and error bars are the same for values of 1 and of a million, and for any n."""
    columns = {"x": Float(0, 1e6)}
    few = open_one([{"who": i, "x": 1.0} for i in range(3)], columns, budget=Budget(2))
    many = open_one([{"who": i, "x": 1e9} for i in range(300)], columns, budget=Budget(2))

    assert few.preview(SUMS, epsilon=1).errors == many.preview(SUMS, epsilon=1).errors
    assert few.sql(SUMS, epsilon=1).plan.noise == many.sql(SUMS, epsilon=1).plan.noise
