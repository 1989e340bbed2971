"""Parts that stand in several sums of a statement, computed once for each row.

A regression adds up many products of the same few terms, some of which are long. Written out in
each of them, they make a text that takes an engine longer to read than the rows.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.expressions import Emitter, Sql
from confide.engines.fragments import label, nested, select
from confide.expressions.tree import Call, Column, Expression, parts_of, walk
from confide.plan import Ranges

__all__ = ["Layers"]

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
