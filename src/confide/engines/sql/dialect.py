"""`Dialect`: node rewrites, shared rules and cast patterns.

Statements are built once, as trees in the words of DuckDB. Where another engine has other words for
the same thing, or the same words for another thing, a `Dialect` replaces single nodes of the
finished tree, from the leaves up, and writes the result in the engine's dialect.

Numbers in what a rule returns are written by the engine's own function for doubles, since nothing
is spelled twice.

The rules are those by which DuckDB casts texts. Engines whose own casts take other texts compare
with these patterns first. Letters are ASCII, white space is that of C; nothing depends on a locale.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import expressions as sql

from confide.engines.sql.expressions import Sql, call

__all__ = [
    "BLANKS",
    "BYTES",
    "DAY",
    "FALSE",
    "FINITE",
    "FOREVER",
    "NUMBER",
    "TRUE",
    "UNREAL",
    "Dialect",
    "Real",
    "Rule",
    "is_real",
    "is_text",
    "is_whole",
    "keep_listed",
    "literal_of",
    "read_truth",
    "round_real",
    "round_whole",
    "substring",
    "type_of",
]

Rule = Callable[[Any], Sql | None]
"""Returns what stands for a node, whose parts are spelled already; None leaves it as it is."""

FINITE: Final = "FINITE"
"""The call that stands for ``CASE WHEN ISFINITE(x) THEN x END``, so that x is spelled once."""

T = sql.DType
TYPES: Final = {kind: sql.DataType(this=kind) for kind in T}
INTEGER_TYPES: Final = (T.BIGINT, T.INT)
CALLS: Final = {
    **dict.fromkeys(("YEAR", "QUARTER", "MONTH", "DAY", "DAYOFWEEK", "LENGTH"), T.BIGINT),
    **dict.fromkeys(("BIT_COUNT", "BIT_OR", "DENSE_RANK", "ROW_NUMBER"), T.BIGINT),
    **dict.fromkeys(("LN", "EXP", "SQRT", "ASINH", "FLOOR", "CEIL"), T.DOUBLE),
    **dict.fromkeys(("LOWER", "UPPER", "SUBSTR", "RTRIM", "REPLACE"), T.VARCHAR),
    **dict.fromkeys(("ISFINITE",), T.BOOLEAN),
    "DATE_TRUNC": T.DATE,
}
TRUTHS: Final = (sql.Predicate, sql.Connector, sql.Not, sql.Boolean, sql.Is)


def type_of(node: Sql | None) -> sql.DType | None:
    """Return the type of a node, as far as it is known."""
    found = None if node is None else node.type
    return None if found is None else found.this


def is_whole(node: Sql) -> bool:
    """Tell whether a node is known to be a whole number of at most 64 bits."""
    return type_of(node) in INTEGER_TYPES


def is_real(node: Sql) -> bool:
    """Tell whether a node is known to be a double."""
    return type_of(node) is T.DOUBLE


def is_text(node: Sql) -> bool:
    """Tell whether a node is known to be a text."""
    return type_of(node) is T.VARCHAR


@dataclass(frozen=True, slots=True)
class Dialect:
    """The words of one engine: its dialect, and a rule for each node or call it spells otherwise.

    Nodes know their types (`type_of`) when a rule sees them: columns from what is declared or
    stored, others from their parts. What a rule returns keeps the type of what it replaces.
    """

    dialect: str
    nodes: Mapping[type[Sql], Rule] = field(default_factory=dict)
    calls: Mapping[str, Rule] = field(default_factory=dict)
    finish: Callable[[sql.Select, Mapping[str, sql.Select]], object] | None = None
    """What is done to the whole statement at last, with the views that it reads."""

    def write(self, select: sql.Select, views: Mapping[str, sql.Select] | None = None) -> str:
        """Return the text of a statement, with the views that it reads as parts of a WITH.

        ``views`` are spelled already; the statement is used up.
        """
        used = list(_used(select, views or {}))
        spelled = self.spell(select)
        if self.finish is not None:
            self.finish(spelled, views or {})
        own = spelled.args.get("with_")
        if used:
            spelled.set("with_", None)
        text: str = spelled.sql(self.dialect, copy=False)
        parts = [self._part(name, (views or {})[name]) for name in used]
        if not parts:
            return text
        parts += [part.sql(self.dialect, copy=False) for part in own.expressions] if own else []
        return f"WITH {', '.join(parts)} {text}"

    def spell(self, node: Sql) -> Any:
        """Return a tree in the words of the engine; the tree is used up."""
        node = _gather(node)
        for part in list(node.iter_expressions()):
            self.spell(part)
        found = node.type if isinstance(node, sql.Cast | sql.Column) else _infer(node)
        is_call = isinstance(node, sql.Anonymous)
        rule = self.calls.get(node.name) if is_call else self.nodes.get(type(node))
        other = rule(node) if rule is not None else None
        if other is not None and other is not node:
            # A rule puts the node's own parts into the other one; what it stands in is unchanged.
            node.replace(other)
            node = other
        if found is not None:
            node.type = found
        return node

    def _part(self, name: str, view: sql.Select) -> str:
        quoted = sql.to_identifier(name, quoted=True).sql(self.dialect)
        return f"{quoted} AS NOT MATERIALIZED ({view.sql(self.dialect)})"


def _used(select: sql.Select, views: Mapping[str, sql.Select]) -> Iterator[str]:
    """Yield the views that a statement reads, each after those that it reads itself."""
    seen: dict[str, None] = {}

    def visit(tree: Sql) -> None:
        for found in tree.find_all(sql.Table):
            if not found.db and found.name in views and found.name not in seen:
                visit(views[found.name])
                seen[found.name] = None

    visit(select)
    yield from seen


def _gather(node: Sql) -> Sql:
    """Return the call FINITE for the pattern that it stands for, and other nodes as they are."""
    if type(node) is not sql.Case or len(node.args["ifs"]) != 1 or node.args.get("default"):
        return node
    branch = node.args["ifs"][0]
    if not isinstance(branch.this, sql.Anonymous) or branch.this.name != "ISFINITE":
        return node
    gathered = sql.Anonymous(this=FINITE, expressions=[branch.args["true"]])
    node.replace(gathered)
    return gathered


def _infer(node: Sql) -> sql.DataType | None:
    """Return the type of a node from its parts, whose types are known."""
    kind: sql.DType | None = None
    match node:
        case sql.Literal():
            kind = T.VARCHAR if node.is_string else T.BIGINT if node.name.isdigit() else T.DOUBLE
        case sql.Sub() if type_of(node.this) is type_of(node.expression) is T.DATE:
            kind = T.BIGINT
        case sql.Div():
            kind = T.DOUBLE
        case sql.Count():
            kind = T.BIGINT
        case sql.Anonymous() if node.name in CALLS:
            kind = CALLS[node.name]
        case _ if isinstance(node, TRUTHS):
            kind = T.BOOLEAN
        case _:
            kind = _wider(_alternatives(node))
    return None if kind is None else TYPES[kind]


def _alternatives(node: Sql) -> list[Sql]:
    """Return the parts of a node of which one, or what they make together, is its value."""
    match node:
        case sql.Add() | sql.Sub() if type_of(node.this) is T.DATE:
            return [node.this]
        case sql.Binary():
            return [node.this, node.expression]
        case sql.Neg() | sql.Paren() | sql.Nullif() | sql.Alias() | sql.Filter() | sql.Window():
            return [node.this]
        case sql.Case():
            values = [branch.args["true"] for branch in node.args["ifs"]]
            return [*values, *filter(None, [node.args.get("default")])]
        case sql.Anonymous():
            return list(node.expressions)
        case _:
            return []


def _wider(nodes: list[Sql]) -> sql.DType | None:
    """Return the type that all have, doubles before whole numbers; None where one is unknown."""
    kinds = {type_of(node) for node in nodes if not isinstance(node, sql.Null)}
    if T.DOUBLE in kinds and kinds <= {T.DOUBLE, *INTEGER_TYPES}:
        return T.DOUBLE
    if kinds and kinds <= set(INTEGER_TYPES):
        return T.BIGINT
    return kinds.pop() if len(kinds) == 1 else None


BLANKS: Final = " \t\n\x0b\x0c\r"
_BLANK: Final = f"[{BLANKS}]*"
_DIGITS: Final = "[0-9]+(_[0-9]+)*"

NUMBER: Final = (
    f"^{_BLANK}[+-]?({_DIGITS}(\\.({_DIGITS})?)?|\\.{_DIGITS})([eE][+-]?{_DIGITS})?{_BLANK}$"
)
"""A decimal number; single underscores may part its digits, and are left out."""

BYTES: Final = f"^{_BLANK}0([xX][0-9a-fA-F]+(_[0-9a-fA-F]+)*|[bB][01]+(_[01]+)*){_BLANK}$"
"""A whole number to the base 16 or 2, which is no double."""

UNREAL: Final = f"^{_BLANK}[+-]?([iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN]){_BLANK}$"
"""An infinity, or no number at all; both are doubles."""

TRUE: Final = ("true", "t", "yes", "y", "1")
FALSE: Final = ("false", "f", "no", "n", "0")
"""What a truth value may look like, in lower case."""

_TIME: Final = "([01]?[0-9]|2[0-4]):[0-5]?[0-9](:[0-5]?[0-9](\\.[0-9]+)?)?"
_ZONE: Final = " ?(Z|UTC|[+-][0-9][0-9](:?[0-9][0-9])?)"
DAY: Final = (
    f"^{_BLANK}(-?[0-9]{{1,7}})([- /\\\\])([0-9]{{1,2}})\\2([0-9]{{1,2}})"
    f"({_BLANK}|[ T]{_TIME}({_ZONE})?{_BLANK})$"
)
"""Year, month and day, with one sign between; a time of day may follow and does not matter."""

FOREVER: Final = f"^{_BLANK}-?[iI][nN][fF]([iI][nN][iI][tT][yY])?{_BLANK}$"
"""A day after or before all others."""


Real = Callable[[float], Sql]
"""Writes a double as a literal of the engine."""

WHOLE_FROM: Final = 2.0**53
"""From here on every double is a whole number."""
NEARLY_HALF: Final = math.nextafter(0.5, 0.0)
LARGEST: Final = 1.7976931348623157e308
LONGEST: Final = 2**31 - 1


def literal_of(node: Sql) -> int:
    """Return the whole number that a literal stands for, which may have a sign before it."""
    match node:
        case sql.Paren() | sql.Cast():
            return literal_of(node.this)
        case sql.Neg():
            return -literal_of(node.this)
        case _:
            return int(node.name)


def keep_listed(text: Sql, listed: Sequence[Sql]) -> Sql:
    """Return a text if it is one of a list, else NULL."""
    inside = sql.In(this=text, expressions=[one.copy() for one in listed])
    return sql.Case(ifs=[sql.If(this=inside, true=text.copy())])


def read_truth(text: Sql) -> Sql:
    """Return what a text says of truth, in the words that DuckDB knows."""
    said = call("LOWER", text)
    branches = [
        sql.If(
            this=sql.In(this=said.copy(), expressions=[sql.Literal.string(word) for word in words]),
            true=sql.Boolean(this=truth),
        )
        for truth, words in ((True, TRUE), (False, FALSE))
    ]
    return sql.Case(ifs=branches)


def substring(text: Sql, places: Sequence[int]) -> Sql:
    """Return a part of a text by code points, for engines that know places from 1 and from the end.

    In DuckDB place 0 is the one before the first, and a length below zero goes backwards.
    """
    start, length = places[0], places[1] if len(places) > 1 else LONGEST
    if length < 0:
        start, length = start + length, -length
        if places[0] >= 0 > start - 1:
            # What starts at or after the first place cannot wrap round to the end.
            start, length = 1, max(0, length + start - 1)
    elif start == 0:
        start, length = 1, max(0, length - 1)
    parts = [sql.Literal.number(str(abs(start))), sql.Literal.number(str(length))]
    if start < 0:
        parts[0] = sql.Neg(this=parts[0])
    return call("SUBSTR", text, *parts)


def round_whole(value: Sql, digits: int) -> Sql:
    """Return a whole number rounded to tens, hundreds and so on, halves away from zero."""
    if digits >= 0:
        return value
    step = 10**-digits
    if step > 2**62:
        return sql.Paren(this=value * sql.Literal.number("0"))
    whole, half = (sql.Literal.number(str(number)) for number in (step, step // 2))
    rest = sql.Paren(this=sql.Mod(this=sql.Paren(this=value), expression=whole))
    below = sql.Neg(this=half.copy())
    added = sql.Case(
        ifs=[
            sql.If(this=sql.GTE(this=rest.copy(), expression=half), true=whole.copy()),
            sql.If(
                this=sql.LTE(this=rest.copy(), expression=below), true=sql.Neg(this=whole.copy())
            ),
        ],
        default=sql.Literal.number("0"),
    )
    return sql.Paren(this=sql.Paren(this=value.copy()) - rest + added)


def round_real(value: Sql, digits: int, real: Real, cut: Callable[[Sql], Sql]) -> Sql:
    """Return a double rounded by the very operations of DuckDB, halves away from zero.

    ``cut`` drops the fraction of a double below 2^53, and gives a double.

    Why: DuckDB multiplies by a power of ten, rounds, and divides again; where the product is too
         large for a double it gives the number as it was. To round halves away from zero is to add
         the double next below one half and to cut: the sum, rounded by the processor, passes a
         whole number only where the fraction is one half or more.
    """
    if digits > 308:
        return value
    if digits < -308:
        return sql.Paren(this=value * real(0.0))
    power = real(10.0 ** abs(digits))
    there, back = (sql.Mul, sql.Div) if digits >= 0 else (sql.Div, sql.Mul)

    def scaled() -> Sql:
        inner = sql.Paren(this=value.copy())
        return inner if not digits else sql.Paren(this=there(this=inner, expression=power.copy()))

    def unscaled(some: Sql) -> Sql:
        return some if not digits else back(this=some, expression=power.copy())

    is_below = sql.LT(this=scaled(), expression=real(0.0))
    half = sql.Case(ifs=[sql.If(this=is_below, true=real(-NEARLY_HALF))], default=real(NEARLY_HALF))
    rounded = cut(sql.Paren(this=scaled() + half))
    size = call("ABS", scaled())
    is_small = sql.LT(this=size, expression=real(WHOLE_FROM))
    is_finite = sql.LTE(this=size.copy(), expression=real(LARGEST))
    branches = [(is_small, unscaled(rounded)), (is_finite, unscaled(scaled()))]
    otherwise = value.copy() if digits >= 0 else None
    return sql.Case(
        ifs=[sql.If(this=condition, true=result) for condition, result in branches],
        default=otherwise,
    )
