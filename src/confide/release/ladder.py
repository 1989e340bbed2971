"""Several quantiles chosen from exact counts by cell; the counts stay here."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from confide.engines.protocol import Integers, Pair, Sealed, open_counts
from confide.mechanisms.grid import saturate
from confide.noise import Entropy
from confide.plan import Cells
from confide.plan.quantiles import Ladder
from confide.release.noise import draw_noise

__all__ = ["climb"]

NOTHING = np.empty(0, dtype=np.int64)
FINENESS = 100_000


@dataclass(frozen=True, slots=True)
class _Landing:
    """A chosen cell, and how many rows lie before it and up to its end, as far as released."""

    cell: int
    before: int
    upto: int


def climb(
    sealed: Sealed,
    cells: Cells,
    ladder: Ladder,
    levels: Sequence[Fraction],
    entropy: Entropy,
    *,
    size: int,
) -> list[int]:
    """Return the cell of each level; ``size`` is the number of rows as it was released.

    # Privacy: of the counts nothing leaves but the chosen cells. What is wanted of a rung follows
    # from earlier choices and noisy counts alone.
    """
    (counts,) = open_counts(sealed)
    filled, rows = counts.get((), (NOTHING, NOTHING))
    order = np.argsort(filled)
    exact = filled[order], rows[order]
    landings: dict[int | None, _Landing] = {}
    for rungs in ladder.rounds:
        for rung in rungs:
            below = landings.get(rung.below, _Landing(-1, 0, 0))
            above = landings.get(rung.above, _Landing(cells.count, size, size))
            wanted = round(levels[rung.place] * size)
            landings[rung.place] = _land(
                exact, cells, ladder, (below, above), entropy, wanted=wanted
            )
    return [landings[place].cell for place in range(len(levels))]


def _land(
    exact: Pair,
    cells: Cells,
    ladder: Ladder,
    sides: tuple[_Landing, _Landing],
    entropy: Entropy,
    *,
    wanted: int,
) -> _Landing:
    below, above = sides
    first, last = below.cell + 1, above.cell
    if first >= last or (wanted <= below.upto and below.cell >= 0):
        return below if below.cell >= 0 else above
    if wanted >= above.before and above.cell < cells.count:
        return above
    inside = slice(*np.searchsorted(exact[0], [first, last]))
    filled, rows = exact[0][inside], exact[1][inside]
    level = _read_level(wanted - below.upto, above.before - below.upto)
    cell = _choose((filled, rows), cells, ladder, (first, last), entropy, level=level)
    place = int(np.searchsorted(filled, cell))
    held = int(rows[place]) if place < len(filled) and filled[place] == cell else 0
    left, own = (
        saturate(count + int(noise))
        for count, noise in zip(
            (int(rows[:place].sum()), held), draw_noise(ladder.noise, 2, entropy)[:, 0], strict=True
        )
    )
    if own <= ladder.slack:
        return _Landing(cell, wanted, wanted)
    before = min(max(below.upto + left, below.upto), max(above.before, below.upto))
    upto = min(max(before + own, before), max(above.before, before))
    return _Landing(cell, before, upto)


def _read_level(wanted: int, rows: int) -> Fraction:
    """Return which part of a rung's rows is wanted, from released numbers; never none or all."""
    part = Fraction(wanted, max(rows, 1)).limit_denominator(FINENESS)
    return min(max(part, Fraction(1, FINENESS)), Fraction(FINENESS - 1, FINENESS))


def _choose(
    exact: Pair,
    cells: Cells,
    ladder: Ladder,
    within: tuple[int, int],
    entropy: Entropy,
    *,
    level: Fraction,
) -> int:
    """Return a cell of [first, last), the likelier the nearer it is to the wanted part of rows."""
    filled, rows = exact
    breaks = np.empty(2 * len(filled) + 2, dtype=np.int64)
    breaks[0], breaks[-1] = within
    breaks[1:-1:2], breaks[2:-1:2] = filled, filled + 1
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows)])
    ranks = level.denominator * before
    low, high = np.repeat(ranks, 2)[:-1], np.repeat(ranks, 2)[1:]
    rank = level.numerator * int(before[-1])
    gaps: Integers = np.maximum(np.maximum(low - rank, rank - high), 0)
    choice = ladder.choose(level)
    place = int(choice.choose_interval(cells.start(breaks), -gaps, entropy=entropy))
    return int(np.clip(cells.find(np.array([place])), within[0], within[1] - 1)[0])
