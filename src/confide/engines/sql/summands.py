"""The integers that each row adds to each sum, with shared subexpressions computed once.

A value is rounded to a grid of evenly spaced numbers (`ValueGrid`). Its *step* is the position on
that grid: the integer (value - center) / step size. Sums of steps are exact in any order.

A regression sums many products of the same few terms, some of them long. Repeating each term in
every product would make statements that take an engine longer to parse than to run. `Layers` names
the shared terms in subqueries instead.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Final

from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.sql.builders import (
    Sql,
    cast,
    clamped,
    label,
    nested,
    number,
    select,
    try_cast,
)
from confide.engines.sql.expressions import Emitter
from confide.expressions.tree import Call, Column, Expression, parts_of, walk
from confide.plan import Range, Ranges, ValueGrid

__all__ = [
    "Layers",
    "ZeroBasedGrid",
    "clipped_summand",
    "ends_within",
    "exact_sum",
    "stored_summand",
    "summand",
    "try_steps",
    "zero_based_grid",
]

HALF: Final = Fraction(1, 2)
MAX_STEPS_PER_INTEGER: Final = 2**8
MAX_EXACT_INTEGER: Final = 2**53


@dataclass(frozen=True, slots=True)
class ZeroBasedGrid:
    """A grid with center zero, and the conversion of its sums to those of a measurement's grid.

    With the default ``factor`` and ``shift``, ``grid`` is the measurement's grid itself.

    Claim: factor * (sum on this grid) - shift * (number of rows) is the sum on the measurement's
           grid.
    Why:   a row that adds an integer s on this grid adds factor * s - shift on the other one.
    """

    grid: ValueGrid
    factor: int = 1
    shift: int = 0

    @property
    def is_shifted(self) -> bool:
        """Whether sums on the two grids differ."""
        return (self.factor, self.shift) != (1, 0)

    def center(self, total: int, rows: int) -> int:
        """Return the sum on the measurement's grid for a sum of ``rows`` rows on this grid."""
        return self.factor * total - self.shift * rows


