"""Group keys: their declared domains, or a private selection and its part of the cost.

If all possible keys follow from the declaration, the answer has a group for each of them, whether
or not any row has that key. Otherwise partition selection releases the keys that enough units
share, for a part of the cost and a part of delta.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from itertools import product
from math import prod
from typing import Final, assert_never

from confide.declare import Kind
from confide.declare.columns import from_milliseconds
from confide.errors import UnsupportedQuery
from confide.expressions.tree import Column, Expression, Value
from confide.loss import GaussianLoss, PureLoss
from confide.mechanisms import KeySelection, Neighbours
from confide.plan.key_values import key_values, may_be_null
from confide.plan.range_analysis import Range, range_of
from confide.plan.range_arithmetic import Ranges

__all__ = [
    "DeclaredKeys",
    "Domain",
    "SelectedKeys",
    "declared_keys",
    "domain_of",
    "narrow_domain",
    "plan_keys",
]

MAX_DOMAIN_SIZE: Final = 10_000
MAX_GROUPS: Final = 1_000_000
KEY_FRACTION: Final = Fraction(1, 4)
"""The fraction of a loss that pays for partition selection."""

Domain = tuple[Value, ...]
"""All values of a key, in the order in which they are released."""


def domain_of(
    key: Expression, ranges: Ranges, optional: frozenset[str] = frozenset()
) -> Domain | None:
    """Return all values of the key, or None if they are unknown or too many.

    NULL is included if `may_be_null` returns that the key can produce it. ``optional`` are the
    aliases of the tables on the right side of a LEFT JOIN. Any other row whose key is NULL counts
    in no group.
    """
    found = _values_of(key, ranges)
    if found is None or not may_be_null(key, optional, ranges):
        return found
    return tuple(dict.fromkeys((*found, None)))


def narrow_domain(domain: Domain | None, narrowed: Domain | None) -> Domain | None:
    """Return a domain restricted to ``narrowed``, or unchanged if no value would remain.

    ``narrowed`` is the domain of the same key over the rows that satisfy WHERE.

    Why: rows are filtered before they are grouped or bounded, so no selected row has another key.
    """
    if domain is None or narrowed is None:
        return domain
    kept = set(narrowed)
    return tuple(value for value in domain if value in kept) or domain


def _values_of(key: Expression, ranges: Ranges) -> Domain | None:
    found = range_of(key, ranges)
    if found.is_empty:
        return ()
    if key.kind is Kind.TEXT or (isinstance(key, Column) and found.values is not None):
        return found.values
    return (False, True) if key.kind is Kind.BOOL else _numbers_of(key, ranges, found)


def _numbers_of(key: Expression, ranges: Ranges, found: Range) -> Domain | None:
    """Return the values that a key can have: computed, or else all integers in its range.

    None means that they are unknown or too many.
    """
    listed: Sequence[float] | None = key_values(key, ranges)
    if listed is None and key.kind is not Kind.FLOAT and found.high - found.low < MAX_DOMAIN_SIZE:
        listed = range(int(found.low), int(found.high) + 1)
    if listed is None or len(listed) > MAX_DOMAIN_SIZE:
        return None
    read = KEY_READERS.get(key.kind)
    return tuple(listed) if read is None else tuple(read(int(one)) for one in listed)


KEY_READERS: Final[Mapping[Kind | None, Callable[[int], date]]] = {
    Kind.DATE: date.fromordinal,
    Kind.TIMESTAMP: from_milliseconds,
}
"""Functions that convert the number of a date or a timestamp to a value."""


@dataclass(frozen=True, slots=True)
class DeclaredKeys:
    """Declared keys: every combination is released, whether or not any row has it.

    Each group is a tuple with one value per key.
    """

    groups: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class SelectedKeys:
    """Undeclared keys: those that occur in rows are released if enough units share them."""

    selection: KeySelection


def declared_keys(domains: tuple[Domain | None, ...], *, may_select: bool) -> DeclaredKeys | None:
    """Return all combinations of the domains, or None if partition selection is necessary.

    If it is necessary but not allowed, raise UnsupportedQuery.
    """
    known = tuple(domain for domain in domains if domain is not None)
    if len(known) == len(domains) and prod(map(len, known)) <= MAX_GROUPS:
        return DeclaredKeys(tuple(product(*known)))
    if not may_select:
        raise UnsupportedQuery(
            "These group keys are undeclared, and releasing them needs a part of delta. It is set "
            "aside only if the budget has a delta and a table has a `Text` column. Group by "
            "columns declared as `Category` or `Bool`, or as `Int` or `Date` with a short range."
        )
    return None


def plan_keys(
    declared: DeclaredKeys | None,
    groups_per_unit: int,
    neighbours: Neighbours,
    loss: PureLoss | GaussianLoss,
    failure: Fraction,
) -> tuple[DeclaredKeys | SelectedKeys, PureLoss | GaussianLoss]:
    """Return the plan for the keys, and the loss that remains for totals and quantiles.

    ``failure`` is the part of delta that partition selection may use.

    Claim:   selecting the keys and releasing the values of the selected keys costs ``loss``, except
             with probability ``failure``.
    Why:     selecting keys takes the fraction KEY_FRACTION of the loss, and the values take the
             rest; these add up, as epsilon and mu^2 do. Which values are released depends only on
             the selected keys, which are released already.
    Source:  [KKMN09]; see mechanisms/key_selection.py for the keys.
    """
    if declared is not None:
        return declared, loss
    match loss:
        case PureLoss(epsilon=epsilon):
            selection = KeySelection(
                groups_per_unit, epsilon * KEY_FRACTION, failure, neighbours=neighbours
            )
            return SelectedKeys(selection), PureLoss(epsilon * (1 - KEY_FRACTION))
        case GaussianLoss(mu_squared=mu_squared):
            selection = KeySelection(
                groups_per_unit,
                delta=failure,
                rho=mu_squared * KEY_FRACTION / 2,
                neighbours=neighbours,
            )
            return SelectedKeys(selection), GaussianLoss(mu_squared * (1 - KEY_FRACTION))
        case _:
            assert_never(loss)
