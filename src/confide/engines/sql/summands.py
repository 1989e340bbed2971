"""What a row adds to each sum, and shared subexpressions of sums.

A regression adds up many products of the same few terms, some of which are long. Written out in
each of them, they make a text that takes an engine longer to read than the rows.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Final

from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.sql.expressions import (
    Emitter,
    Sql,
    cast,
    clamped,
    label,
    nested,
    number,
    select,
    try_cast,
)
from confide.expressions.tree import Call, Column, Expression, parts_of, walk
from confide.plan import Range, Ranges, ValueGrid

__all__ = [
    "Layers",
    "ZeroBasedGrid",
    "clipped_part",
    "ends_within",
    "exact_sum",
    "stored_part",
    "try_steps",
    "uncentre",
    "whole_part",
]

HALF: Final = Fraction(1, 2)
MOST_PARTS: Final = 2**8
LARGEST_EXACT: Final = 2**53


@dataclass(frozen=True, slots=True)
class ZeroBasedGrid:
    """A grid that begins at zero, and how sums on it become sums on one with a centre.

    Claim: factor * (sum over rows) - shift * (number of rows) is the sum on the grid with a centre.
    Why:   every row adds factor * part - shift there, and both are whole.
    """

    grid: ValueGrid
    factor: int = 1
    shift: int = 0

    @property
    def is_moved(self) -> bool:
        """Whether sums on the one grid differ from those on the other."""
        return (self.factor, self.shift) != (1, 0)

    def centre(self, total: int, rows: int) -> int:
        """Return the sum on the grid with a centre, of so many rows."""
        return self.factor * total - self.shift * rows


def uncentre(grid: ValueGrid, kind: Kind | None) -> ZeroBasedGrid:
    """Return the grid on which rows of a column are added up fastest, or the same one.

    Why: whole numbers are added up as they are: (x - centre) / step is factor * x - shift, with
         whole factor and shift. Reals take one step less: what is nearest to x / step is ``shift``
         more than what is nearest to (x - centre) / step, and doubles hold all steps exactly.
    """
    rate, shift = 1 / grid.step, grid.centre / grid.step
    if shift.denominator != 1:
        return ZeroBasedGrid(grid)
    low, high = grid.low + int(shift), grid.high + int(shift)
    if kind is Kind.INT and rate.denominator == 1 and rate <= MOST_PARTS:
        factor = int(rate)
        whole = ValueGrid(Fraction(0), Fraction(1), low // factor, -(-high // factor))
        return ZeroBasedGrid(whole, factor, int(shift))
    if kind is Kind.FLOAT and max(abs(low), abs(high)) <= LARGEST_EXACT:
        return ZeroBasedGrid(ValueGrid(Fraction(0), grid.step, low, high), 1, int(shift))
    return ZeroBasedGrid(grid)


def whole_part(value: Sql, grid: ValueGrid) -> Sql:
    """Return the value on its grid, as a whole number; NULL stays NULL.

    The cast rounds to the nearest whole number, ties to the even one.
    """
    # Privacy: the clamp has whole ends and only rounding comes after, so each row stays within.
    steps = clamped(_steps(value, grid), float(grid.low), float(grid.high))
    return cast(steps, "BIGINT")


def clipped_part(value: Sql, kind: Kind, grid: ValueGrid, clipped: Range) -> Sql:
    """Return the same for a value that a view clips to a range, without a second clamp if possible.

    Why: whole numbers, of at most 54 bits, are multiplied and subtracted exactly. For doubles, the
         steps rise with the value, also when each operation rounds, so those of the range's ends,
         computed here by the same operations, enclose all others; where they round to whole numbers
         within the grid, so does every value.
    """
    rate, centre = 1 / grid.step, grid.centre / grid.step
    if kind is Kind.INT and rate.denominator == centre.denominator == 1 and rate <= MOST_PARTS:
        scaled = value * number(int(rate)) if rate != 1 else value
        return scaled - number(int(centre)) if centre else scaled
    if ends_within(grid, clipped) is not None:
        return cast(_steps(value, grid), "BIGINT")
    return whole_part(value, grid)


def ends_within(grid: ValueGrid, clipped: Range) -> tuple[int, int] | None:
    """Return the steps of a range's ends, as the engine computes them, if the grid has both."""
    centre, rate = float(grid.centre), float(1 / grid.step)
    low, high = ((float(end) - centre) * rate for end in (clipped.low, clipped.high))
    is_inside = grid.low - HALF < Fraction(low) and Fraction(high) < grid.high + HALF
    return (round(low), round(high)) if is_inside else None


def try_steps(stored: Sql, grid: ValueGrid) -> Sql:
    """Return a double that nobody clipped on its grid, NULL where it has no place in 64 bits."""
    return try_cast(_steps(stored, grid), "BIGINT")


