"""`Plan`: a measurement calibrated to a share of the budget."""

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
from confide.plan.keys import KEY_PART, DeclaredKeys, SelectedKeys, plan_keys
from confide.plan.measurement import Domains, Measurement, PlannedAggregate
from confide.plan.quantiles import HistogramCount, Quantile, plan_quantile
from confide.plan.range_arithmetic import Ranges
from confide.plan.sensitivity import TotalSensitivity, sensitivity_of
from confide.plan.totals import Total
from confide.query.tree import Query

__all__ = ["Plan", "check_numbers", "make_plan"]

MOST_NUMBERS: Final = 10**7


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that answering needs, fixed before the first row is read."""

    measurement: Measurement
    keys: DeclaredKeys | SelectedKeys
    reaches: tuple[TotalSensitivity, ...]
    loss: PureLoss | GaussianLoss
    noise: TotalNoise
    quantiles: tuple[Quantile, ...] = ()

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The names of what makes the answer private."""
        named: tuple[str, ...] = ("KeySelection",) if isinstance(self.keys, SelectedKeys) else ()
        if self.totals:
            named += (self.noise.mechanism,)
        return named + (("Exponential",) if self.quantiles else ())

    @property
    def numbers(self) -> int:
        """How many numbers an answer with declared keys holds; 0 where rows decide it."""
        if not isinstance(self.keys, DeclaredKeys):
            return 0
        return len(self.keys.groups) * max(1, len(self.totals) + len(self.quantiles))

    @property
    def failure(self) -> Fraction:
        """The probability that naming keys tells of a single unit."""
        return (
            self.keys.selection.loss.failure if isinstance(self.keys, SelectedKeys) else Fraction(0)
        )

    @property
    def query(self) -> Query:
        """The query that is measured."""
        return self.measurement.query

    @property
    def where(self) -> Expression | None:
        """The condition on rows that count."""
        return self.measurement.where

    @property
    def ranges(self) -> Ranges:
        """Where the values of each column lie."""
        return self.measurement.ranges

    @property
    def contribution(self) -> ContributionBounds:
        """How many rows and groups one unit may have."""
        return self.measurement.contribution

    @property
    def totals(self) -> tuple[Total, ...]:
        """The exact totals of each group."""
        return self.measurement.totals

    @property
    def statistics(self) -> tuple[PlannedAggregate, ...]:
        """The aggregates of the query, by the places of their totals."""
        return self.measurement.statistics

    @property
    def domains(self) -> Domains:
        """The values of each key, as far as they are known."""
        return self.measurement.domains

    @property
    def histograms(self) -> tuple[HistogramCount, ...]:
        """The counts of rows by cell."""
        return self.measurement.histograms

    @property
    def has_unit(self) -> bool:
        """Whether rows have a column that tells whom they are about."""
        return self.measurement.has_unit

    @property
    def catalog(self) -> Catalog:
        """The declaration."""
        return self.measurement.catalog

    @property
    def facts(self) -> PublicFacts:
        """What is known of public tables."""
        return self.measurement.facts

    @property
    def is_nonnegative(self) -> bool:
        """Whether the owner wants no count shown below zero."""
        return self.measurement.is_nonnegative


def make_plan(
    measurement: Measurement,
    neighbours: Neighbours,
    loss: PureLoss | GaussianLoss,
    *,
    failure: Fraction = Fraction(0),
    granted: Loss | None = None,
) -> Plan:
    """Return how to make a measurement at the cost of ``loss``, or refuse it.

    ``failure`` is the delta that keys may use which nobody declared. ``granted`` is what the filter
    grants, where ``loss`` is only what noise is calibrated to: choices may be cheaper there.
    """
    contribution, answered = measurement.contribution, measurement.answered
    levels = measurement.levels
    with _enough_noise():
        keys, rest = plan_keys(measurement.keys, contribution.groups, neighbours, loss, failure)
    reaches = sensitivity_of(measurement.totals, contribution, neighbours, answered)
    granted = granted or loss
    # Privacy: totals and quantiles take parts of what the keys leave, which add up to 1.
    part, parts = split_loss(len(measurement.totals), [level for _, level in levels], granted)
    with _enough_noise():
        noise = noise_for(reaches, _scale(rest, part))
        left = fraction_of(granted, Fraction(1) if answered is not None else 1 - KEY_PART)
        quantiles = tuple(
            plan_quantile(
                *(*one, contribution.rows, neighbours, fraction_of(left, part)),
                is_grouped=bool(measurement.query.keys),
            )
            for one, part in zip(levels, parts, strict=True)
        )
    plan = Plan(measurement, keys, reaches, loss, noise, quantiles)
    check_numbers(plan.numbers)
    return plan


def check_numbers(numbers: int) -> None:
    """Refuse answers that would fill the memory, before they are paid for."""
    if numbers > MOST_NUMBERS:
        raise UnsupportedQuery(
            f"an answer of {numbers:,} numbers is too large, at most {MOST_NUMBERS:,} are given at "
            "once; group by fewer keys, or ask in parts"
        )


def _scale(loss: PureLoss | GaussianLoss, part: Fraction) -> PureLoss | GaussianLoss:
    """Return what the totals may cost; without totals nothing is added and nothing spent."""
    return loss_for_noise(fraction_of(loss, part)) if part else loss


@contextmanager
def _enough_noise() -> Iterator[None]:
    """Turn noise beyond what can be added into the analyst's to mend: the cost is too small."""
    try:
        yield
    except BadDeclaration:
        raise UnsupportedQuery(
            "so small a cost would need more noise than can be added; ask with a larger epsilon or "
            "share"
        ) from None
