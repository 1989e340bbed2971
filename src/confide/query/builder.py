"""Python front end: `TableQuery`, which builds the same trees as SQL.

``curator.table(name)`` returns a `TableQuery`. Its steps store *terms*, such as ``col("age")``,
which are not bound to any table. When the query runs, `TableQuery.build` resolves every name and
returns the tree.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Unpack

from confide.aggregates import make_aggregate
from confide.declare.budget import PriceArgs, QueryArgs, show_keywords
from confide.errors import UnsupportedQuery
from confide.expressions.construct import (
    check_condition,
    conjunction,
    has_aggregate,
    lift_keys,
    make_literal,
)
from confide.expressions.shorthands import build_call
from confide.expressions.terms import AggregateTerm, Applied, Constant, Named, Term
from confide.expressions.tree import Column, Expression
from confide.query.canonical import default_name
from confide.query.scope import (
    Member,
    Names,
    Pair,
    Scope,
    Tables,
    Unit,
    make_member,
    make_per_unit,
    start_tables,
)
from confide.query.tree import (
    MAX_LIMIT,
    JoinKind,
    Order,
    Output,
    Query,
    check_counts,
    check_key,
    check_output_name,
    check_outputs,
    check_sort,
    check_sorts,
    fold_name,
)

__all__ = ["QueryRunner", "TableQuery"]

On = str | Sequence[str] | Mapping[str, str] | None
"""The columns on which a public table is joined; see `TableQuery.join`."""


class QueryRunner(Protocol):
    """An object that runs queries: a local curator or a remote one."""

    def ask(self, query: "TableQuery", **want: Unpack[QueryArgs]) -> Any: ...

    def preview(self, query: "TableQuery", **want: Unpack[PriceArgs]) -> Any: ...


@dataclass(frozen=True, slots=True)
class _PerUnitQuery:
    """A per-unit query used as a table, with one row per unit."""

    query: "TableQuery"


@dataclass(frozen=True, slots=True)
class _JoinStep:
    """A join: the other table or per-unit query, the pairs of column names, and the kind."""

    other: str | _PerUnitQuery
    on: tuple[tuple[str, str], ...]
    kind: JoinKind


@show_keywords
@dataclass(frozen=True, slots=True, eq=False)
class TableQuery:
    """A query about a table, built step by step; every step returns a new query.

    ``runner`` is the curator that answers it. In ``keys`` and ``statistics``, each term follows its
    output name (None for a default name). In ``sorts``, a flag after each term marks descending
    order.

    >>> from confide.aggregates import count
    >>> from confide import col
    >>> old = TableQuery("visits").where(col("age") >= 65)
    >>> by_ward = old.group_by("ward").agg(n=count())
    """

    table: str | _PerUnitQuery
    runner: QueryRunner | None = None
    joins: tuple[_JoinStep, ...] = ()
    conditions: tuple[Term, ...] = ()
    keys: tuple[tuple[str | None, Term], ...] = ()
    statistics: tuple[tuple[str, Term], ...] = ()
    having_conditions: tuple[Term, ...] = ()
    sorts: tuple[tuple[Term, bool], ...] = ()
    row_limit: int | None = None

    def join(self, other: "str | TableQuery", on: On = None, how: str = "inner") -> "TableQuery":
        """Return the query joined with another table.

        Join a public table on columns: one name, several names, or {"left": "right"}. To join a
        private table or a per-unit query on the unit, omit ``on``.
        """
        if how not in list(JoinKind):
            raise UnsupportedQuery(f"`how` must be 'inner' or 'left'; got {how!r}.")
        step = _JoinStep(_read_other(other), _read_on(on), JoinKind(how))
        return replace(self, joins=(*self.joins, step))

    def where(self, *conditions: Term) -> "TableQuery":
        """Return the query restricted to the rows that meet all conditions."""
        return replace(self, conditions=(*self.conditions, *map(_check_term, conditions)))

    def group_by(
        self, *keys: str | Term | Sequence[str | Term], **named: str | Term
    ) -> "TableQuery":
        """Return the query grouped by the keys: columns, terms, or lists of them.

        >>> TableQuery("visits").group_by(["ward", "sex"]).keys[1]
        (None, Named(name='sex'))
        """
        plain = [(None, _key_term(key)) for key in _flatten(keys)]
        given = [(name, _key_term(key)) for name, key in named.items()]
        return replace(self, keys=(*self.keys, *plain, *given))

    def agg(self, *unnamed: Term, **statistics: Term) -> "TableQuery":
        """Return the query with more outputs: named statistics, or arithmetic on statistics."""
        if unnamed:
            raise UnsupportedQuery("Every statistic needs a name. Write `agg(n=cf.count())`.")
        listed = [(name, _check_term(term)) for name, term in statistics.items()]
        return replace(self, statistics=(*self.statistics, *listed))

    def having(self, *conditions: Term) -> "TableQuery":
        """Return the query restricted to groups whose noisy values meet all conditions."""
        terms = map(_check_term, conditions)
        return replace(self, having_conditions=(*self.having_conditions, *terms))

    def order_by(self, *what: str | Term, descending: bool = False) -> "TableQuery":
        """Return the query with its answer sorted by keys, statistics, or their names."""
        sorts = [(_key_term(term), descending) for term in what]
        return replace(self, sorts=(*self.sorts, *sorts))

    def limit(self, count: int) -> "TableQuery":
        """Return the query limited to the first ``count`` groups of its answer."""
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_LIMIT:
            raise UnsupportedQuery(
                f"`limit` must be an integer from 1 to {MAX_LIMIT:,}; got {count!r}."
            )
        return replace(self, row_limit=count)

    def per_unit(self, *unnamed: Term, **statistics: Term) -> "TableQuery":
        """Return a per-unit query: one row per unit, with statistics of the unit's rows."""
        return TableQuery(_PerUnitQuery(self.agg(*unnamed, **statistics)), self.runner)

    def is_bare(self) -> bool:
        """Return whether the query is only a table so far, without any clause."""
        clauses = (self.joins, self.conditions, self.keys, self.statistics, self.having_conditions)
        return not any(clauses) and not self.sorts and self.row_limit is None

    def ask(self, **want: Unpack[QueryArgs]) -> Any:
        """Return the answer. Set its cost with `epsilon=`, `share=`, or `error=`, as for SQL."""
        return self._require_runner().ask(self, **want)

    def preview(self, **want: Unpack[PriceArgs]) -> Any:
        """Return the expected cost and error. This reads no data and spends nothing."""
        return self._require_runner().preview(self, **want)

    def _require_runner(self) -> QueryRunner:
        if self.runner is None:
            raise UnsupportedQuery(
                "This query has no curator. Start it with `curator.table(name)`."
            )
        return self.runner

    def build(self, names: Names) -> Query:
        """Return the query as a tree in which every name and type is resolved."""
        tables = _read_tables(self, names, "t")
        resolver = _Resolver(tables.scope)
        keys, outputs = self._read_outputs(resolver)
        check_outputs(keys, outputs)
        check_sorts(len(self.sorts))
        after = _Resolver(
            tables.scope, {fold_name(output.name): output.expression for output in outputs}
        )
        return Query(
            source=tables.source,
            where=resolver.conditions(self.conditions),
            keys=keys,
            outputs=tuple(outputs),
            having=after.conditions(self.having_conditions, keys),
            order=tuple(
                Order(check_sort(lift_keys(after.read(term), keys)), down)
                for term, down in self.sorts
            ),
            limit=self.row_limit,
        )

    def _read_outputs(self, resolver: "_Resolver") -> tuple[tuple[Expression, ...], list[Output]]:
        """Return the group keys, and the output columns: keys first, then statistics."""
        check_counts(len(self.keys), len(self.keys) + len(self.statistics))
        found = [(name, check_key(resolver.read(term))) for name, term in self.keys]
        keys = tuple(dict.fromkeys(key for _, key in found))
        named = [
            *((name or default_name(key), key) for name, key in found),
            *((name, resolver.read(term)) for name, term in self.statistics),
        ]
        return keys, [
            Output(check_output_name(name), lift_keys(term, keys)) for name, term in named
        ]


