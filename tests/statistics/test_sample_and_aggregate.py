"""Sample and aggregate: the estimator's input, a unit's influence, and the analyst's view."""

import math
from contextlib import suppress
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.curator import Curator
from confide.declare import ROW, Bool, Budget, Category, Float, Int, Table
from confide.engines.protocol import Block, SealedBlocks
from confide.engines.sql.blocks import compute_blocks
from confide.errors import BadArgument, BadDeclaration, ConfideError, Refusal
from confide.ledger import Hold
from confide.loss import PureLoss, Share
from confide.mechanisms import Neighbours
from confide.noise import SYSTEM
from confide.plan.selection import BlockReading, choose_rank, grid_of_bounds, sum_noise
from confide.release.selection import add_blocks, choose_block_rank
from confide.release.unseal import unseal
from confide.statistics.sample_and_aggregate import correct_bias
from support.auditor import audit
from support.entropy import SeededEntropy
from support.samples import curator_of, is_within

UNIT: Final = grid_of_bounds(Fraction(0), Fraction(1))


def declare(ids: list[int], x: list[float], *, rows: int = 1, unit: Any = "pid") -> Table:
    data = pa.table({"pid": ids, "x": x})
    return Table("people", data, unit=unit, columns={"x": Float(0, 100)}, max_rows_per_unit=rows)


def read_blocks(table: Table, blocks: int) -> list[Block]:
    """Return the rows that the estimator received, by block."""
    seen: list[Block] = []

    def look(block: Block) -> float:
        seen.append(block)
        return 0.0

    curator = Curator([table], budget=Budget(1))
    reading = BlockReading(table, ("x",), blocks)
    curator._engine.run_blocks(reading, Hold(0, Share.floor("1/2")), look, 1, SYSTEM)
    return seen


