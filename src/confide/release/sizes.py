"""Noise grid of a stored answer, and the check that it is today's."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from confide.errors import UnsupportedQuery
from confide.plan import Plan

__all__ = ["GRID_STEPS_CHANGED", "check_grid_steps", "find_plans", "grid_steps", "write_sizes"]


GRID_STEPS_CHANGED: Final = (
    "this was answered by a confide that rounded in other steps; ask with fresh=True"
)


def grid_steps(plan: Plan) -> list[str]:
    """Return the steps of a plan's noise and the rates of its quantiles, as text.

    Why: a later planner may divide the same cost otherwise, and steps can be the same nevertheless.
    """
    rates = [f"{float(one.choice.rate):.9g} {float(one.ends.rate):.9g}" for one in plan.quantiles]
    return [*map(str, plan.noise.steps), *rates]


def write_sizes(plans: Iterable[Plan]) -> list[list[str]]:
    """Return the steps of each plan's noise."""
    return [grid_steps(plan) for plan in plans]


def check_grid_steps(noisy: Mapping[str, Any], plans: Iterable[Plan]) -> None:
    """Refuse stored numbers that were written in other steps than those of today's plans.

    A later planner may choose other steps for the same question at the same cost; the numbers that
    an earlier one stored must then not be read with them.

    Raises:
        UnsupportedQuery: the steps are not the same.
    """
    if noisy.get("sizes") != write_sizes(plans):
        raise UnsupportedQuery(GRID_STEPS_CHANGED)


def find_plans(prepared: object) -> list[Plan]:
    """Return the plans among what was prepared: itself, the items of a tuple, or its fields."""
    if isinstance(prepared, Plan):
        return [prepared]
    if isinstance(prepared, tuple | list):
        return [plan for item in prepared for plan in find_plans(item)]
    if is_dataclass(prepared):
        held = (getattr(prepared, field.name) for field in fields(prepared))
        return [one for one in held if isinstance(one, Plan)]
    return []
