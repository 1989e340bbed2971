"""Polytopes given by their corners, in exact arithmetic: facets, and a triangulated surface."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import lcm

from flint import fmpq, fmpq_mat

from confide.errors import BadDeclaration

__all__ = ["Facet", "Point", "Surface", "triangulate"]

Point = tuple[Fraction, ...]
Facet = tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Surface:
    """Simplices that tile the surface of a polytope, with weights like their cones' volumes."""

    facets: tuple[Facet, ...]
    weights: tuple[int, ...]


def triangulate(corners: Sequence[Point]) -> Surface:
    """Return the surface of the convex hull of ``corners`` and of their negatives.

    Claim:   the cones from the origin over the simplices tile space, and each simplex lies in
             the surface; a simplex weighs |det| of its corners, times a common factor.
    Why:     every facet lies in a hyperplane a.x = 1 that no corner passes, and is spanned by
             corners; all choices of d of them are tried. A facet is cut into simplices by
             joining its first corner to the simplices of those of its own facets that do not
             hold it (the pulling triangulation), which tiles any polytope.
    Source:  [GO04] for the pulling triangulation.
    Checked: tests/mechanisms/test_polytope.py (volumes, every direction in one cone).
    """
    size = len(corners[0])
    points = list(dict.fromkeys([*corners, *(tuple(-x for x in corner) for corner in corners)]))
    faces = set(_faces(points, size))
    if not faces:
        raise BadDeclaration(f"corners must span all {size} dimensions, got a flatter body")
    simplices = [
        tuple(points[index] for index in simplex)
        for face in sorted(faces, key=sorted)
        for simplex in _pull(face, faces, size)
    ]
    sizes = [abs(_matrix(simplex).det()) for simplex in simplices]
    common = lcm(*(int(part.q) for part in sizes))
    return Surface(tuple(simplices), tuple(int(part.p) * common // int(part.q) for part in sizes))


def _faces(points: list[Point], size: int) -> Iterator[frozenset[int]]:
    """Yield the points on each facet, as indices; some facets more than once."""
    every = _matrix(points)
    for chosen in combinations(range(len(points)), size):
        matrix = _matrix([points[index] for index in chosen])
        if matrix.det() == 0:
            continue
        normal = matrix.solve(fmpq_mat(size, 1, [1] * size))
        heights = (every * normal).entries()
        if all(height <= 1 for height in heights):
            yield frozenset(index for index, height in enumerate(heights) if height == 1)


def _matrix(rows: Sequence[Point]) -> fmpq_mat:
    entries = [fmpq(x.numerator, x.denominator) for row in rows for x in row]
    return fmpq_mat(len(rows), len(rows[0]), entries)


def _borders(face: frozenset[int], faces: set[frozenset[int]]) -> set[frozenset[int]]:
    """Return the largest proper faces of ``face``: where it meets facets that do not hold it."""
    shared = {face & other for other in faces if not face <= other} - {frozenset()}
    return {part for part in shared if not any(part < other for other in shared)}


def _pull(
    face: frozenset[int], faces: set[frozenset[int]], count: int
) -> Iterator[tuple[int, ...]]:
    """Yield simplices of ``count`` points that tile ``face``."""
    if len(face) == count:
        yield tuple(sorted(face))
        return
    apex = min(face)
    for border in _borders(face, faces):
        if apex not in border:
            for simplex in _pull(border, faces, count - 1):
                yield (apex, *simplex)