def zero_based_grid(grid: ValueGrid, kind: Kind | None) -> ZeroBasedGrid:
    """Return the grid on which the values of a column are summed fastest, perhaps ``grid`` itself.

    Why: integers x are summed unchanged: (x - center) / step is factor * x - shift, with integer
         factor = 1 / step and shift = center / step. For doubles, one subtraction is saved: an
         integer nearest to x / step is ``shift`` more than an integer nearest to (x - center) /
         step (in a tie, there are two). All these integers are at most 2^53 in size, so doubles
         represent them.
    """
    rate, shift = 1 / grid.step, grid.center / grid.step
    if shift.denominator != 1:
        return ZeroBasedGrid(grid)
    low, high = grid.low + int(shift), grid.high + int(shift)
    if kind is Kind.INT and rate.denominator == 1 and rate <= MAX_STEPS_PER_INTEGER:
        factor = int(rate)
        whole = ValueGrid(Fraction(0), Fraction(1), low // factor, -(-high // factor))
        return ZeroBasedGrid(whole, factor, int(shift))
    if kind is Kind.FLOAT and max(abs(low), abs(high)) <= MAX_EXACT_INTEGER:
        return ZeroBasedGrid(ValueGrid(Fraction(0), grid.step, low, high), 1, int(shift))
    return ZeroBasedGrid(grid)


def summand(value: Sql, grid: ValueGrid) -> Sql:
    """Return the step of a value on a grid, clamped to the grid's ends; NULL stays NULL.

    The cast rounds to the nearest integer, ties to even.
    """
    # Privacy: the ends of the grid are integers, so rounding a clamped step stays between them.
    steps = clamped(_steps(value, grid), float(grid.low), float(grid.high))
    return cast(steps, "BIGINT")


def clipped_summand(value: Sql, kind: Kind, grid: ValueGrid, clipped: Range) -> Sql:
    """Return `summand` for a value that a view has clipped to a range.

    There is a second clamp only if the range does not ensure that the steps stay on the grid.

    Why: integers of at most 54 bits are multiplied and subtracted exactly. For doubles, steps are
         nondecreasing in the value, even with rounding after each operation. So the steps of the
         ends of the range, computed here by the same operations, enclose all others. If they round
         to integers on the grid, so does the step of every value.
    """
    rate, center = 1 / grid.step, grid.center / grid.step
    if (
        kind is Kind.INT
        and rate.denominator == center.denominator == 1
        and rate <= MAX_STEPS_PER_INTEGER
    ):
        scaled = value * number(int(rate)) if rate != 1 else value
        return scaled - number(int(center)) if center else scaled
    if ends_within(grid, clipped) is not None:
        return cast(_steps(value, grid), "BIGINT")
    return summand(value, grid)


def ends_within(grid: ValueGrid, clipped: Range) -> tuple[int, int] | None:
    """Return the steps of a range's ends, as engines compute them; None if one is off the grid."""
    center, rate = float(grid.center), float(1 / grid.step)
    low, high = ((float(end) - center) * rate for end in (clipped.low, clipped.high))
    is_inside = grid.low - HALF < Fraction(low) and Fraction(high) < grid.high + HALF
    return (round(low), round(high)) if is_inside else None


def try_steps(stored: Sql, grid: ValueGrid) -> Sql:
    """Return the step of an unclipped double on a grid, or NULL if it does not fit in 64 bits."""
    return try_cast(_steps(stored, grid), "BIGINT")


def stored_summand(steps: Sql, stored: Sql, clipped: Range, ends: tuple[int, int]) -> Sql:
    """Return the same integer as `clipped_summand`, from an unclipped double and its `try_steps`.

    ``clipped`` is the range to which the double would be clipped, and ``ends`` its `ends_within`.

    Claim: the result is an integer from the first to the second of ``ends``, and it is NULL if and
           only if the double is NULL or NaN.
    Why:   a result is one of the ends, or was compared with both. Steps are nondecreasing in the
           value, so every value in the range has a step between the ends. A value below the range,
           such as minus infinity, counts as the first end, and a value above it as the second. NaN
           is above infinity, so no branch of the CASE applies to it.
    """
    # Clamping integers is faster than clamping doubles, whose comparisons must handle NaN.
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
    """Return a sum of integers that neither overflows nor depends on the order of rows.

    DuckDB sums 64-bit integers in 128 bits; other dialects replace this node if necessary.
    """
    return sql.Sum(this=part)


def _steps(value: Sql, grid: ValueGrid) -> Sql:
    """Return the step of a value on a grid as a double, not yet rounded."""
    distance = cast(value, "DOUBLE")
    if grid.center:
        distance = sql.Paren(this=distance - number(float(grid.center)))
    return distance * number(float(1 / grid.step)) if grid.step != 1 else distance


MIN_NODES_SAVED: Final = 20
"""The least number of nodes that sharing a subexpression must save."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One of several nested selections.

    ``parts`` are the shared subexpressions that it computes for the selections around it, and
    ``values`` the results that it computes; both by name.
    """

    parts: dict[str, Expression] = field(default_factory=dict)
    values: dict[str, Expression] = field(default_factory=dict)

    def write(self, emitter: Emitter) -> list[Sql]:
        """Return the columns of the selection."""
        named = {**self.parts, **self.values}.items()
        return [label(emitter.emit(part), name) for name, part in named]


@dataclass(frozen=True, slots=True)
class Layers:
    """Nested selections that compute named values of a row; the first layer is innermost.

    Claim: every value is the same as if a single selection computed it.
    Why:   a shared subexpression is a function of the row that cannot fail. A reference to its name
           gives the same double, or NULL, as repeating the subexpression.
    """

    ranges: Ranges
    layers: tuple[Layer, ...]

    @classmethod
    def of(cls, values: Mapping[str, Expression], ranges: Ranges) -> "Layers":
        """Return the layers that compute ``values``; a single one if nothing is shared."""
        shared = _shared_doubles(values.values())
        numbers = _LayerNumbers(frozenset(shared))
        tops = {name: numbers.named(value) for name, value in values.items()}
        layers = tuple(Layer() for _ in range(1 + max(tops.values(), default=0)))
        for index, part in enumerate(shared):
            layers[numbers.computed(part)].parts[f"e{index}"] = part
        for name, value in values.items():
            layers[tops[name]].values[name] = value
        columns = [column for layer in layers[1:] for column in _columns(layer, shared)]
        for index, column in enumerate(dict.fromkeys(columns)):
            layers[0].parts[f"c{index}"] = column
        return cls(ranges, layers)

    def first(self) -> list[Sql]:
        """Return the columns of the first selection."""
        return self.layers[0].write(Emitter(self.ranges))

    def stack(self, rows: sql.Select) -> sql.Select:
        """Return the last selection, nested over all others; ``rows`` is the innermost."""
        named: dict[Expression, str] = {}
        for below, layer in pairwise(self.layers):
            named |= {part: name for name, part in below.parts.items()}
            shown = layer.write(Emitter(self.ranges, named))
            rows = select([sql.Star(), *shown], nested(rows, "parts"))
        return rows


@dataclass(frozen=True, slots=True)
class _LayerNumbers:
    """Numbers the layers in which expressions are computed; ``found`` caches the numbers.

    A ``shared`` expression gets a name in its layer, and only later layers can use the name.
    """

    shared: frozenset[Expression]
    found: dict[Expression, int] = field(default_factory=dict)

    def computed(self, expression: Expression) -> int:
        """Return the first layer that can compute an expression."""
        if expression not in self.found:
            self.found[expression] = max(map(self.named, parts_of(expression)), default=0)
        return self.found[expression]

    def named(self, expression: Expression) -> int:
        """Return the first layer that can contain an expression, by its name if it is shared."""
        return self.computed(expression) + (expression in self.shared)


def _shared_doubles(values: Iterable[Expression]) -> list[Expression]:
    """Return the function calls of type double that are repeated and long enough to share."""
    seen: dict[int, Expression] = {}
    counts = Counter[int]()
    for value in values:
        counts[id(value)] += 1
        for part in walk(value):
            if id(part) not in seen:
                seen[id(part)] = part
                counts.update(map(id, parts_of(part)))
    return [
        part
        for key, part in seen.items()
        if isinstance(part, Call) and part.kind is Kind.FLOAT
        if (counts[key] - 1) * part.size >= MIN_NODES_SAVED
    ]


def _columns(layer: Layer, shared: Collection[Expression]) -> list[Column]:
    """Return the columns to which a layer refers itself, not by the names of earlier layers."""
    pending = [argument for part in layer.parts.values() for argument in parts_of(part)]
    pending += layer.values.values()
    found = []
    while pending:
        part = pending.pop()
        if isinstance(part, Column):
            found.append(part)
        elif part not in shared:
            pending += parts_of(part)
    return found
