"""Values from averaged rows: chosen as their law says, nearer, and private on all neighbours tried.

Privacy rests on two facts: a row more moves the rank of no place by more than a row, and averages
decay no faster than was paid for, so that the sum of all weights moves little. Laws that are
sharper or average over fewer rows than was paid for are caught by six pairs of neighbours.
"""

from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from confide.engines.protocol import Pair
from confide.loss import GaussianLoss, Loss, PureLoss
from confide.mechanisms import Exponential, Neighbours
from confide.plan import Cells, Quantile, Range
from confide.plan.cells import cells_for
from confide.plan.quantiles import plan_quantile
from confide.release.quantiles import Ranks
from confide.release.rank_averages import MIN_HALF_DISTANCE, _average, average_rows, count_columns
from support.averages import chances_as_run, chances_as_stated
from support.entropy import SeededEntropy

TABLES: Final = 300
GRANTS: Final = (PureLoss(1), PureLoss(Fraction(1, 3)), PureLoss(4), GaussianLoss(Fraction(1, 2)))

Floats = NDArray[np.float64]


def make_cells(count: int) -> Cells:
    cells = cells_for(Range(0, count - 1), Fraction(1), 1, is_integer=True)
    assert cells is not None
    return cells


def plan_one(level: str, granted: Loss) -> Quantile:
    neighbours = Neighbours.ADD_REMOVE
    return plan_quantile(0, Fraction(level), 1, neighbours, granted, is_grouped=False)


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return random choices that depend on the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


def draw_counts(rng: np.random.Generator, count: int) -> Pair:
    """Return up to 25 rows in up to four cells, so that wide gaps and heaps are common."""
    few = rng.integers(0, count, int(rng.integers(1, 5)))
    cells, rows = np.unique(rng.choice(few, int(rng.integers(0, 26))), return_counts=True)
    return cells.astype(np.int64), rows


def add_row(counts: Pair, cell: int) -> Pair:
    cells, rows = np.unique([*np.repeat(*counts).tolist(), cell], return_counts=True)
    return cells, rows


def spend(old: Floats, new: Floats, granted: Loss) -> float:
    """Return what one pair of laws spends: the greatest log-ratio, or what log-ratios span."""
    ratios = np.log(new / old)
    return float(np.abs(ratios).max() if isinstance(granted, PureLoss) else np.ptp(ratios))


@pytest.mark.parametrize("granted", GRANTS, ids=str)
@pytest.mark.parametrize("level", ["0.5", "0.9", "0.25"])
def test_cells_have_the_chances_that_the_law_states(
    level: str, granted: Loss, rng: np.random.Generator
) -> None:
    """Whatever the rows, chances as run are those stated half by half, to a millionth."""
    quantile = plan_one(level, granted)
    for count in (1, 2, 31, 1_500):
        counts = draw_counts(rng, count)
        stated = chances_as_stated(counts, quantile, make_cells(count))

        assert pytest.approx(stated, rel=1e-6) == chances_as_run(
            counts, quantile, make_cells(count)
        )


def test_groups_are_averaged_each_alone(rng: np.random.Generator) -> None:
    """Groups of several sizes, one of them empty, have the same stretches together and alone."""
    quantile, cells = plan_one("0.9", PureLoss(1)), make_cells(40)
    nothing = (np.empty(0, np.int64), np.empty(0, np.int64))
    groups = [nothing, *(draw_counts(rng, 40) for _ in range(20)), nothing]
    together = average_rows(groups, cells, quantile)
    for place, one in enumerate(groups):
        alone = average_rows([one], cells, quantile)

        assert alone.places[0].tolist() == together.places[place].tolist()
        assert alone.scores[0].tolist() == together.scores[place].tolist()


