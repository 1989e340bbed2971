"""Group keys: the declared domains they range over, or the private selection of others."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from itertools import product
from math import prod
from typing import Final, assert_never

from confide.declare import Kind
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
    "keep_keys",
    "plan_keys",
]

MOST_KEYS: Final = 10_000
MOST_GROUPS: Final = 1_000_000
KEY_PART: Final = Fraction(1, 4)

Domain = tuple[Value, ...]
"""Every value that a key can have, in the order in which it is answered."""


def domain_of(
    key: Expression, ranges: Ranges, optional: frozenset[str] = frozenset()
) -> Domain | None:
    """Return every value the key can have, or None when that is unknown or too many.

    NULL is one of them where the owner listed it, or where the key has it by its own form: a CASE
    without ELSE, or a column of a table that is ``optional``. Rows in which a column is NULL that
    nobody listed so have no group.
    """
    found = _values_of(key, ranges)
    if found is None or not may_be_null(key, optional, ranges):
        return found
    return tuple(dict.fromkeys((*found, None)))


def keep_keys(domain: Domain | None, fewer: Domain | None) -> Domain | None:
    """Return a domain without what rows that count cannot have; all of it, if nothing would stay.

    Why: rows are filtered before they are grouped or cut, so no row that counts has another key.
    """
    if domain is None or fewer is None:
        return domain
    kept = set(fewer)
    return tuple(value for value in domain if value in kept) or domain


def _values_of(key: Expression, ranges: Ranges) -> Domain | None:
    found = range_of(key, ranges)
    if found.is_empty:
        return ()
    if key.kind is Kind.TEXT or (isinstance(key, Column) and found.values is not None):
        return found.values
    return (False, True) if key.kind is Kind.BOOL else _numbers_of(key, ranges, found)


def _numbers_of(key: Expression, ranges: Ranges, found: Range) -> Domain | None:
    """Return the numbers or days that a key can be; those of its range where it must be."""
    listed: Sequence[float] | None = key_values(key, ranges)
    if listed is None and key.kind is not Kind.FLOAT and found.high - found.low < MOST_KEYS:
        listed = range(int(found.low), int(found.high) + 1)
    if listed is None or len(listed) > MOST_KEYS:
        return None
    is_day = key.kind is Kind.DATE
    return tuple(date.fromordinal(int(one)) for one in listed) if is_day else tuple(listed)


@dataclass(frozen=True, slots=True)
class DeclaredKeys:
    """Keys known beforehand: every combination is answered, whether rows have it or not."""

    groups: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class SelectedKeys:
    """Keys that nobody declared: those that rows have, if enough units share them."""

    selection: KeySelection


def declared_keys(domains: tuple[Domain | None, ...], *, may_select: bool) -> DeclaredKeys | None:
    """Return the keys that are known beforehand; None where rows decide, if they may."""
    known = tuple(domain for domain in domains if domain is not None)
    if len(known) == len(domains) and prod(map(len, known)) <= MOST_GROUPS:
        return DeclaredKeys(tuple(product(*known)))
    if not may_select:
        raise UnsupportedQuery(
            "these group keys are not known beforehand, and naming them needs a part of delta, "
            "which is set aside where the budget has a delta and a table a Text column; group by "
            "columns declared as Category or Bool, or Int or Date of a short range"
        )
    return None


def plan_keys(
    declared: DeclaredKeys | None,
    groups_per_unit: int,
    neighbours: Neighbours,
    loss: PureLoss | GaussianLoss,
    failure: Fraction,
) -> tuple[DeclaredKeys | SelectedKeys, PureLoss | GaussianLoss]:
    """Return how keys are found, and what of the loss is left for the totals.

    Claim:   finding the keys and releasing the totals of those named costs ``loss``, except with
             probability ``failure``.
    Why:     naming keys takes KEY_PART of the loss and the totals the rest, which add up (epsilon
             and mu^2 do); totals are released for named keys only, a choice made from what is
             released already.
    Source:  [KKMN09]; see mechanisms/key_selection.py for the keys.
    """
    if declared is not None:
        return declared, loss
    match loss:
        case PureLoss(epsilon=epsilon):
            named = KeySelection(
                groups_per_unit, epsilon * KEY_PART, failure, neighbours=neighbours
            )
            return SelectedKeys(named), PureLoss(epsilon * (1 - KEY_PART))
        case GaussianLoss(mu_squared=mu_squared):
            named = KeySelection(
                groups_per_unit,
                delta=failure,
                rho=mu_squared * KEY_PART / 2,
                neighbours=neighbours,
            )
            return SelectedKeys(named), GaussianLoss(mu_squared * (1 - KEY_PART))
        case _:
            assert_never(loss)
