"""`Dialect`: node rewrites, shared rules, and cast patterns.

Statements are built once, as trees in the dialect of DuckDB. Where another engine's syntax or
semantics differ, a `Dialect` replaces single nodes of the finished tree, from the leaves up, and
writes the result in the engine's dialect.

The nodes that a rule returns are not translated again. So a shared rule that writes doubles takes
the engine's function for such literals as an argument.

The patterns match the strings that DuckDB can cast. Engines whose own casts accept other strings
match these patterns first. Letters are ASCII, and whitespace is that of C, whatever the locale.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import expressions as sql

from confide.engines.sql.builders import Sql, call

__all__ = [
    "BLANKS",
    "DAY",
    "FALSE",
    "FINITE",
    "HEX_OR_BINARY",
    "INFINITE_DATE",
    "NON_FINITE",
    "NUMBER",
    "TRUE",
    "Dialect",
    "DoubleLiteral",
    "Rule",
    "is_double",
    "is_integer",
    "is_text",
    "literal_of",
    "null_unless_listed",
    "parse_boolean",
    "round_double",
    "round_integer",
    "substring",
    "type_of",
]

Rule = Callable[[Any], Sql | None]
"""Returns the replacement of a node whose parts are already translated, or None to keep it."""

FINITE: Final = "FINITE"
"""The call that represents ``CASE WHEN ISFINITE(x) THEN x END``, so that x is written once."""

T = sql.DType
TYPES: Final = {kind: sql.DataType(this=kind) for kind in T}
INTEGER_TYPES: Final = (T.BIGINT, T.INT)
CALL_TYPES: Final = {
    **dict.fromkeys(("YEAR", "QUARTER", "MONTH", "DAY", "DAYOFWEEK", "LENGTH"), T.BIGINT),
    **dict.fromkeys(("BIT_COUNT", "BIT_OR", "DENSE_RANK", "ROW_NUMBER"), T.BIGINT),
    **dict.fromkeys(("LN", "EXP", "SQRT", "ASINH", "FLOOR", "CEIL"), T.DOUBLE),
    **dict.fromkeys(("LOG2", "LOG10", "POWER", "SIGN", "SIN", "COS", "TAN"), T.DOUBLE),
    **dict.fromkeys(("ASIN", "ACOS", "ATAN", "ATAN2"), T.DOUBLE),
    **dict.fromkeys(("LOWER", "UPPER", "SUBSTR", "REPLACE", "SPLIT_PART"), T.VARCHAR),
    **dict.fromkeys(("TRIM", "LTRIM", "RTRIM"), T.VARCHAR),
    **dict.fromkeys(("STRPOS", "WEEK", "DAYOFYEAR", "ISOYEAR", "EPOCH_US"), T.BIGINT),
    **dict.fromkeys(("ISFINITE",), T.BOOLEAN),
    "DATE_TRUNC": T.DATE,
}
BOOLEAN_NODES: Final = (sql.Predicate, sql.Connector, sql.Not, sql.Boolean, sql.Is)


def type_of(node: Sql | None) -> sql.DType | None:
    """Return the type of a node, as far as it is known."""
    found = None if node is None else node.type
    return None if found is None else found.this


def is_integer(node: Sql) -> bool:
    """Return whether a node is known to be an integer of at most 64 bits."""
    return type_of(node) in INTEGER_TYPES


def is_double(node: Sql) -> bool:
    """Return whether a node is known to be a double."""
    return type_of(node) is T.DOUBLE


def is_text(node: Sql) -> bool:
    """Return whether a node is known to be a string."""
    return type_of(node) is T.VARCHAR


@dataclass(frozen=True, slots=True)
class Dialect:
    """The dialect of one engine, with a rule for each node or call that it writes differently.

    ``dialect`` is its name in sqlglot. Rules can ask for the types of nodes (`type_of`): types of
    columns come from the declaration or the source, and other types follow from the node's parts.
    A replacement keeps the type of the node that it replaces.
    """

    dialect: str
    nodes: Mapping[type[Sql], Rule] = field(default_factory=dict)
    calls: Mapping[str, Rule] = field(default_factory=dict)
    finish: Callable[[sql.Select, Mapping[str, sql.Select]], object] | None = None
    """A last step for a translated statement, which also gets the views that it may read."""

    def write(self, select: sql.Select, views: Mapping[str, sql.Select] | None = None) -> str:
        """Return the SQL of a statement, with the views that it reads in its WITH clause.

        ``views`` are already translated, by name. The statement is modified.
        """
        used = list(_used_views(select, views or {}))
        translated = self.translate(select)
        if self.finish is not None:
            self.finish(translated, views or {})
        own = translated.args.get("with_")
        if used:
            translated.set("with_", None)
        text: str = translated.sql(self.dialect, copy=False)
        parts = [self._part(name, (views or {})[name]) for name in used]
        if not parts:
            return text
        parts += [part.sql(self.dialect, copy=False) for part in own.expressions] if own else []
        return f"WITH {', '.join(parts)} {text}"

    def translate(self, node: Sql) -> Any:
        """Return a tree in the engine's dialect; the tree is modified."""
        node = _match_finite(node)
        for part in list(node.iter_expressions()):
            self.translate(part)
        found = node.type if isinstance(node, sql.Cast | sql.Column) else _infer(node)
        is_call = isinstance(node, sql.Anonymous)
        rule = self.calls.get(node.name) if is_call else self.nodes.get(type(node))
        other = rule(node) if rule is not None else None
        if other is not None and other is not node:
            # A rule moves a node's parts into its replacement; the node's parent is unchanged.
            node.replace(other)
            node = other
        if found is not None:
            node.type = found
        return node

    def _part(self, name: str, view: sql.Select) -> str:
        """Return the part of a WITH clause that defines a view."""
        quoted = sql.to_identifier(name, quoted=True).sql(self.dialect)
        return f"{quoted} AS NOT MATERIALIZED ({view.sql(self.dialect)})"


