"""Values from averaged rows follow their distribution, are more accurate, and stay private.

Privacy rests on two facts: an additional row changes the rank at any position by at most one row,
and averages decay no faster than was paid for, so the sum of all weights changes little. Six pairs
of neighboring databases detect distributions that are sharper, or average over fewer rows.
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
    """Return a random generator that depends on the seed of the run."""
    return np.random.default_rng(int(entropy.words(1)[0]))


def draw_counts(rng: np.random.Generator, count: int) -> Pair:
    """Return up to 25 rows in up to four cells, so that wide gaps and ties are common."""
    few = rng.integers(0, count, int(rng.integers(1, 5)))
    cells, rows = np.unique(rng.choice(few, int(rng.integers(0, 26))), return_counts=True)
    return cells.astype(np.int64), rows


def add_row(counts: Pair, cell: int) -> Pair:
    cells, rows = np.unique([*np.repeat(*counts).tolist(), cell], return_counts=True)
    return cells, rows


def spend(old: Floats, new: Floats, granted: Loss) -> float:
    """Return the loss of one pair: the greatest log-ratio, or the span of log-ratios."""
    ratios = np.log(new / old)
    return float(np.abs(ratios).max() if isinstance(granted, PureLoss) else np.ptp(ratios))


@pytest.mark.parametrize("granted", GRANTS, ids=str)
@pytest.mark.parametrize("level", ["0.5", "0.9", "0.25"])
def test_cells_have_the_stated_probabilities(
    level: str, granted: Loss, rng: np.random.Generator
) -> None:
    """Computed probabilities equal the stated ones, computed half by half, within 10^-6."""
    quantile = plan_one(level, granted)
    for count in (1, 2, 31, 1_500):
        counts = draw_counts(rng, count)
        stated = chances_as_stated(counts, quantile, make_cells(count))

        assert pytest.approx(stated, rel=1e-6) == chances_as_run(
            counts, quantile, make_cells(count)
        )


def test_groups_are_averaged_independently(rng: np.random.Generator) -> None:
    """Groups of several sizes, including an empty one, have the same runs together and alone."""
    quantile, cells = plan_one("0.9", PureLoss(1)), make_cells(40)
    nothing = (np.empty(0, np.int64), np.empty(0, np.int64))
    groups = [nothing, *(draw_counts(rng, 40) for _ in range(20)), nothing]
    together = average_rows(groups, cells, quantile)
    for place, one in enumerate(groups):
        alone = average_rows([one], cells, quantile)

        assert alone.places[0].tolist() == together.places[place].tolist()
        assert alone.scores[0].tolist() == together.scores[place].tolist()


def greatest_part(quantile: Quantile, granted: Loss, rng: np.random.Generator) -> float:
    """Return the largest loss from one additional row, as a fraction of the cost."""
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
    """In 300 tables with wide gaps and ties, an additional row has a loss of at most epsilon."""
    assert greatest_part(plan_one(level, granted), granted, rng) <= 1


def part_of_worst(quantile: Quantile) -> float:
    """Return the largest loss of some neighboring pairs, as a fraction of the cost.

    All rows lie near one end of a wide range, so the empty rest of it has nearly all weight. An
    additional row near that end moves the quantile closer to cells there, and away from the rest.
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
def test_a_cost_ten_percent_lower_is_detected(level: str, epsilon: Fraction) -> None:
    """Some neighboring pairs have a loss over 90% of the cost, and none more than 100%."""
    assert 0.9 < part_of_worst(plan_one(level, PureLoss(epsilon))) <= 1


@pytest.mark.parametrize("level", ["0.5", "0.9", "0.25"])
def test_averages_over_fewer_rows_are_detected(level: str) -> None:
    """With the same sharpness and a decay 1.5 times as fast, the loss exceeds epsilon."""
    quantile = plan_one(level, PureLoss(1))
    careless = replace(quantile, decay=quantile.decay * Fraction(3, 2))

    assert part_of_worst(careless) > 1


@pytest.mark.parametrize("level", ["0.5", "0.9", "0.25"])
def test_a_sharper_choice_is_detected(level: str) -> None:
    """A choice that is 10% sharper has a loss above epsilon."""
    quantile = plan_one(level, PureLoss(1))
    sharper = Exponential(quantile.choice.sensitivity, quantile.choice.epsilon * Fraction(11, 10))

    assert part_of_worst(replace(quantile, choice=sharper)) > 1


@pytest.mark.parametrize("level", ["0.5", "0.9"])
def test_averages_of_weights_fall_as_proven(level: str) -> None:
    """Averaged weights fall by the decay per integer rank, and little more in between."""
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
    """Return the average at one position of a sequence, to forty digits."""
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
def test_rounding_errors_are_below_the_reserve(epsilon: str, rng: np.random.Generator) -> None:
    """Rounding errors of averages are below 2^-13 of the adjacent runs, however wide these are."""
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


def test_rows_beyond_the_steps_of_a_cell_are_ignored() -> None:
    """A cell with more rows than steps is treated as if it had fewer rows, without overflow."""
    quantile, cells = plan_one("0.5", PureLoss(1)), make_cells(1_000)
    probabilities = chances_as_run((np.array([3, 9]), np.array([2**60, 5])), quantile, cells)

    assert probabilities[3] > 1 - 1e-9


def expect_square(probabilities: Floats, exact: float) -> float:
    """Return the expected squared error of a value, in cells."""
    return float((probabilities * (np.arange(len(probabilities)) - exact) ** 2).sum())


def unaveraged_probabilities(counts: Pair, quantile: Quantile, cells: Cells) -> Floats:
    """Return the probability of each cell at the same cost, from unaveraged rows."""
    plain = Exponential(quantile.choice.sensitivity, quantile.loss.epsilon)
    ranks = Ranks.of([counts], cells, 2 * quantile.level.denominator)
    (scores,) = ranks.scores(ranks.rank_of(quantile))
    weights = np.repeat(np.exp(float(plain.rate) * scores), np.diff(ranks.breaks[0]))
    probabilities: Floats = weights / weights.sum()
    return probabilities


@pytest.mark.parametrize("level", ["0.5", "0.9"])
def test_averages_reduce_squared_errors(level: str, rng: np.random.Generator) -> None:
    """Over 40 tables of 400 rows, squared errors are below 3/4 of those without averaging."""
    quantile, cells = plan_one(level, PureLoss(1)), make_cells(1_000)
    squares = np.zeros(2)
    for _ in range(40):
        x = np.sort((900 * rng.beta(2.0, 3.0, 400) + 50).astype(np.int64))
        counts = np.unique(x, return_counts=True)
        exact = float(np.quantile(x, float(level)))
        laws = (unaveraged_probabilities, chances_as_run)
        squares += [expect_square(law(counts, quantile, cells), exact) for law in laws]

    assert squares[1] < 3 / 4 * squares[0]
