"""The group keys of an answer: known beforehand, all answered; or unknown, and to be earned."""

from datetime import date
from itertools import product
from math import prod
from typing import Final

from confide.declare import Kind
from confide.plan.ranges import Ranges, range_of
from confide.query.tree import Expression, Value

__all__ = ["MOST_GROUPS", "Domain", "domain_of", "groups_of"]

MOST_KEYS: Final = 10_000
MOST_GROUPS: Final = 1_000_000

Domain = tuple[Value, ...]
"""Every value that a key can have, in the order in which it is answered."""


def domain_of(key: Expression, ranges: Ranges) -> Domain | None:
    """Return every value the key can have, or None when that is unknown or too many."""
    found = range_of(key, ranges)
    match key.kind:
        case Kind.TEXT:
            return found.values
        case Kind.BOOL:
            return (False, True)
        case Kind.INT | Kind.DATE if found.is_bounded and found.high - found.low < MOST_KEYS:
            whole = range(int(found.low), int(found.high) + 1)
            return tuple(whole) if key.kind is Kind.INT else tuple(map(date.fromordinal, whole))
        case _:
            return None


def groups_of(domains: tuple[Domain, ...]) -> list[tuple[Value, ...]] | None:
    """Return every combination of keys, or None when there are too many to answer each."""
    if prod(len(domain) for domain in domains) > MOST_GROUPS:
        return None
    return list(product(*domains))