def _used_views(select: sql.Select, views: Mapping[str, sql.Select]) -> Iterator[str]:
    """Yield the names of the views that a statement reads, each after the views that it reads."""
    seen: dict[str, None] = {}

    def visit(tree: Sql) -> None:
        for found in tree.find_all(sql.Table):
            if not found.db and found.name in views and found.name not in seen:
                visit(views[found.name])
                seen[found.name] = None

    visit(select)
    yield from seen


def _match_finite(node: Sql) -> Sql:
    """Return a FINITE call instead of a node that it represents; return other nodes unchanged."""
    if type(node) is not sql.Case or len(node.args["ifs"]) != 1 or node.args.get("default"):
        return node
    branch = node.args["ifs"][0]
    if not isinstance(branch.this, sql.Anonymous) or branch.this.name != "ISFINITE":
        return node
    replacement = sql.Anonymous(this=FINITE, expressions=[branch.args["true"]])
    node.replace(replacement)
    return replacement


def _infer(node: Sql) -> sql.DataType | None:
    """Return the type of a node, inferred from its parts, or None if it cannot be inferred."""
    kind: sql.DType | None = None
    match node:
        case sql.Literal():
            kind = T.VARCHAR if node.is_string else T.BIGINT if node.name.isdigit() else T.DOUBLE
        case sql.Sub() if type_of(node.this) is type_of(node.expression) is T.DATE:
            kind = T.BIGINT
        case sql.Div():
            kind = T.DOUBLE
        case sql.IntDiv():
            kind = T.BIGINT
        case sql.Count():
            kind = T.BIGINT
        case sql.Anonymous() if node.name in CALL_TYPES:
            kind = CALL_TYPES[node.name]
        case _ if isinstance(node, BOOLEAN_NODES):
            kind = T.BOOLEAN
        case _:
            kind = _common_type(_alternatives(node))
    return None if kind is None else TYPES[kind]


def _alternatives(node: Sql) -> list[Sql]:
    """Return the parts of a node whose common type is the type of the node."""
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


def _common_type(nodes: list[Sql]) -> sql.DType | None:
    """Return the common type of the nodes, double before integer; None if one is unknown."""
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
"""A decimal number; single underscores may separate its digits, and are ignored."""

HEX_OR_BINARY: Final = f"^{_BLANK}0([xX][0-9a-fA-F]+(_[0-9a-fA-F]+)*|[bB][01]+(_[01]+)*){_BLANK}$"
"""A hexadecimal or binary integer, which cannot be cast to a double."""

NON_FINITE: Final = f"^{_BLANK}[+-]?([iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN]){_BLANK}$"
"""An infinity or NaN; both are doubles."""

TRUE: Final = ("true", "t", "yes", "y", "1")
FALSE: Final = ("false", "f", "no", "n", "0")
"""The strings that can be cast to a Boolean, in lower case."""

_TIME: Final = "([01]?[0-9]|2[0-4]):[0-5]?[0-9](:[0-5]?[0-9](\\.[0-9]+)?)?"
_ZONE: Final = " ?(Z|UTC|[+-][0-9][0-9](:?[0-9][0-9])?)"
DAY: Final = (
    f"^{_BLANK}(-?[0-9]{{1,7}})([- /\\\\])([0-9]{{1,2}})\\2([0-9]{{1,2}})"
    f"({_BLANK}|[ T]{_TIME}({_ZONE})?{_BLANK})$"
)
"""Year, month, and day, twice separated by the same sign; a time of day may follow."""

INFINITE_DATE: Final = f"^{_BLANK}-?[iI][nN][fF]([iI][nN][iI][tT][yY])?{_BLANK}$"
"""An infinite date, before or after all others."""


DoubleLiteral = Callable[[float], Sql]
"""A function that returns a double as a literal of the engine."""

INTEGRAL_FROM: Final = 2.0**53
"""Every double of this size or more is an integer."""
NEARLY_HALF: Final = math.nextafter(0.5, 0.0)
MAX_DOUBLE: Final = 1.7976931348623157e308
MAX_LENGTH: Final = 2**31 - 1


