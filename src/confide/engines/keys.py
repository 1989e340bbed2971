"""Group keys within a statement: as texts or numbers, as they are stored, or as places in a list.

A column of few listed texts is a place in its list while rows are cut: a number is hashed and
sorted sooner than a text. Which text has which place follows from the declaration alone, so units
are cut alike on every engine. Its text is put in place of the number outside.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from sqlglot import expressions as sql

from confide.declare import Category, Kind
from confide.engines.expressions import Emitter, Sql, call, number
from confide.engines.fragments import column, one_zero
from confide.engines.readings import as_narrow, as_plain
from confide.engines.views import as_stored
from confide.expressions.tree import Column, Value
from confide.plan import DeclaredKeys, Plan, private_tables

__all__ = ["find_stored", "kinds_of_keys", "name_groups", "small_keys", "write_key"]

T = TypeVar("T")
Keys = tuple[Value, ...]
MOST_PLACES: Final = 64
"""In longer lists a text is found no sooner than it is hashed, on engines that compare them all."""


def write_key(place: int, plan: Plan, emitter: Emitter, *, is_narrow: bool) -> Sql:
    """Return a key of a row that is cut or counted; both zeros of the doubles are one key.

    ``is_narrow`` says that the engine holds listed texts as numbers of few bits.
    """
    key, placed = plan.query.keys[place], _find_placed(plan).get(place)
    if placed is not None and isinstance(key, Column):
        return _place(column(as_stored(key.name), key.table), placed, is_narrow=is_narrow)
    value = emitter.emit(key)
    return one_zero(value) if key.kind is Kind.FLOAT else value


def find_stored(plan: Plan) -> dict[int, Category]:
    """Return the keys, by their places, that may stay as they are stored until rows are counted."""
    is_declared = isinstance(plan.keys, DeclaredKeys)
    return _categories(plan) if is_declared and not plan.contribution.is_cut else {}


def kinds_of_keys(plan: Plan) -> dict[str, Kind]:
    """Return the kinds of the keys that have one, as they are while rows are cut."""
    placed = _find_placed(plan)
    kinds = (
        (f"k{place}", Kind.INT if place in placed else key.kind)
        for place, key in enumerate(plan.query.keys)
    )
    return {name: kind for name, kind in kinds if kind is not None}


def small_keys(plan: Plan) -> list[str]:
    """Return the keys that are whole numbers of 31 bits in every row that is cut.

    Why: a view clips them to such a domain, or they are places in a list; and where the domain has
         no NULL, rows without a key are left out.
    """
    tables, placed = private_tables(plan.query.source, plan.catalog), _find_placed(plan)
    return [
        f"k{place}"
        for place, (key, domain) in enumerate(zip(plan.query.keys, plan.domains, strict=True))
        if isinstance(key, Column) and key.table in tables and domain
        if all(map(_is_text if place in placed else _is_small, domain))
    ]


def name_groups(found: Mapping[Keys, T], plan: Plan) -> dict[Keys, T]:
    """Return what a statement found of each group, by the values of its keys."""
    lists = {place: _texts(declared) for place, declared in _find_placed(plan).items()}
    if not lists:
        return dict(found)

    def name(place: int, value: Any) -> Value:
        is_placed = place in lists and value is not None
        named: Value = lists[place][value] if is_placed else value
        return named

    return {
        tuple(name(place, value) for place, value in enumerate(keys)): one
        for keys, one in found.items()
    }


def _find_placed(plan: Plan) -> dict[int, Category]:
    """Return the keys, by their places, that are places in their lists while rows are cut."""
    if not plan.contribution.is_cut:
        return {}
    listed = _categories(plan).items()
    return {place: one for place, one in listed if 0 < len(_texts(one)) <= MOST_PLACES}


def _categories(plan: Plan) -> dict[int, Category]:
    """Return the keys, by their places, that are columns of listed strings in a private table."""
    tables = private_tables(plan.query.source, plan.catalog)
    found: dict[int, Category] = {}
    for place, key in enumerate(plan.query.keys):
        if isinstance(key, Column) and key.table in tables:
            declared = tables[key.table].columns[key.name]
            if isinstance(declared, Category) and declared.kind is Kind.TEXT:
                found[place] = declared
    return found


def _place(text: Sql, declared: Category, *, is_narrow: bool) -> Sql:
    """Return the place of a text in its list, NULL if it has none."""
    if is_narrow:
        return call("ENUM_CODE", as_narrow(text, declared))
    places = [
        sql.If(this=sql.Literal.string(one), true=number(place))
        for place, one in enumerate(_texts(declared))
    ]
    return sql.Case(this=as_plain(text, declared), ifs=places)


def _texts(declared: Category) -> list[str]:
    return [one for one in declared.values if isinstance(one, str)]


def _is_small(value: Value) -> bool:
    return type(value) is int and 0 <= value < 2**31  # truths are no numbers to engines


def _is_text(value: Value) -> bool:
    return isinstance(value, str)