@dataclass(frozen=True, slots=True)
class _Resolver:
    """Turns terms into expressions over the columns in ``scope``.

    In HAVING and ORDER BY, ``aliases`` maps the names of output columns to their expressions. A
    term used in several places is converted once; ``made`` caches results by the term's `id`.
    """

    scope: Scope
    aliases: Mapping[str, Expression] | None = None
    made: dict[int, tuple[Term, Expression]] = field(default_factory=dict)

    def read(self, term: Term) -> Expression:
        found = self.made.get(id(term))
        if found is None:
            # Storing the term keeps it alive, so no other term can reuse its id.
            found = self.made[id(term)] = term, self._make(term)
        return found[1]

    def _make(self, term: Term) -> Expression:
        match term:
            case Named(name=name):
                alias = (self.aliases or {}).get(fold_name(name))
                return self._find(name) if alias is None else alias
            case Constant(value=value):
                return make_literal(value)
            case Applied(function=function, arguments=arguments):
                return build_call(function, *map(self.read, arguments))
            case AggregateTerm(function=function, arguments=arguments, condition=condition):
                inside = _Resolver(self.scope) if self.aliases else self
                return make_aggregate(
                    function,
                    *map(inside.read, arguments),
                    where=None if condition is None else inside.read(condition),
                    level=term.quantile,
                )
            case _:
                raise UnsupportedQuery(
                    "A term must be made with `col()`, such as `col('age')`; got "
                    f"{type(term).__name__}."
                )

    def conditions(
        self, terms: Sequence[Term], keys: Sequence[Expression] | None = None
    ) -> Expression | None:
        """Return the conjunction of conditions on rows or, with ``keys``, on groups."""
        read = [check_condition(self.read(term)) for term in terms]
        if keys is not None:
            return conjunction([lift_keys(condition, keys) for condition in read])
        if any(map(has_aggregate, read)):
            raise UnsupportedQuery(
                "`where()` filters rows. Move conditions on statistics to `having()`."
            )
        return conjunction(read)

    def _find(self, name: str) -> Column:
        """Return the column with this name, which may be qualified, as in "wards.size"."""
        label: str | None = None
        if "." in name and not any(member.find(name) for member in self.scope.members):
            label, _, name = name.partition(".")
        if isinstance(self.scope.find(name, label), Unit):
            raise UnsupportedQuery(
                f"`{name}` identifies people, so it cannot be selected, compared, or grouped by. "
                "Use `cf.count_units()` to count people, join private tables without `on=`, or use "
                "`per_unit(...)` for statistics of each person's rows."
            )
        return self.scope.column(name, label)


