"""Addition of the planned noise to the exact totals that an engine computed.

This turns sealed values into a `NoisyMeasurement`, from which answers are computed without any
further access to the data.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from itertools import chain
from typing import Any, Final, assert_never

import numpy as np
from numpy.typing import NDArray

from confide.engines import Groups, Sealed
from confide.expressions.tree import Value
from confide.mechanisms.grid import MAX_VALUE, saturate
from confide.noise import Entropy, Integers
from confide.plan import DeclaredKeys, Plan, SelectedKeys
from confide.release.quantiles import Chosen, choose_each, read_cells
from confide.release.unseal import unseal

__all__ = ["NoisyMeasurement", "add_noise", "round_each", "round_to_steps"]

OVERFLOW_LIMIT: Final = 2**62


@dataclass(frozen=True, slots=True)
class NoisyMeasurement:
    """Released values by group, which are safe to show and to store.

    ``steps`` holds each noisy total as an integer number of noise steps (see `TotalNoise`).
    ``cells`` holds three chosen cells for each quantile: its value, and both ends of its interval.
    Both have one tuple per group, but ``cells`` is empty if the plan has no quantiles.
    """

    groups: tuple[tuple[Value, ...], ...]
    steps: tuple[tuple[int, ...], ...]
    cells: tuple[tuple[Chosen, ...], ...] = ()

    def values(self, plan: Plan) -> NDArray[np.float64]:
        """Return one row per group: the totals in units of 1, then the quantiles."""
        sizes = np.array([float(step) for step in plan.noise.steps])
        table = np.array(self.steps, dtype=np.float64).reshape(len(self.groups), len(sizes))
        values: NDArray[np.float64] = table * sizes
        return np.hstack([values, read_cells(plan, self.cells)]) if plan.quantiles else values

    def to_json(self) -> dict[str, Any]:
        """Return the content for JSON; dates are tagged, since JSON has none.

        Tuples are not converted: JSON writes them as lists, and copying many groups is slow.
        """
        groups: tuple[tuple[Any, ...], ...] = self.groups
        if any(issubclass(kind, date) for kind in _kinds(groups)):
            groups = tuple(tuple(map(_store, group)) for group in groups)
        return {"groups": groups, "steps": self.steps, "cells": self.cells}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "NoisyMeasurement":
        """Return the measurement that was stored."""
        groups = tuple(map(tuple, stored["groups"]))
        if dict in _kinds(groups):
            groups = tuple(tuple(map(_restore, group)) for group in groups)
        cells = tuple(tuple(map(_read_cells, row)) for row in stored.get("cells", ()))
        return cls(groups, tuple(map(tuple, stored["steps"])), cells)


def _kinds(groups: Iterable[tuple[Any, ...]]) -> set[type]:
    """Return the types of all values in group keys."""
    return set(map(type, chain.from_iterable(groups)))


def _store(value: Value) -> Any:
    match value:
        case datetime():
            return {"time": value.isoformat(" ")}
        case date():
            return {"day": value.isoformat()}
        case _:
            return value


def _restore(value: Any) -> Value:
    if not isinstance(value, dict):
        restored: Value = value
    elif "time" in value:
        restored = datetime.fromisoformat(value["time"])
    else:
        restored = date.fromisoformat(value["day"])
    return restored


def _read_cells(stored: Any) -> Chosen:
    value, low, high = stored
    return value, low, high


def add_noise(sealed: Sealed, plan: Plan, entropy: Entropy) -> NoisyMeasurement:
    """Return the noisy totals, and the cells of quantiles, of every group in the answer.

    # Privacy: noise is drawn for every declared group, whether or not it has rows, in the order of
    # the plan. Groups that are neither declared nor selected are dropped unseen. Both the total and
    # its sum with the noise are saturated, that is, clipped to the same large bounds. A noisy total
    # is a function of (saturated total + noise) alone, where the noise is drawn without bounds.
    """
    exact = unseal(sealed).groups
    groups = _released_groups(exact, plan.keys, entropy)
    empty = (0,) * len(plan.totals)
    rows = [exact.get(group, empty) for group in groups]
    noise = plan.noise.law.draw(len(groups), entropy)
    columns = []
    for index, size in enumerate(plan.noise.steps):
        steps = round_each([row[index] for row in rows], size)
        noisy = np.clip(steps + noise[:, index], -MAX_VALUE, MAX_VALUE)
        columns.append(noisy.tolist())
    noisy = tuple(zip(*columns, strict=True)) if columns else ((),) * len(groups)
    return NoisyMeasurement(groups, noisy, _choose(sealed, plan, groups, entropy))


def _choose(
    sealed: Sealed, plan: Plan, groups: tuple[tuple[Value, ...], ...], entropy: Entropy
) -> tuple[tuple[Chosen, ...], ...]:
    """Return the cells chosen for each quantile of every group in the answer.

    # Privacy: a group without rows takes part in the choice like any other.
    """
    if not plan.quantiles:
        return ()
    counts, empty = unseal(sealed).counts, (np.empty(0, np.int64), np.empty(0, np.int64))
    chosen = [
        choose_each(
            [counts[quantile.histogram].get(group, empty) for group in groups],
            quantile,
            plan.histograms[quantile.histogram].cells,
            entropy,
        )
        for quantile in plan.quantiles
    ]
    return tuple(zip(*chosen, strict=True))


def _released_groups(
    exact: Groups, keys: DeclaredKeys | SelectedKeys, entropy: Entropy
) -> tuple[tuple[Value, ...], ...]:
    """Return the groups in the answer: all declared keys, or the privately selected ones."""
    match keys:
        case DeclaredKeys(groups=groups):
            return groups
        case SelectedKeys(selection=selection):
            found = sorted(exact, key=_sortable)
            is_selected, _ = selection.release(
                [exact[group][-1] for group in found], entropy=entropy
            )
            return tuple(group for group, keep in zip(found, is_selected, strict=True) if keep)
        case _:
            assert_never(keys)


def _sortable(group: tuple[Value, ...]) -> tuple[tuple[bool, str], ...]:
    return tuple((value is not None, str(value)) for value in group)


def round_to_steps(total: int | Fraction, size: Fraction) -> int:
    """Return a total as the nearest integer number of steps of ``size``, with ties upwards.

    Why: floor(total / size + 1/2) never decreases as the total increases, and adding an integer
         number of steps to the total adds exactly that number. So if a total changes by at most an
         integer number of steps, the result changes by at most that number.
    """
    # total / size = value / unit, with integers.
    unit, value = size.numerator * total.denominator, size.denominator * total.numerator
    return (2 * value + unit) // (2 * unit)


def round_each(totals: Sequence[int], size: Fraction) -> Integers:
    """Return `round_to_steps` of each total, saturated.

    Why: with a / b the size and m the largest absolute total, no intermediate 64-bit result exceeds
         the larger of 2 b m + a and 2 a. If it is less than 2^62, nothing overflows, and division
         rounds down as for Python's integers. In all other cases, Python's integers are used.
    """
    a, b = size.numerator, size.denominator
    largest = max(1, max(totals, default=0), -min(totals, default=0))
    if max(2 * b * largest + a, 2 * a) >= OVERFLOW_LIMIT:
        return np.array([saturate(round_to_steps(total, size)) for total in totals], dtype=np.int64)
    steps: Integers = (2 * b * np.array(totals, dtype=np.int64) + a) // (2 * a)
    return np.clip(steps, -MAX_VALUE, MAX_VALUE)
