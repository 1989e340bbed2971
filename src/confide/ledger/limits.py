"""Limits per analyst, purpose, and calendar window."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final

from confide.declare import Limits
from confide.declare.budget import LimitRule, Window
from confide.errors import BudgetExceeded
from confide.exact import percent
from confide.ledger.protocol import Allowance
from confide.loss import UNITS, Share

__all__ = ["Spendings", "check_limits", "compute_allowance", "window_start"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)

Spendings = Callable[[str, str, int | None], int]
"""A function that returns the units spent within a scope.

Its arguments are the scope (``"budget"``, ``"analyst"``, or ``"purpose"``), the name of the analyst
or purpose, and a time. Only charges before that time count, or all charges if it is None.
"""


def check_limits(rules: list[LimitRule], units: int, spendings: Spendings, time: int) -> None:
    """Check a charge of ``units`` at ``time`` against the limits that apply to it.

    Claim:   in every window with a limit, the charges add up to at most that limit.
    Why:     the spending in a window is the running total now, minus the running total at the
             window's start; both are integers. Times never decrease along the chain, so no later
             charge can fall into an earlier window.
    Source:  docs/ledger.md.
    Checked: tests/contracts/test_limits.py.

    Raises:
        BudgetExceeded: the charge would exceed a limit.
    """
    for rule in rules:
        left = rule.share.units - _used(rule, spendings, time)
        if units > left:
            cost, rest = Fraction(units, UNITS), Fraction(max(left, 0), UNITS)
            raise BudgetExceeded(
                f"This query would cost {percent(cost)} of the budget, but {rule} leaves only "
                f"{percent(rest, down=True)}. Lower its cost, or ask the owner for a larger limit.",
                cost=cost,
                left=rest,
            )


def compute_allowance(
    limits: Limits, analyst: str, purpose: str, spendings: Spendings, time: int
) -> Allowance:
    """Return the allowance of an analyst for a purpose, under all limits together.

    If ``analyst`` is empty, the allowance's ``total`` and ``spent`` are those of the budget.
    """
    rules = limits.rules(analyst, purpose)
    lefts = [rule.share.units - _used(rule, spendings, time) for rule in rules]
    left = max(0, min([UNITS - spendings("budget", "", None), *lefts]))
    spent = spendings("analyst" if analyst else "budget", analyst, None)
    named = limits.analysts.get(analyst)
    return Allowance(named.share if named else Share(UNITS), Share(spent), Share(left))


def window_start(window: Window, time: int) -> int:
    """Return the start of the window that contains ``time``, in microseconds since 1970."""
    return (window.start(EPOCH + time * MICROSECOND) - EPOCH) // MICROSECOND


def _used(rule: LimitRule, spendings: Spendings, time: int) -> int:
    """Return the units that count against a limit: all, or those since its window's start.

    The window is the one that contains ``time``.
    """
    used = spendings(rule.scope, rule.name, None)
    if rule.window is None:
        return used
    return used - spendings(rule.scope, rule.name, window_start(rule.window, time))