def greatest_part(quantile: Quantile, granted: Loss, rng: np.random.Generator) -> float:
    """Return the most that one row more spends in some tables, as a part of what was paid."""
    paid, most = float(quantile.loss.epsilon), 0.0
    for _ in range(TABLES):
        count = int(rng.integers(2, 40))
        counts, cells = draw_counts(rng, count), make_cells(count)
        near = counts[0] if len(counts[0]) and rng.random() < 0.5 else np.arange(count)
        more = add_row(counts, int(rng.choice(near)))
        old, new = (chances_as_run(one, quantile, cells) for one in (counts, more))
        most = max(most, spend(old, new, granted) / paid)
    return most


@pytest.mark.parametrize("granted", GRANTS, ids=str)
@pytest.mark.parametrize("level", ["0.5", "0.9", "0.25"])
def test_no_row_spends_more_than_was_paid(
    level: str, granted: Loss, rng: np.random.Generator
) -> None:
    """In 300 tables with wide gaps and heaps one row more spends at most epsilon."""
    assert greatest_part(plan_one(level, granted), granted, rng) <= 1


def part_of_worst(quantile: Quantile) -> float:
    """Return the most that some pairs of neighbours spend, as a part of what was paid.

    All rows lie beside one end of a wide range, so the empty rest of it has nearly all weight. A
    row more, beside that end, brings the quantile nearer to cells there, and further from the rest.
    """
    near, end = (998, 999) if quantile.level >= Fraction(1, 2) else (1, 0)
    spent = []
    for rows in (1, 2, 4, 8, 16, 32):
        old = (np.array([near]), np.array([rows]))
        first, second = (
            chances_as_run(one, quantile, make_cells(1_000)) for one in (old, add_row(old, end))
        )
        spent.append(spend(first, second, PureLoss(1)))
    return max(spent) / float(quantile.loss.epsilon)


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(1), Fraction(4)], ids=str)
@pytest.mark.parametrize("level", ["0.5", "0.9", "0.25"])
def test_a_cost_a_tenth_lower_would_be_caught(level: str, epsilon: Fraction) -> None:
    """Some neighbours spend over nine tenths of what was paid, and none more than all of it."""
    assert 0.9 < part_of_worst(plan_one(level, PureLoss(epsilon))) <= 1


@pytest.mark.parametrize("level", ["0.5", "0.9", "0.25"])
def test_averages_over_fewer_rows_would_be_caught(level: str) -> None:
    """With the same sharpness and averages that decay half as fast again a row spends too much."""
    quantile = plan_one(level, PureLoss(1))
    careless = replace(quantile, decay=quantile.decay * Fraction(3, 2))

    assert part_of_worst(careless) > 1


@pytest.mark.parametrize("level", ["0.5", "0.9", "0.25"])
def test_a_sharper_choice_would_be_caught(level: str) -> None:
    """A choice that is sharper by a tenth spends more than epsilon."""
    quantile = plan_one(level, PureLoss(1))
    sharper = Exponential(quantile.choice.sensitivity, quantile.choice.epsilon * Fraction(11, 10))

    assert part_of_worst(replace(quantile, choice=sharper)) > 1


@pytest.mark.parametrize("level", ["0.5", "0.9"])
def test_averages_of_weights_fall_as_the_proof_says(level: str) -> None:
    """Their logarithm falls by the decay from a whole rank to the next, and little more between."""
    quantile = plan_one(level, PureLoss(1))
    fall, decay = float(quantile.choice.rate * quantile.level.denominator), float(quantile.decay)
    a, b, t = np.exp(-fall), np.exp(-decay), np.arange(-500.0, 501.0)
    own = a / b * ((1 - b) / (1 - a)) ** 2
    weights = (1 - own) * (1 - b) / (1 + b) * b ** np.abs(t) + own * (t == 0)
    ranks = np.arange(-40, 41) / 10
    phi = np.exp(-fall * np.abs(np.subtract.outer(ranks, t))) @ weights
    ratios = phi / phi[40] * np.exp(decay * np.abs(ranks))

    assert pytest.approx(1, abs=1e-12) == weights.sum()
    assert pytest.approx(1, abs=1e-12) == ratios[::10]
    assert 1 / np.cosh(fall / 2) <= ratios.min() * (1 + 1e-12)
    assert ratios.max() <= 1 + 1e-12


