"""How an engine spells what every statement is made of.

Statements are built once, as trees in the words of DuckDB. Where another engine has other words for
the same thing, or the same words for another thing, a `Spelling` replaces single nodes of the
finished tree, from the leaves up, and writes the result in the engine's dialect.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import expressions as sql

from confide.engines.expressions import Sql

__all__ = ["FINITE", "Rule", "Spelling", "is_real", "is_text", "is_whole", "type_of"]

Rule = Callable[[Any], Sql | None]
"""Returns what stands for a node, whose parts are spelled already; None leaves it as it is."""

FINITE: Final = "FINITE"
"""The call that stands for ``CASE WHEN ISFINITE(x) THEN x END``, so that x is spelled once."""

T = sql.DType
TYPES: Final = {kind: sql.DataType(this=kind) for kind in T}
WHOLE: Final = (T.BIGINT, T.INT)
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
    return type_of(node) in WHOLE


def is_real(node: Sql) -> bool:
    """Tell whether a node is known to be a double."""
    return type_of(node) is T.DOUBLE


def is_text(node: Sql) -> bool:
    """Tell whether a node is known to be a text."""
    return type_of(node) is T.VARCHAR


@dataclass(frozen=True, slots=True)
class Spelling:
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
    if T.DOUBLE in kinds and kinds <= {T.DOUBLE, *WHOLE}:
        return T.DOUBLE
    if kinds and kinds <= set(WHOLE):
        return T.BIGINT
    return kinds.pop() if len(kinds) == 1 else None