def test_a_unit_lies_in_one_block_within_its_limit() -> None:
    """All kept rows of a unit are in the same block, and at most the declared number are kept."""
    ids = [unit for unit in range(200) for _ in range(5)]
    seen = read_blocks(
        declare(ids, [float(unit % 100) + 0.001 * (unit // 100) for unit in ids], rows=3), 20
    )
    where: dict[float, set[int]] = {}
    for number, block in enumerate(seen):
        for value in block["x"]:
            where.setdefault(float(value), set()).add(number)

    assert 600 == sum(len(block) for block in seen)
    assert {1} == {len(blocks) for blocks in where.values()}
    assert 15 <= len(seen) <= 20


def test_rows_without_a_unit_are_spread_evenly() -> None:
    """If each row is its own unit, rows are spread over all blocks, even equal ones."""
    seen = read_blocks(declare(list(range(2_000)), [7.0] * 2_000, unit=ROW), 10)

    assert 10 == len(seen)
    assert all(110 <= len(block) <= 300 for block in seen)  # one in 10^9 lies outside


def raise_secret(block: Block) -> float:
    raise ValueError(f"the first value is {block['x'][0]}")


FAILURES: Final[dict[str, Any]] = {
    "raises": raise_secret,
    "nan": lambda block: float("nan"),
    "infinite": lambda block: float("inf"),
    "shape": lambda block: [1.0, 2.0],
    "text": lambda block: "seven",
    "none": lambda block: None,
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failed_block_counts_as_the_lower_bound(name: str, caplog: Any, capsys: Any) -> None:
    """An estimator that fails on every block gives the lower bound, without a message."""
    curator = Curator([declare(list(range(500)), [42.0] * 500)], budget=Budget(10**8))
    found = curator.sample_and_aggregate(
        "people", FAILURES[name], columns=["x"], bounds=[(3, 9)], epsilon=10**6
    )

    assert 3.0 == pytest.approx(found.value, abs=1e-3)
    assert "" == caplog.text + capsys.readouterr().out


@pytest.mark.parametrize("method", ["window", "mean", "median"])
def test_the_noiseless_result_is_that_of_the_blocks(method: str, entropy: SeededEntropy) -> None:
    """At a huge epsilon, the mean over blocks is close to the mean of all rows."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    x = rng.uniform(20, 40, 5_000)
    curator = curator_of({"x": x}, {"x": Float(0, 100)}, Budget(10**9))
    for bounds in ([(0, 100)], "column"):
        found = curator.sample_and_aggregate(
            "people", np.mean, columns=["x"], bounds=bounds, method=method, epsilon=10**7
        )
        assert x.mean() == pytest.approx(found.value, abs=0.4)


def test_several_numbers_come_in_order(entropy: SeededEntropy) -> None:
    """An estimator of two numbers has two values, errors, and intervals, each in its bounds."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    x = rng.normal(50, 5, 20_000)
    curator = curator_of({"x": x}, {"x": Float(0, 100)}, Budget(100))
    found = curator.sample_and_aggregate(
        "people",
        lambda block: [np.mean(block["x"]), np.std(block["x"])],
        columns=["x"],
        bounds=[(0, 100), (0, 20)],
        epsilon=20,
    )

    assert [50, 5] == pytest.approx(found.value, rel=0.1)
    assert all(
        low <= v <= high for v, (low, high) in zip(found.value, found.interval(), strict=True)
    )


def test_lambdas_share_no_answer() -> None:
    """Two functions that are both called lambda never share an answer."""
    curator = Curator([declare(list(range(500)), [42.0] * 500)], budget=Budget(10**8))
    ask: Any = curator.sample_and_aggregate
    terms: Any = {"columns": ["x"], "bounds": [(0, 10)], "epsilon": 10**6}
    found = [ask("people", estimator, **terms) for estimator in (lambda b: 3.0, lambda b: 7.0)]

    assert [3, 7] == pytest.approx([one.value for one in found], abs=1e-3)
    assert [False, False] == [one.reused for one in found]


def test_bias_that_falls_with_the_rows_is_corrected() -> None:
    """The corrected maximum-likelihood variance has no bias of order 1 / rows."""
    rng = np.random.default_rng(5)
    blocks = [Block({"x": rng.normal(0, 1, 20)}) for _ in range(20_000)]
    plain = np.mean([np.var(block["x"]) for block in blocks])
    corrected = np.mean([correct_bias(lambda b: np.var(b["x"]))(block) for block in blocks])

    assert 0.95 == pytest.approx(plain, abs=0.01)
    assert 1.0 == pytest.approx(corrected, abs=0.015)


@given(
    results=st.lists(st.floats(0, 1), min_size=10, max_size=30),
    place=st.integers(0, 9),
    other=st.floats(-5, 5) | st.just(float("nan")),
    squared=st.booleans(),
)
def test_one_block_moves_a_sum_within_its_window(
    results: list[float], place: int, other: float, *, squared: bool
) -> None:
    """Any change of one block's result changes the exact sum by at most the window's width."""
    noise = sum_noise([2**31], Neighbours.ADD_REMOVE, PureLoss(10**12))
    window = (2**30, 2**30 + 2**31)
    changed = [*results]
    changed[place] = other
    sums = [
        add_blocks(
            SealedBlocks(np.array(values)[:, None]),
            [UNIT],
            [window],
            noise,
            SYSTEM,
            squared=squared,
        )[0]
        * float(noise.steps[0])
        for values in (results, changed)
    ]

    assert abs(sums[0] - sums[1]) <= 2**31 * (1 + 1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_an_auditor_finds_no_more_than_was_paid(
    neighbours: Neighbours, entropy: SeededEntropy
) -> None:
    """Sums and ranks on neighboring blocks reveal no epsilon above 1."""
    one = np.full((12, 1), 0.25)
    other = one.copy()
    other[0] = 1.0
    if neighbours is Neighbours.REPLACE:
        other[1] = 1.0
    noise = sum_noise([2**32], neighbours, PureLoss(1))
    rank = choose_rank(neighbours, PureLoss(1), Fraction(1))
    coarse = grid_of_bounds(Fraction(0), Fraction(1))
    for release in (
        lambda results: (
            add_blocks(SealedBlocks(results), [UNIT], [(0, 2**32)], noise, entropy)[0]
            * float(noise.steps[0])
            // 2**32
        ),
        lambda results: (
            choose_block_rank(SealedBlocks(results), 0, coarse, rank, entropy, level=Fraction(3, 4))
            >> 29
        ),
    ):
        left, right = (np.array([release(r) for _ in range(4_000)]) for r in (one, other))

        assert audit(left, right) <= 1


def test_sealed_results_cannot_be_inspected() -> None:
    """Sealed results have no readable repr and cannot be compared."""
    sealed = SealedBlocks(np.array([[1.0]]))

    assert "SealedBlocks(...)" == repr(sealed)
    with pytest.raises(TypeError):
        _ = sealed == SealedBlocks(np.array([[1.0]]))
    with pytest.raises(TypeError):
        sealed.__reduce__()
    assert 1.0 == unseal(sealed)[0, 0]


def test_analysts_name_registered_estimators() -> None:
    """An analyst can use a registered estimator, with only the owner's columns and bounds."""
    curator = Curator([declare(list(range(500)), [42.0] * 500)], budget=Budget(10**8))
    curator.register_estimator("middle", np.median, columns=["x"], bounds=[(0, 100)])
    found = curator.as_analyst("ana").sample_and_aggregate("people", "middle", epsilon=10**6)

    assert 42.0 == pytest.approx(found.value, abs=0.01)


TYPED: Final = r'bounds="column"` if .* column, otherwise `bounds=\(low, high\)'


def test_missing_bounds_are_refused_before_any_charge() -> None:
    """An error for missing bounds shows both ways to give them; nothing is read or spent."""
    curator = Curator([declare(list(range(500)), [42.0] * 500)], budget=Budget(1))
    curator._engine.run = curator._engine.run_blocks = None  # type: ignore[method-assign, assignment]

    with pytest.raises(BadArgument, match=TYPED):
        curator.sample_and_aggregate("people", np.mean, columns=["x"], epsilon=1)
    with pytest.raises(BadArgument, match=r"pairs \(low, high\)"):
        curator.sample_and_aggregate(
            "people", np.mean, columns=["x"], bounds=[(0, 1), None], epsilon=1
        )
    with pytest.raises(BadArgument, match='"column" or pairs'):
        curator.sample_and_aggregate("people", np.mean, columns=["x"], bounds="private", epsilon=1)
    with pytest.raises(BadDeclaration, match=TYPED):
        curator.register_estimator("average", np.mean, columns=["x"])

    assert {} == curator.estimators
    assert [] == list(curator.ledger.entries())


@pytest.mark.parametrize("method", ["window", "mean", "median"])
@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "5"])
def test_column_bounds_are_those_declared(method: str, epsilon: str) -> None:
    """Numbers and intervals stay within the declared bounds of their columns, at any noise."""
    rows = {"x": np.full(600, 3.0), "age": np.arange(600) % 90, "y": np.arange(600) % 2 == 0}
    columns: Any = {"x": Float("-2.5", 60), "age": Int(0, 120), "y": Bool()}
    curator = curator_of(rows, columns, Budget(100))
    curator.register_estimator(
        "averages",
        lambda block: [np.mean(block[name]) for name in ("x", "age", "y")],
        columns=["x", "age", "y"],
        bounds="column",
    )
    analyst = curator.as_analyst("ana")
    found = analyst.sample_and_aggregate("people", "averages", method=method, epsilon=epsilon)

    limits = [(-2.5, 60), (0, 120), (0, 1)]
    for value, (low, high), (least, most) in zip(
        found.value, found.interval(0.99), limits, strict=True
    ):
        assert least <= low <= value <= high <= most


def test_column_bounds_equal_the_same_numbers() -> None:
    """An answer with the declared bounds is reused for the same bounds given as two numbers."""
    tables = [declare(list(range(500)), [42.0] * 500)]
    curator = Curator(tables, budget=Budget(10**8))
    curator.register_estimator("average", np.mean, columns=["x"], bounds="column")
    first = curator.sample_and_aggregate("people", "average", epsilon=10**6)
    curator.estimators["average"] = (np.mean, ("x",), (0, 100))
    second = curator.sample_and_aggregate("people", "average", corrected=True, epsilon=10**6)

    assert 42.0 == pytest.approx(first.value, abs=0.01)
    assert second.reused
    assert first.value == second.value


def test_estimators_within_a_column_are_corrected() -> None:
    """With column bounds, the estimator also runs on halves of blocks, unless that is disabled.

    A block of one row has no halves; its result is that of the row.
    """
    sizes: list[int] = []

    def middle(block: Block) -> float:
        sizes.append(len(block))
        return float(np.median(block["x"]))

    curator = Curator([declare(list(range(400)), [42.0] * 400)], budget=Budget(10**8))
    terms: Any = {"columns": ["x"], "blocks": 20, "epsilon": 10**6}
    calls = []
    for more in (
        {"bounds": "column"},
        {"bounds": "column", "corrected": False},
        {"bounds": (0, 9)},
    ):
        curator.sample_and_aggregate("people", middle, **terms, **more)
        calls.append((len(sizes), sum(sizes)))
        sizes.clear()

    assert [(60, 800), (20, 400), (20, 400)] == calls
    assert 3.0 == correct_bias(middle)(Block({"x": np.array([3.0])}))


@pytest.mark.parametrize("method", ["window", "mean", "median"])
def test_units_without_values_make_no_blocks(method: str) -> None:
    """If only 400 of 4,000 units have a value, no block is empty."""
    x = [42.0 if unit % 10 == 0 else None for unit in range(4_000)]
    curator = curator_of({"x": x}, {"x": Float(0, 100)}, Budget(10**8))
    found = curator.sample_and_aggregate(
        "people", np.mean, columns=["x"], bounds="column", method=method, epsilon=10**6
    )

    assert found.value == pytest.approx(42.0, abs=0.1)


def test_column_bounds_need_a_column_of_numbers() -> None:
    """A non-numeric column is refused by name, before any charge."""
    rows = {"ward": ["A", "B"] * 50, "five": [5] * 100}
    curator = curator_of(rows, {"ward": Category(["A", "B"]), "five": Int(5, 5)}, Budget(1))
    curator.register_estimator("size", len, columns=["ward"], bounds="column")

    with pytest.raises(Refusal, match="'ward' is not numeric"):
        curator.as_analyst("ana").sample_and_aggregate("people", "size", epsilon=1)
    with pytest.raises(Refusal, match="low < high"):
        curator.sample_and_aggregate("people", len, columns=["five"], bounds="column", epsilon=1)

    assert 0 == curator.budget.spent.share


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_hold_the_population_s_value(entropy: SeededEntropy) -> None:
    """For 50 samples of 5,000 rows at epsilon 2, intervals cover the mean in 88 to 99%."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    hits = 0
    for _ in range(50):
        curator = curator_of({"x": rng.normal(50, 10, 5_000)}, {"x": Float(0, 100)}, Budget(2))
        low, high = curator.sample_and_aggregate(
            "people", np.mean, columns=["x"], bounds=[(0, 100)], epsilon=2
        ).interval()
        hits += low <= 50 <= high

    assert is_within(hits, 50, 0.88, 0.99)


def test_a_unit_changes_its_own_block_alone() -> None:
    """An estimator's input depends only on its own block, in any order of rows."""
    values = np.random.default_rng(3).normal(size=2_000).round(2)
    places = np.arange(2_000) % 20
    reading = BlockReading(declare([1], [1.0]), ("x",), 20)

    def results(order: Any) -> Any:
        found = {"x": values[order], "the block": places[order]}
        every_other = lambda block: float(np.asarray(block)[::2].sum())  # noqa: E731
        return unseal(compute_blocks(found, reading, every_other, 1, SYSTEM))[:, 0]

    whole = results(np.arange(2_000))
    turned = results(np.arange(2_000)[::-1])
    without = results(np.delete(np.arange(2_000)[::-1], 5))

    assert whole.tolist() == turned.tolist()
    assert [(1_994) % 20] == np.flatnonzero(whole != without).tolist()


def test_a_long_text_changes_its_own_block_alone() -> None:
    """A long string, which widens its column, does not reorder the rows of other blocks."""
    texts = [f"t{number % 37}" for number in range(400)]
    reading = BlockReading(declare([1], [1.0]), ("x",), 20)

    def results(first: str) -> Any:
        found = {"x": np.array([first, *texts[1:]]), "the block": np.arange(400) % 20}
        leading = lambda block: int(str(np.asarray(block)[0])[1:])  # noqa: E731
        return unseal(compute_blocks(found, reading, leading, 1, SYSTEM))[1:, 0]

    assert results("t0").tolist() == results("t" + "9" * 12).tolist()


def test_halves_of_blocks_are_halved_at_random() -> None:
    """The bias correction works for sorted rows as for rows in random order.

    The mean of 8,000 corrected variances is 1, within 6.5 of its standard errors. Halves at fixed
    ranks in every block would move it by more.
    """
    count, size = 8_000, 20
    rows = np.random.default_rng(6).normal(0, 1, count * size)
    reading = BlockReading(declare([1], [1.0]), ("x",), count)
    found = {"x": rows, "the block": np.arange(count * size) % count}
    estimator = correct_bias(lambda block: np.var(block["x"]))
    results = unseal(compute_blocks(found, reading, estimator, 1, SYSTEM))[:, 0]

    assert abs(results.mean() - 1) <= 6.5 * results.std() / math.sqrt(count)


def test_bounds_without_room_are_refused_before_any_charge() -> None:
    """Bounds with steps that doubles cannot represent raise BadDeclaration, for any rows."""
    curator = Curator([declare([1, 2], [0.0, 1.0])], budget=Budget(1))

    with pytest.raises(BadArgument, match="farther apart, because results"):
        curator.sample_and_aggregate("people", np.mean, columns=["x"], bounds=(0, 1e-320), share=1)
    with pytest.raises(BadArgument, match=r"between -2\^1000 and 2\^1000"):
        curator.sample_and_aggregate("people", np.mean, columns=["x"], bounds=(0, 10**400), share=1)
    with pytest.raises(BadArgument, match="got none"):
        curator.sample_and_aggregate("people", np.mean, columns=["x"], bounds=[], share=1)

    assert 0 == curator.budget.spent.share


@pytest.mark.parametrize("method", ["window", "mean", "median"])
@pytest.mark.parametrize("bounds", ["column", (0, 1)])
@pytest.mark.parametrize("epsilon", ["1e-14", "1e-15", "1e-18", "1e-300"])
def test_noise_that_cannot_be_drawn_is_refused_before_any_charge(
    method: str, bounds: tuple[int, int] | str, epsilon: str
) -> None:
    """A tiny cost is either answered and charged, or refused and free."""
    curator = Curator([declare([1, 2], [0.0, 1.0])], budget=Budget(1))
    found = None
    with suppress(ConfideError):
        found = curator.sample_and_aggregate(
            "people",
            np.mean,
            columns=["x"],
            bounds=bounds,
            blocks=20,
            method=method,
            epsilon=epsilon,
        )

    assert (found is None) == (curator.budget.spent.share == 0)