def literal_of(node: Sql) -> int:
    """Return the integer of a literal, which may have a sign."""
    match node:
        case sql.Paren() | sql.Cast():
            return literal_of(node.this)
        case sql.Neg():
            return -literal_of(node.this)
        case _:
            return int(node.name)


def null_unless_listed(text: Sql, listed: Sequence[Sql]) -> Sql:
    """Return a string if it is in a list of literals, else NULL."""
    inside = sql.In(this=text, expressions=[entry.copy() for entry in listed])
    return sql.Case(ifs=[sql.If(this=inside, true=text.copy())])


def parse_boolean(text: Sql) -> Sql:
    """Return the Boolean that a string represents in DuckDB, else NULL."""
    lowered = call("LOWER", text)
    branches = [
        sql.If(
            this=sql.In(
                this=lowered.copy(), expressions=[sql.Literal.string(word) for word in words]
            ),
            true=sql.Boolean(this=truth),
        )
        for truth, words in ((True, TRUE), (False, FALSE))
    ]
    return sql.Case(ifs=branches)


def substring(text: Sql, arguments: Sequence[int]) -> Sql:
    """Return DuckDB's SUBSTR for engines without position 0 and without negative lengths.

    ``arguments`` are the position of the first character and, optionally, the length. Negative
    positions count from the end. In DuckDB, position 0 is before the first character, and a
    negative length selects the characters before the position.
    """
    start, length = arguments[0], arguments[1] if len(arguments) > 1 else MAX_LENGTH
    if length < 0:
        start, length = start + length, -length
        if arguments[0] >= 0 > start - 1:
            # A substring that starts at or after the first position cannot wrap around to the end.
            start, length = 1, max(0, length + start - 1)
    elif start == 0:
        start, length = 1, max(0, length - 1)
    parts = [sql.Literal.number(str(abs(start))), sql.Literal.number(str(length))]
    if start < 0:
        parts[0] = sql.Neg(this=parts[0])
    return call("SUBSTR", text, *parts)


def round_integer(value: Sql, digits: int) -> Sql:
    """Return an integer rounded to tens, hundreds, and so on, halves away from zero."""
    if digits >= 0:
        return value
    step = 10**-digits
    if step > 2**62:
        return sql.Paren(this=value * sql.Literal.number("0"))
    step_literal, half = (sql.Literal.number(str(number)) for number in (step, step // 2))
    remainder = sql.Paren(this=sql.Mod(this=sql.Paren(this=value), expression=step_literal))
    below = sql.Neg(this=half.copy())
    added = sql.Case(
        ifs=[
            sql.If(this=sql.GTE(this=remainder.copy(), expression=half), true=step_literal.copy()),
            sql.If(
                this=sql.LTE(this=remainder.copy(), expression=below),
                true=sql.Neg(this=step_literal.copy()),
            ),
        ],
        default=sql.Literal.number("0"),
    )
    return sql.Paren(this=sql.Paren(this=value.copy()) - remainder + added)


def round_double(value: Sql, digits: int, real: DoubleLiteral, cut: Callable[[Sql], Sql]) -> Sql:
    """Return a double rounded by exactly the operations of DuckDB, halves away from zero.

    ``real`` writes literals of type double. ``cut`` drops the fraction of a double below 2^53, and
    returns a double.

    Why: DuckDB multiplies by a power of ten, rounds, and divides again. If the product is too large
         for a double, it returns the number unchanged. To round a number of at least 0 with halves
         away from zero, it suffices to add the double next below one half and to truncate. The sum,
         rounded by the processor, reaches the next integer only if the fraction is one half or
         more. For negative numbers, that double is subtracted.
    """
    if digits > 308:
        return value
    if digits < -308:
        return sql.Paren(this=value * real(0.0))
    power = real(10.0 ** abs(digits))
    scale, unscale = (sql.Mul, sql.Div) if digits >= 0 else (sql.Div, sql.Mul)

    def scaled() -> Sql:
        inner = sql.Paren(this=value.copy())
        return inner if not digits else sql.Paren(this=scale(this=inner, expression=power.copy()))

    def unscaled(number: Sql) -> Sql:
        return number if not digits else unscale(this=number, expression=power.copy())

    is_below = sql.LT(this=scaled(), expression=real(0.0))
    half = sql.Case(ifs=[sql.If(this=is_below, true=real(-NEARLY_HALF))], default=real(NEARLY_HALF))
    rounded = cut(sql.Paren(this=scaled() + half))
    size = call("ABS", scaled())
    is_small = sql.LT(this=size, expression=real(INTEGRAL_FROM))
    is_finite = sql.LTE(this=size.copy(), expression=real(MAX_DOUBLE))
    branches = [(is_small, unscaled(rounded)), (is_finite, unscaled(scaled()))]
    otherwise = value.copy() if digits >= 0 else None
    return sql.Case(
        ifs=[sql.If(this=condition, true=result) for condition, result in branches],
        default=otherwise,
    )
