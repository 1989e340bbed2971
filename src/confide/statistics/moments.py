"""Mean, variance and covariance, within bounds declared, given or found privately."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np

from confide.errors import UnsupportedQuery
from confide.ledger import Hold
from confide.loss import Share
from confide.plan import Plan
from confide.plan.ladder import plan_ladder
from confide.query import Query, TableQuery, Term, canonical, col, count, quantile
from confide.release.ladder import climb
from confide.statistics.columns import Numbers, Within, number_column, plan_sums
from confide.statistics.estimate import Estimate, make_estimate
from confide.statistics.families import Family, Normal, Scaled, divide, pad
from confide.statistics.gaussian import MultivariateNormal
from confide.statistics.likelihood import solve_sums
from confide.statistics.reading import (
    Asked,
    Floats,
    pay,
    read_sums,
    release_totals,
    split_share,
)

__all__ = ["PRIVATE", "estimate_covariance", "estimate_moment"]

PRIVATE: Final = "private"
BOUNDS_PART: Final = Fraction(1, 3)
COUNT_PART: Final = Fraction(1, 5)
TAILS: Final = (Fraction(1, 10), Fraction(9, 10))

Window = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Variance:
    """Mean and variance of any law, from the sums of z, z^2, z^3 and z^4.

    The fourth powers say how much a variance varies from sample to sample.
    """

    x: Scaled
    parameters: tuple[str, ...] = ("variance",)

    def terms(self, value: Term) -> list[Term]:
        """Return powers of the scaled value; even ones from -1 to 1 like the others."""
        z = self.x.term(value)
        square = (z * z).clip(0.0, 1.0)
        even = [(2.0 * square - 1.0).clip(-1.0, 1.0), (2.0 * square * square - 1.0).clip(-1.0, 1.0)]
        return [z, even[0], (z * square).clip(-1.0, 1.0), even[1]]

    def solve(self, sums: Floats) -> Floats:
        """Return the sample variance."""
        means, rows = np.clip(divide(sums), -1.0, 1.0), np.maximum(sums[..., :1], 2.0)
        square = (means[..., 1:2] + 1.0) / 2.0 - means[..., :1] ** 2
        return np.clip(square * rows / (rows - 1.0), 0.0, 1.0) * self.x.half**2

    def sampling(self, sums: Floats) -> Floats:
        """Return the covariance of a row's terms, from the noisy powers themselves."""
        means = np.clip(divide(sums), -1.0, 1.0)
        z, square = means[0], (means[1] + 1.0) / 2.0
        third, fourth = means[2], (means[3] + 1.0) / 2.0
        mixed = 2.0 * (third - z * square)
        spread = np.array([[square - z**2, mixed], [mixed, 4.0 * (fourth - square**2)]])
        return pad(np.pad(spread, ((0, 2), (0, 2))))


def estimate_moment(
    asked: Asked, table: str, column: str, what: str, within: Within, *, private: bool
) -> Estimate:
    """Return the mean or the variance of a column, with its standard error.

    Law:     a count and sums of powers within [-1, 1] plus the plan's noise; bounds that are found
             privately take a third of the cost: two quantiles by `Ladder`, with as
             much again on either side.
    Claim:   costs what was granted.
    Why:     sums are one release of totals; bounds are another, and the sums are made within what
             it showed.
    Source:  [Smi11], [KV18]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_moments.py.
    """
    law: Callable[[Scaled], Any] = Normal if what == "mean" else Variance

    def terms(numbers: tuple[Numbers, ...]) -> list[Term]:
        added: list[Term] = law(numbers[0].scaled).terms(numbers[0].term)
        return added

    finder = _Finder(asked, table, (column,), terms, within=within, private=private)
    paid = finder.pay(what)
    numbers = finder.numbers(paid.noisy["windows"])[0]
    plan = finder.plan(paid.prepared[-1], paid.noisy["windows"])
    sums = read_sums(plan, paid.noisy["steps"])
    model = law(numbers.scaled)
    if what == "mean":
        solved, replicas = solve_sums(model, sums.values[0], sums.noise)
        solved, replicas = solved[:1], replicas[:, :1]
    else:
        solved, replicas = solve_sums(_Sampled(model, sums.values[0]), sums.values[0], sums.noise)
    return make_estimate(f"{what} of {numbers.name}", (what,), solved, replicas, paid)


@dataclass(frozen=True, slots=True)
class _Sampled:
    """A variance whose sampling follows from the released powers."""

    law: Variance
    sums: Floats

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.law.parameters

    def terms(self, value: Term) -> list[Term]:
        return self.law.terms(value)

    def solve(self, sums: Floats) -> Floats:
        return self.law.solve(sums)

    def covariance(self, parameters: Floats) -> Floats:
        del parameters
        return self.law.sampling(self.sums)


