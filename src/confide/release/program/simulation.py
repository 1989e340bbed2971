"""Simulated intervals of ratios and of nearly linear expressions.

The released totals less a draw of the noise are totals that the rows might have. What an expression
makes of many such totals shows how far its true value may be, if it is a ratio of linear ones or
changes much like a straight line over the reach of the noise. Elsewhere the true value may be where
hardly any draw leads, and the ends of all statistics are taken along instead
(`interval_arithmetic`).
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from confide.release.estimates import Floats, Mask

__all__ = ["simulate"]

Ends = tuple[Floats, Floats]
BEND: Final = 0.25
"""How far a nearly straight expression may leave the line, as a part of how far it moves."""
USUAL: Final = 0.95
"""The part of all draws that a line is judged by."""
AFAR: Final = 1_000.0
"""Noise so many times as large takes every statistic all over its range."""


def simulate(
    compute: Callable[[int, Floats], Floats],
    totals: Floats,
    draw: Callable[[int], Floats],
    confidence: float,
    is_clipped: Mask,
    *,
    is_ratio: bool = False,
) -> Ends:
    """Return an interval from simulated totals, group by group; NaN where it cannot be relied on.

    ``compute`` gives the values of a group, by its place, from a table of its totals; ``draw``
    gives a sample of the noise of a group. Of a ratio of two linear expressions, NaN stands for a
    value whose divisor has another sign than the released one. ``is_clipped`` marks the groups with
    a statistic that was clipped to its range.

    Claim:   the interval holds the released value always, and the value without noise about as
             often as ``confidence`` says; that of a ratio, if its divisor has the released sign,
             as often as that or more often, but for what the sample of the noise is off.
    Why:     let f be the expression, y the released totals and z noise, so that y - z is true, and
             let r be the true value. Of a linear f the quantiles of f(y - z) hold r as often as
             they say. Of a ratio s / n with n > 0 too: s - r n is noise alone at the truth, and
             f(y - z) <= r says that this noise is at least what s - r n came out as; draws
             without a divisor above zero count as both below and above, which only widens. Else
             f must be nearly linear: f(y - z) + f(y + z) - 2 f(y) is 0 for each z if it is, and
             may have a quarter of the size of f(y - z) - f(y + z), by their 95 % quantiles. Then
             the interval has the outer ends of the quantiles and of these mirrored at f(y). A
             clipped statistic may be at the end of its range in all draws, which then do not show
             how far the true one is; only an f that no noise changes needs no draws.
    Checked: tests/release/test_program_intervals.py (how often they hold).
    """
    ends = np.full((2, len(totals)), np.nan)
    for place, row in enumerate(totals):
        noise = draw(place)
        with np.errstate(all="ignore"):  # near the end of the doubles, there may be no value
            own = compute(place, row[None, :])[0]
            if is_clipped[place] and (compute(place, row - AFAR * noise) != own).any():
                continue
            likely = compute(place, row - noise)
            low, high = _quantiles(likely, confidence)
            if is_ratio:
                ends[:, place] = min(low, own), max(high, own)
            elif not _is_bent(own, likely, compute(place, row + noise), max(USUAL, confidence)):
                ends[:, place] = min(low, 2.0 * own - high), max(high, 2.0 * own - low)
    ends[:, ~np.isfinite(ends).all(axis=0)] = np.nan
    return ends[0], ends[1]


def _is_bent(own: float, likely: Floats, opposite: Floats, usual: float) -> bool:
    """Tell whether the middle of opposite values is far from what lies between them."""
    aside, moved = np.abs(likely + opposite - 2.0 * own), np.abs(likely - opposite)
    is_known = np.isfinite(aside) & np.isfinite(moved)
    bend = np.quantile(np.where(is_known, aside, np.inf), usual, method="higher")
    reach = np.quantile(np.where(is_known, moved, 0.0), usual, method="higher")
    return bool(bend > BEND * reach)


def _quantiles(values: Floats, confidence: float) -> tuple[float, float]:
    """Return between which two values so many lie; those unknown are beyond both."""
    is_known = np.isfinite(values)
    below, above = np.where(is_known, values, -np.inf), np.where(is_known, values, np.inf)
    return (
        float(np.quantile(below, (1.0 - confidence) / 2.0, method="lower")),
        float(np.quantile(above, (1.0 + confidence) / 2.0, method="higher")),
    )