def _read_other(other: "str | TableQuery") -> str | _PerUnitQuery:
    match other:
        case str():
            return other
        case TableQuery(table=_PerUnitQuery() as grouped) if other.is_bare():
            return grouped
        case _:
            raise UnsupportedQuery(
                "A join needs the name of a table, or a query that ends in `per_unit(...)`."
            )


def _check_term(term: object) -> Term:
    if not isinstance(term, Term):
        raise UnsupportedQuery(
            f"A term such as `col('age') >= 65` or `count()` is needed; got {type(term).__name__}."
        )
    return term


def _key_term(key: str | Term) -> Term:
    return Named(key) if isinstance(key, str) else _check_term(key)


def _flatten(keys: Iterable[str | Term | Sequence[str | Term]]) -> Iterator[str | Term]:
    """Yield the keys one by one, flattening lists."""
    for key in keys:
        if isinstance(key, str) or not isinstance(key, Sequence):
            yield key
        else:
            yield from key


def _read_on(on: On) -> tuple[tuple[str, str], ...]:
    """Return the pairs of column names to join on, left side first."""
    match on:
        case None:
            return ()
        case str():
            return ((on, on),)
        case Mapping():
            return tuple(on.items())
        case _:
            return tuple((name, name) for name in on)


def _read_tables(query: TableQuery, names: Names, prefix: str) -> Tables:
    """Return the joined tables of a query; their aliases in the tree start with ``prefix``."""
    tables = start_tables(_read_member(query.table, names, "", f"{prefix}1"), prefix)
    for step in query.joins:
        member = _read_member(step.other, names, str(len(tables.scope.members)), tables.alias())
        pairs = [_read_pair(pair, tables, member) for pair in step.on]
        if not member.public and not step.on:
            pairs = [(Unit(tables.scope.members[0]), Unit(member))]
        merged = frozenset(left.lower() for left, right in step.on if left == right)
        tables = tables.join(member, step.kind, pairs, merged)
    return tables


def _read_member(table: str | _PerUnitQuery, names: Names, label: str, alias: str) -> Member:
    match table:
        case str():
            return make_member(names.table(table), table, alias)
        case _PerUnitQuery(query=query):
            return _read_per_unit(query, names, label, alias)


def _read_per_unit(query: TableQuery, names: Names, label: str, alias: str) -> Member:
    if query.keys or query.having_conditions or query.sorts or query.row_limit is not None:
        raise UnsupportedQuery(
            "A per-unit query can have only conditions and statistics. Remove the other steps."
        )
    tables = _read_tables(query, names, f"{alias}u")
    resolver = _Resolver(tables.scope)
    outputs = [
        Output(check_output_name(name), resolver.read(term)) for name, term in query.statistics
    ]
    where = resolver.conditions(query.conditions)
    return make_per_unit(tables, where, outputs, label=label, alias=alias)


def _read_pair(pair: tuple[str, str], tables: Tables, member: Member) -> Pair:
    left, right = pair
    label, _, name = left.rpartition(".")
    return tables.scope.find(name, label or None), Scope((member,)).find(right)
