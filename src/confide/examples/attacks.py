"""Linkage, reconstruction, and tracing attacks on published statistics.

Tests show that these attacks succeed against exact statistics and fail against private answers.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confide.errors import BadDeclaration

__all__ = ["link_rows", "reconstruct_bits", "trace_members"]

Floats = NDArray[np.float64]


def reconstruct_bits(subsets: NDArray[np.bool_], answers: ArrayLike) -> NDArray[np.bool_]:
    """Return an estimate of each person's secret bit, from counts over many subsets.

    Row i of ``subsets`` marks the people in query i; answer i is the approximate number of them
    whose bit is 1.

    Law:     the bits nearest to the least-squares solution of subsets @ bits = answers.
    Claim:   given a few times as many random subsets as people, and answer errors below about the
             square root of the number of people, nearly all bits are correct.
    Why:     if two candidate solutions differ in many bits, their counts on most random subsets
             differ by about the square root of the number of differences. So answers with smaller
             errors fit only one of the two.
    Source:  [DN03].
    Checked: tests/attacks/test_meaning.py.
    """
    counts = np.asarray(answers, dtype=np.float64)
    if subsets.ndim != 2 or len(counts) != len(subsets):
        raise BadDeclaration(
            f"`answers` must have one number for each of the {len(subsets)} subsets; got "
            f"{len(counts)}."
        )
    solved, *_ = np.linalg.lstsq(subsets.astype(np.float64), counts, rcond=None)
    return np.asarray(solved > 0.5)


def trace_members(people: Floats, means: ArrayLike, reference: ArrayLike) -> Floats:
    """Return a score for each person, higher for those who are more likely to be in a group.

    ``people`` has one row per person. ``means`` are the published column means of the group, and
    ``reference`` the column means of the population.

    Law:     the score is the sum over columns of (value - reference) (mean - reference).
    Claim:   for exact means of n members over d independent columns, the mean scores of members
             and nonmembers differ by about sqrt(d / n) standard deviations.
    Why:     a member's own value contributes 1 / n of each mean, so each column adds variance / n
             to the expected score; the standard deviation of a column's term is variance / sqrt(n).
    Source:  [Hom08].
    Checked: tests/attacks/test_meaning.py.
    """
    known = np.asarray(reference, dtype=np.float64)
    return np.asarray((people - known) @ (np.asarray(means, dtype=np.float64) - known))


def link_rows(published: Sequence[Hashable], outside: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the pairs of positions at which a value occurs that is unique in each table.

    The two rows of a pair presumably describe the same person. Names were removed from
    ``published``, but ``outside`` is a table with names that has the same values.
    """
    first, second = _find_unique(published), _find_unique(outside)
    return [(first[value], second[value]) for value in first if value in second]


def _find_unique(values: Sequence[Hashable]) -> dict[Hashable, int]:
    """Return the position of each value that occurs once."""
    positions: dict[Hashable, int] = {}
    seen: set[Hashable] = set()
    for index, value in enumerate(values):
        if value in seen:
            positions.pop(value, None)
        else:
            positions[value] = index
            seen.add(value)
    return positions
