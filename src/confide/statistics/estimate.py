"""An estimate: numbers with standard errors and intervals that count sampling and noise."""

from dataclasses import dataclass
from typing import Any, Literal, assert_never

import numpy as np

from confide.errors import refusing
from confide.exact import Number, probability
from confide.ledger import Receipt
from confide.release import Cost
from confide.release.display import NUMBERS, Chart, draw_chart, import_frames, write_table
from confide.statistics.reading import Floats, Paid

__all__ = ["Estimate", "Form", "make_estimate"]

Form = Literal["one", "named", "list"]
"""How numbers are handed over."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Numbers computed from one release, with what they cost.

    ``value``, ``standard_error`` and each end of ``interval`` have the same form: one number, a
    list, or a dictionary by name. Standard errors and intervals speak of the population that the
    rows were drawn from: they count how much another sample would differ and what the noise adds.

    Claim:   the interval holds the population's value with about the confidence asked for.
    Why:     ``replicas`` are the same estimate from sums moved by sampling, as the fitted model has
             it, and by the noise, whose law is known. Both moves are nearly symmetric, so what the
             sums could have been lies around what was released as the replicas do.
    Source:  [FWS20]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_coverage.py.
    """

    title: str
    names: tuple[str, ...]
    numbers: tuple[float, ...]
    replicas: Floats
    form: Form
    cost: Cost
    receipt: Receipt
    reused: bool

    @property
    def value(self) -> Any:
        """What was estimated."""
        return self._shape(list(self.numbers))

    @property
    def standard_error(self) -> Any:
        """The standard deviation of each number, over sampling and noise together."""
        return self._shape([float(error) for error in self.replicas.std(axis=0)])

    @refusing
    def interval(self, confidence: Number = 0.95) -> Any:
        """Return (low, high) for each number, from the population's point of view."""
        miss = 1.0 - float(probability("confidence", confidence, zero=False))
        ends = np.quantile(self.replicas, [miss / 2.0, 1.0 - miss / 2.0], axis=0)
        lows = np.minimum(ends[0], self.numbers)
        highs = np.maximum(ends[1], self.numbers)
        pairs = zip(lows, highs, strict=True)
        return self._shape([(float(low), float(high)) for low, high in pairs])

    def to_pandas(self) -> Any:
        """Return one row a number: value, standard error, 95 % interval."""
        pd = import_frames("pandas", NUMBERS)
        return pd.DataFrame(self._rows()).set_index("parameter")

    def plot(self) -> Chart:
        """Return a chart of the numbers with their 95 % intervals."""
        rows = self._rows()
        ends = [{"value_low": row["low"], "value_high": row["high"]} for row in rows]
        return draw_chart(["parameter"], ["value"], rows, ends)

    def _repr_html_(self) -> str:
        rows = self._rows()
        ends = [{"value_low": row["low"], "value_high": row["high"]} for row in rows]
        columns = ("parameter", "value", "standard_error")
        return write_table(columns, rows, ends, f"{self.title}; cost {self.cost}")

    def __str__(self) -> str:
        lines = [
            f"{row['parameter']}: {row['value']:.5g} [{row['low']:.5g}, {row['high']:.5g}]"
            for row in self._rows()
        ]
        return "\n".join([f"{self.title}, 95 % intervals; cost {self.cost}", *lines])

    def __repr__(self) -> str:
        return f"<{self}>"

    def _rows(self) -> list[dict[str, Any]]:
        ends = np.array(self._flat_interval())
        errors = self.replicas.std(axis=0)
        columns = zip(self.names, self.numbers, errors, ends, strict=True)
        return [
            {
                "parameter": name,
                "value": value,
                "standard_error": float(error),
                "low": float(low),
                "high": float(high),
            }
            for name, value, error, (low, high) in columns
        ]

    def _flat_interval(self) -> list[tuple[float, float]]:
        found = self.interval()
        match self.form:
            case "one":
                return [found]
            case "named":
                return list(found.values())
            case "list":
                return list(found)
            case _:
                assert_never(self.form)

    def _shape(self, numbers: list[Any]) -> Any:
        match self.form:
            case "one":
                return numbers[0]
            case "named":
                return dict(zip(self.names, numbers, strict=True))
            case "list":
                return numbers
            case _:
                assert_never(self.form)


def make_estimate(
    title: str,
    names: tuple[str, ...],
    numbers: Floats,
    replicas: Floats,
    paid: Paid[Any],
    *,
    form: Form | None = None,
) -> Estimate:
    """Return the estimate that was computed from a release."""
    shape = form or ("one" if len(names) == 1 else "named")
    values = tuple(float(number) for number in numbers)
    return Estimate(title, names, values, replicas, shape, paid.cost, paid.receipt, paid.reused)
