"""Linkage, reconstruction and tracing attacks on published figures."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confide.errors import BadDeclaration

__all__ = ["link_rows", "reconstruct_bits", "trace_members"]

Floats = NDArray[np.float64]


def reconstruct_bits(subsets: NDArray[np.bool_], answers: ArrayLike) -> NDArray[np.bool_]:
    """Return each person's secret bit, as counts over many subsets suggest it.

    Row i of ``subsets`` says whom question i was about; answer i is how many of them have the bit.

    Law:     the bits nearest to the least-squares solution of subsets @ bits = answers.
    Claim:   with a few times as many random subsets as people, and answers off by less than about
             the square root of their number, nearly all bits come out right.
    Why:     two tables that differ in many bits differ on most random subsets by about the root
             of the number of differences, so answers nearer than that fit one of them only.
    Source:  [DN03].
    Checked: tests/attacks/test_meaning.py.
    """
    told = np.asarray(answers, dtype=np.float64)
    if subsets.ndim != 2 or len(told) != len(subsets):
        raise BadDeclaration(
            f"answers must be one for each of {len(subsets)} subsets, got {len(told)}"
        )
    solved, *_ = np.linalg.lstsq(subsets.astype(np.float64), told, rcond=None)
    return np.asarray(solved > 0.5)


def trace_members(people: Floats, means: ArrayLike, reference: ArrayLike) -> Floats:
    """Return for each person a score, the higher the likelier they are among those averaged.

    ``means`` were published about a group, ``reference`` is known of the population.

    Law:     the score is the sum over columns of (value - reference) (mean - reference).
    Claim:   for exact means of n members over d independent columns, scores of members and of
             others differ by about sqrt(d / n) of their deviations.
    Why:     a member's own value is a part 1 / n of each mean, so each column adds variance / n
             to the expected score; the deviation of a column's term is variance / sqrt(n).
    Source:  [Hom08].
    Checked: tests/attacks/test_meaning.py.
    """
    known = np.asarray(reference, dtype=np.float64)
    return np.asarray((people - known) @ (np.asarray(means, dtype=np.float64) - known))


def link_rows(published: Sequence[Hashable], outside: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return pairs of places whose values occur once in each of two tables: the same person.

    Names were left out of ``published``, but what is left is also known from ``outside``.
    """
    first, second = _find_unique(published), _find_unique(outside)
    return [(first[value], second[value]) for value in first if value in second]


def _find_unique(values: Sequence[Hashable]) -> dict[Hashable, int]:
    places: dict[Hashable, int] = {}
    seen: set[Hashable] = set()
    for place, value in enumerate(values):
        if value in seen:
            places.pop(value, None)
        else:
            places[value] = place
            seen.add(value)
    return places