def estimate_covariance(
    asked: Asked, table: str, columns: Sequence[str], within: Within, *, private: bool
) -> Estimate:
    """Return variances and covariances of columns, as of a normal law; see `estimate_moment`."""
    if len(set(columns)) < 2 or len(set(columns)) < len(columns):
        raise UnsupportedQuery("a covariance is of two or more different columns")

    def terms(numbers: tuple[Numbers, ...]) -> list[Term]:
        return MultivariateNormal(numbers).terms()

    finder = _Finder(asked, table, tuple(columns), terms, within=within, private=private)
    paid = finder.pay("covariance")
    numbers = finder.numbers(paid.noisy["windows"])
    law = MultivariateNormal(numbers)
    plan = finder.plan(paid.prepared[-1], paid.noisy["windows"])
    sums = read_sums(plan, paid.noisy["steps"])
    solved, replicas = solve_sums(cast(Family, law), sums.values[0], sums.noise)
    first = len(columns)
    title = f"covariances of {', '.join(one.name for one in numbers)}"
    return make_estimate(
        title, law.parameters[first:], solved[first:], replicas[:, first:], paid, form="named"
    )


class _Finder:
    """Bounds as declared or given, or found first; then the sums within them."""

    def __init__(
        self,
        asked: Asked,
        table: str,
        columns: tuple[str, ...],
        terms: Callable[[tuple[Numbers, ...]], list[Term]],
        *,
        within: Within,
        private: bool,
    ) -> None:
        self.asked, self.table, self.private = asked, table, private
        self.columns = [number_column(asked, table, name, within) for name in columns]
        self.terms = terms

    def pay(self, what: str) -> Any:
        """Return the released sums, and the windows within which they were made."""
        whole = [(one.low, one.high) for one in self.columns]
        named = {"estimate": what, "query": canonical(self._query(whole)), "private": self.private}
        return pay(self.asked, named, self._prepare, self._release, readings=1 + 2 * len(whole))

    def numbers(self, windows: Sequence[Sequence[float]]) -> tuple[Numbers, ...]:
        """Return the columns within their windows."""
        return tuple(
            Numbers(one.name, one.term.clip(low, high), low, high)
            for one, (low, high) in zip(self.columns, windows, strict=True)
        )

    def plan(self, share: Share, windows: Sequence[Sequence[float]]) -> Plan:
        """Return the plan of the sums within these windows."""
        return self.asked.plan(self._query(windows), share)

    def _query(self, windows: Sequence[Sequence[float]]) -> Query:
        names = [one.name for one in self.columns]
        return self.asked.desk.read(plan_sums(self.table, names, self.terms(self.numbers(windows))))

    def _prepare(self, share: Share) -> tuple[Share, ...]:
        whole = [(one.low, one.high) for one in self.columns]
        if not self.private:
            self.plan(share, whole)
            return (share,)
        each = [BOUNDS_PART / len(whole)] * len(whole)
        shares = split_share(share, (*each, 1 - BOUNDS_PART))
        self.plan(shares[-1], whole)
        for one, part in zip(self.columns, shares, strict=False):
            self._cells(one, part)
        return shares

    def _release(self, shares: tuple[Share, ...], hold: Hold) -> dict[str, Any]:
        windows = [[one.low, one.high] for one in self.columns]
        if self.private:
            parts = zip(self.columns, shares, strict=False)
            windows = [list(self._find(one, part, hold)) for one, part in parts]
        plan = self.plan(shares[-1], windows)
        return {"windows": windows, "steps": release_totals(self.asked.desk, plan, hold)}

    def _cells(self, one: Numbers, share: Share) -> tuple[Plan, Plan, Share]:
        """Return how rows are counted in all and by cell, and what is left for choices."""
        rows, desk = TableQuery(self.table).where(col(one.name).not_null()), self.asked.desk
        few, rest = split_share(share, (COUNT_PART, 1 - COUNT_PART))
        counted = desk.plan(desk.read(rows.agg(n=count())), few)
        celled = desk.plan(desk.read(rows.agg(q=quantile(one.term, Fraction(1, 2)))), rest)
        return counted, celled, rest

    def _find(self, one: Numbers, share: Share, hold: Hold) -> Window:
        """Return where nearly all values lie, from two quantiles."""
        desk = self.asked.desk
        counted, celled, rest = self._cells(one, share)
        rows, part = celled.contribution.rows, desk.prices.loss(rest)
        ladder = plan_ladder(len(TAILS), rows, desk.neighbours, part)
        size = round(float(read_sums(counted, release_totals(desk, counted, hold)).values[0, 0]))
        cells, sealed = celled.histograms[0].cells, desk.engine.run(celled, hold)
        chosen = climb(sealed, cells, ladder, TAILS, desk.entropy, size=max(1, size))
        low, high = (float(end) for end in cells.middle(np.array(chosen, dtype=np.int64)))
        reach = high - low
        window = max(one.low, low - reach), min(one.high, high + reach)
        return window if window[0] < window[1] else (one.low, one.high)
