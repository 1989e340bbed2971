"""`Plan`: a measurement, with noise and choices calibrated to a share of the budget.

The executor makes a plan for each candidate cost (execution/pricing.py), charges one, and lets the
engine compute the measurement. The modules in release/ then add the noise that the plan states.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from confide.declare import Catalog
from confide.errors import BadDeclaration, UnsupportedQuery
from confide.expressions.tree import Expression
from confide.loss import GaussianLoss, Loss, PureLoss
from confide.mechanisms import Neighbours
from confide.plan.calibration import TotalNoise, fraction_of, loss_for_noise, noise_for, split_loss
from confide.plan.contribution import ContributionBounds, PublicFacts
from confide.plan.keys import KEY_FRACTION, DeclaredKeys, SelectedKeys, plan_keys
from confide.plan.measurement import Domains, Measurement, PlannedAggregate
from confide.plan.quantiles import HistogramCount, Quantile, plan_quantile
from confide.plan.range_arithmetic import Ranges
from confide.plan.sensitivity import TotalSensitivity, sensitivity_of
from confide.plan.totals import Total
from confide.query.tree import Query

__all__ = ["Plan", "check_numbers", "make_plan"]

MAX_NUMBERS: Final = 10**7


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything needed to answer a query, fixed before the first row is read.

    ``keys`` are the groups, or the mechanism that selects them. ``sensitivities`` and ``noise``
    belong to the measurement's totals, and ``quantiles`` to its quantiles, in the same order.
    ``loss`` is the cost of the entire answer, except with probability ``failure``.
    """

    measurement: Measurement
    keys: DeclaredKeys | SelectedKeys
    sensitivities: tuple[TotalSensitivity, ...]
    loss: PureLoss | GaussianLoss
    noise: TotalNoise
    quantiles: tuple[Quantile, ...] = ()

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The names of the mechanisms that make the answer private."""
        named: tuple[str, ...] = ("KeySelection",) if isinstance(self.keys, SelectedKeys) else ()
        if self.totals:
            named += (self.noise.mechanism,)
        return named + (("Exponential",) if self.quantiles else ())

    @property
    def numbers(self) -> int:
        """The number of noisy values, at least one per group; 0 if keys are undeclared."""
        if not isinstance(self.keys, DeclaredKeys):
            return 0
        return len(self.keys.groups) * max(1, len(self.totals) + len(self.quantiles))

    @property
    def failure(self) -> Fraction:
        """The probability with which partition selection may exceed its bound on the loss."""
        return (
            self.keys.selection.loss.failure if isinstance(self.keys, SelectedKeys) else Fraction(0)
        )

    @property
    def query(self) -> Query:
        """The measured query."""
        return self.measurement.query

    @property
    def where(self) -> Expression | None:
        """The condition that selects rows."""
        return self.measurement.where

    @property
    def ranges(self) -> Ranges:
        """The range of each column."""
        return self.measurement.ranges

    @property
    def contribution(self) -> ContributionBounds:
        """The maximum number of rows and groups of one unit."""
        return self.measurement.contribution

    @property
    def totals(self) -> tuple[Total, ...]:
        """The exact totals of each group."""
        return self.measurement.totals

    @property
    def statistics(self) -> tuple[PlannedAggregate, ...]:
        """The aggregates of the query, with the indices of their totals and quantiles."""
        return self.measurement.statistics

    @property
    def domains(self) -> Domains:
        """The values of each key, if known."""
        return self.measurement.domains

    @property
    def histograms(self) -> tuple[HistogramCount, ...]:
        """The counts of rows by cell."""
        return self.measurement.histograms

    @property
    def has_unit(self) -> bool:
        """Whether a column identifies the unit of each row."""
        return self.measurement.has_unit

    @property
    def catalog(self) -> Catalog:
        """The declaration."""
        return self.measurement.catalog

    @property
    def facts(self) -> PublicFacts:
        """Facts about public tables."""
        return self.measurement.facts

    @property
    def is_nonnegative(self) -> bool:
        """Whether the owner requires released counts to be nonnegative."""
        return self.measurement.is_nonnegative


def make_plan(
    measurement: Measurement,
    neighbours: Neighbours,
    loss: PureLoss | GaussianLoss,
    *,
    failure: Fraction = Fraction(0),
    granted: Loss | None = None,
) -> Plan:
    """Return the plan that makes a measurement at the cost ``loss``, or refuse it.

    ``failure`` is the delta available for undeclared keys. Noise is calibrated to ``loss``. If the
    privacy filter measures losses in another way, ``granted`` is the same cost as the filter
    measures it. Quantiles are calibrated to ``granted``, because a choice may then cost less.
    """
    contribution, group_count = measurement.contribution, measurement.group_count
    levels = measurement.levels
    with _refuse_excess_noise():
        keys, rest = plan_keys(measurement.keys, contribution.groups, neighbours, loss, failure)
    sensitivities = sensitivity_of(measurement.totals, contribution, neighbours, group_count)
    granted = granted or loss
    # Privacy: totals and quantiles share the loss that remains after the keys; their fractions of
    # it add up to 1.
    total_part, quantile_parts = split_loss(
        len(measurement.totals), [level for _, level in levels], granted
    )
    with _refuse_excess_noise():
        noise = noise_for(sensitivities, _totals_loss(rest, total_part))
        left = fraction_of(granted, Fraction(1) if group_count is not None else 1 - KEY_FRACTION)
        quantiles = tuple(
            plan_quantile(
                *(histogram, level, contribution.rows, neighbours, fraction_of(left, part)),
                is_grouped=bool(measurement.query.keys),
            )
            for (histogram, level), part in zip(levels, quantile_parts, strict=True)
        )
    plan = Plan(measurement, keys, sensitivities, loss, noise, quantiles)
    check_numbers(plan.numbers)
    return plan


def check_numbers(numbers: int) -> None:
    """Refuse answers that would exhaust memory, before they are charged."""
    if numbers > MAX_NUMBERS:
        raise UnsupportedQuery(
            f"An answer can have at most {MAX_NUMBERS:,} numbers, but this one would have "
            f"{numbers:,}. Group by fewer keys, or split the query."
        )


def _totals_loss(loss: PureLoss | GaussianLoss, part: Fraction) -> PureLoss | GaussianLoss:
    """Return the loss of the totals; ``part`` is 0 without totals, and then the loss is unused."""
    return loss_for_noise(fraction_of(loss, part)) if part else loss


@contextmanager
def _refuse_excess_noise() -> Iterator[None]:
    """Turn the error for a noise scale that is too large into a refusal of the cost."""
    try:
        yield
    except BadDeclaration:
        raise UnsupportedQuery(
            "This cost is too small: it needs more noise than can be added. Pass a larger epsilon "
            "or share."
        ) from None