def average_exactly(x: list[int], place: int, quantile: Quantile) -> Decimal:
    """Return the average at one place of a row of places, to forty digits."""
    fall, decay = (
        Decimal(one.numerator) / one.denominator
        for one in (quantile.choice.rate * quantile.level.denominator, quantile.decay)
    )
    a, b = (-fall).exp(), (-decay).exp()
    own = a / b * ((1 - b) / (1 - a)) ** 2
    gaps = [after - before for before, after in pairwise(x)]
    above = sum(b ** (i - place + 1) * gap for i, gap in enumerate(gaps) if i >= place)
    below = sum(b ** (place - i) * gap for i, gap in enumerate(gaps) if i < place)
    return x[place] + (1 - own) * (above - below) / (1 + b)


@pytest.mark.parametrize("epsilon", ["0.3", "1", "4"])
def test_doubles_err_by_less_than_is_set_aside(epsilon: str, rng: np.random.Generator) -> None:
    """Averages are off by less than a 2^-13 part of the stretches beside them, however wide."""
    quantile = plan_one("0.5", PureLoss(Fraction(epsilon)))
    columns = count_columns(quantile)
    gaps = (
        np.where(rng.random(columns) < 0.02, rng.integers(0, 2**56, columns), 0) + MIN_HALF_DISTANCE
    )
    x = np.cumsum(gaps)
    y, last = _average(x[None, :], quantile)[0], columns - 1
    with localcontext() as context:
        context.prec = 40
        for place in rng.integers(1, last, 8).tolist():
            exact = average_exactly(x.tolist(), place, quantile)
            stretch = min(y[place] - y[place - 1], y[place + 1] - y[place])

            assert abs(int(y[place]) - exact) <= Decimal(int(stretch)) / 2**13


def test_rows_past_what_places_tell_apart_are_left_out() -> None:
    """A cell of more rows than it has steps for is read as if it had fewer; nothing overflows."""
    quantile, cells = plan_one("0.5", PureLoss(1)), make_cells(1_000)
    chances = chances_as_run((np.array([3, 9]), np.array([2**60, 5])), quantile, cells)

    assert chances[3] > 1 - 1e-9


def expect_square(chances: Floats, exact: float) -> float:
    """Return the expected square of how many cells a value is off."""
    return float((chances * (np.arange(len(chances)) - exact) ** 2).sum())


def chances_plain(counts: Pair, quantile: Quantile, cells: Cells) -> Floats:
    """Return the chance of each cell at the same cost from rows as they are."""
    plain = Exponential(quantile.choice.sensitivity, quantile.loss.epsilon)
    ranks = Ranks.of([counts], cells, 2 * quantile.level.denominator)
    (scores,) = ranks.scores(ranks.rank_of(quantile))
    weights = np.repeat(np.exp(float(plain.rate) * scores), np.diff(ranks.breaks[0]))
    chances: Floats = weights / weights.sum()
    return chances


@pytest.mark.parametrize("level", ["0.5", "0.9"])
def test_averages_bring_values_nearer(level: str, rng: np.random.Generator) -> None:
    """Over 40 tables of 400 rows squares of errors are less than 3/4 of those without."""
    quantile, cells = plan_one(level, PureLoss(1)), make_cells(1_000)
    squares = np.zeros(2)
    for _ in range(40):
        x = np.sort((900 * rng.beta(2.0, 3.0, 400) + 50).astype(np.int64))
        counts = np.unique(x, return_counts=True)
        exact = float(np.quantile(x, float(level)))
        laws = (chances_plain, chances_as_run)
        squares += [expect_square(law(counts, quantile, cells), exact) for law in laws]

    assert squares[1] < 3 / 4 * squares[0]
