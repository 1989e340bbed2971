"""Probabilities of a symmetric integer distribution, from its exact tail."""

from collections.abc import Mapping

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from confide.noise import Law

__all__ = ["at_least", "cells", "floor", "point", "sort_into_cells"]

PRECISION = 160


def floor(real: arb) -> int:
    """Return the integer part of a ball, or raise ValueError if it is not unique."""
    whole = real.floor().unique_fmpz()
    if whole is None:
        raise ValueError(f"{real} has more than one floor; raise the precision")
    return int(whole)


def at_least(law: Law, value: int) -> arb:
    """Return an enclosure of P(Z >= value)."""
    with ctx.workprec(PRECISION):
        return law.tail(value) / 2 if value > 0 else 1 - law.tail(1 - value) / 2


def point(law: Law, value: int) -> float:
    """Return P(Z = value)."""
    with ctx.workprec(PRECISION):
        return float(at_least(law, value) - at_least(law, value + 1))


def cells(law: Law, width: int, reach: int) -> Mapping[int, float]:
    """Return P(c width <= Z + width // 2 < (c + 1) width) for each cell c within ``reach``."""
    with ctx.workprec(PRECISION):
        ends = [at_least(law, cell * width - width // 2) for cell in range(-reach, reach + 2)]
        return {
            cell: float(ends[cell + reach] - ends[cell + reach + 1])
            for cell in range(-reach, reach + 1)
        }


def sort_into_cells(draws: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Return the cell of each draw."""
    return (draws + width // 2) // width