def stored_part(steps: Sql, stored: Sql, clipped: Range, ends: tuple[int, int]) -> Sql:
    """Return what `clipped_part` gives, from a double that nobody clipped and its `try_steps`.

    Claim: a whole number from the first to the second of ``ends``, or NULL for NULL and NaN.
    Why:   what is not one of the ends was compared with them. Steps rise with the value, so they
           lie between the ends for every value in the range; a value below it, also minus infinity,
           counts as the first end, and one above as the second. NaN is above infinity.
    """
    # It is faster to clamp whole numbers than doubles, whose comparisons must mind NaN.
    low, high = (number(end) for end in ends)
    infinity = cast(sql.Literal.string("inf"), "DOUBLE")
    least = number(float(clipped.low))
    inside = sql.Between(this=steps, low=low, high=high)
    return sql.Case(
        ifs=[
            sql.If(this=inside, true=steps.copy()),
            sql.If(this=sql.LT(this=stored, expression=least), true=low.copy()),
            sql.If(this=sql.LTE(this=stored.copy(), expression=infinity), true=high.copy()),
        ]
    )


def exact_sum(part: Sql) -> Sql:
    """Return a sum of whole numbers that neither overflows nor depends on the order of rows.

    DuckDB adds up 64-bit numbers in 128 bits.
    """
    return sql.Sum(this=part)


def _steps(value: Sql, grid: ValueGrid) -> Sql:
    distance = cast(value, "DOUBLE")
    if grid.centre:
        distance = sql.Paren(this=distance - number(float(grid.centre)))
    return distance * number(float(1 / grid.step)) if grid.step != 1 else distance


LEAST_SAVED: Final = 20
"""Parts that make a text longer by fewer nodes than this are written again."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one selection computes: parts of what others above it compute, and values."""

    parts: dict[str, Expression] = field(default_factory=dict)
    values: dict[str, Expression] = field(default_factory=dict)

    def write(self, emitter: Emitter) -> list[Sql]:
        named = {**self.parts, **self.values}.items()
        return [label(emitter.emit(part), name) for name, part in named]


@dataclass(frozen=True, slots=True)
class Layers:
    """Selections that give values of a row under their names, each over the one before.

    Claim: every value is the one that a single selection would give.
    Why:   a part is a function of the row that cannot fail, and a name for it stands for the very
           double, or NULL, that it gives wherever it is written out.
    """

    ranges: Ranges
    layers: tuple[Layer, ...]

    @classmethod
    def of(cls, values: Mapping[str, Expression], ranges: Ranges) -> "Layers":
        """Return the layers that give ``values``; a single one where nothing is shared."""
        shared = _find_shared(values.values())
        heights = _Heights(frozenset(shared))
        tops = {name: heights.named(value) for name, value in values.items()}
        layers = tuple(Layer() for _ in range(1 + max(tops.values(), default=0)))
        for place, part in enumerate(shared):
            layers[heights.computed(part)].parts[f"e{place}"] = part
        for name, value in values.items():
            layers[tops[name]].values[name] = value
        columns = [column for layer in layers[1:] for column in _columns(layer, shared)]
        for place, column in enumerate(dict.fromkeys(columns)):
            layers[0].parts[f"c{place}"] = column
        return cls(ranges, layers)

    def first(self) -> list[Sql]:
        """Return what the first selection shows."""
        return self.layers[0].write(Emitter(self.ranges))

    def stack(self, rows: sql.Select) -> sql.Select:
        """Return the last selection, over the first one and those between."""
        named: dict[Expression, str] = {}
        for below, layer in pairwise(self.layers):
            named |= {part: name for name, part in below.parts.items()}
            shown = layer.write(Emitter(self.ranges, named))
            rows = select([sql.Star(), *shown], nested(rows, "parts"))
        return rows


@dataclass(frozen=True, slots=True)
class _Heights:
    """Tells in which layer an expression is computed, and from which one on it has a name."""

    shared: frozenset[Expression]
    found: dict[Expression, int] = field(default_factory=dict)

    def computed(self, expression: Expression) -> int:
        if expression not in self.found:
            self.found[expression] = max(map(self.named, parts_of(expression)), default=0)
        return self.found[expression]

    def named(self, expression: Expression) -> int:
        return self.computed(expression) + (expression in self.shared)


def _find_shared(values: Iterable[Expression]) -> list[Expression]:
    """Return the reals that stand in several places and take long to write again."""
    met: dict[int, Expression] = {}
    times = Counter[int]()
    for value in values:
        times[id(value)] += 1
        for part in walk(value):
            if id(part) not in met:
                met[id(part)] = part
                times.update(map(id, parts_of(part)))
    return [
        part
        for key, part in met.items()
        if isinstance(part, Call) and part.kind is Kind.FLOAT
        if (times[key] - 1) * part.size >= LEAST_SAVED
    ]


def _columns(layer: Layer, shared: Collection[Expression]) -> list[Column]:
    """Return the columns that a layer above the first one names itself."""
    ahead = [piece for part in layer.parts.values() for piece in parts_of(part)]
    ahead += layer.values.values()
    found = []
    while ahead:
        part = ahead.pop()
        if isinstance(part, Column):
            found.append(part)
        elif part not in shared:
            ahead += parts_of(part)
    return found
