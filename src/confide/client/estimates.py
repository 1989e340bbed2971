"""Estimates over the network: the curator's own methods, by the same names."""

import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Unpack, cast

from confide.client.answers import RemoteReceipt, read_cost
from confide.client.wants import Sent, write_want
from confide.declare.budget import show_wants
from confide.errors import refusing
from confide.exact import Number, probability
from confide.release import Cost
from confide.release.display import NUMBERS, import_frames

__all__ = ["RemoteEstimate", "RemoteEstimators"]

Ends = Sequence[float]
FAR: Final = {"standard_errors": math.inf, "lows": -math.inf, "highs": math.inf}
"""JSON has no infinity: what is missing lies infinitely far away, on its own side."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RemoteEstimate:
    """Numbers with standard errors and intervals that count sampling and noise.

    ``value``, ``standard_error`` and each end of ``interval`` have the same form: one number, a
    list, or a dictionary by name. A density has ``edges``, a test a ``p_value``.
    """

    statistic: str
    names: tuple[str, ...]
    cost: Cost
    receipt: RemoteReceipt
    reused: bool
    confidence: float
    edges: tuple[float, ...] | None
    p_value: float | None
    _form: str
    _numbers: dict[str, list[Any]]
    _fetch: Callable[[float], "RemoteEstimate"]

    @classmethod
    def of(
        cls, body: dict[str, Any], fetch: Callable[[float], "RemoteEstimate"]
    ) -> "RemoteEstimate":
        """Return the estimate that a response holds; ``fetch`` gets it at another level."""
        return cls(
            statistic=body["statistic"],
            names=tuple(body["names"]),
            cost=read_cost(body["cost"]),
            receipt=RemoteReceipt(**body["receipt"]),
            reused=body["reused"],
            confidence=body["confidence"],
            edges=None if body["edges"] is None else tuple(body["edges"]),
            p_value=body["p_value"],
            _form=body["form"],
            _numbers={
                "values": body["values"],
                **{name: _restore(body[name], far) for name, far in FAR.items()},
            },
            _fetch=fetch,
        )

    @property
    def value(self) -> Any:
        """What was estimated."""
        return self._shape(self._numbers["values"])

    @property
    def standard_error(self) -> Any:
        """The standard deviation of each number, over sampling and noise together."""
        return self._shape(self._numbers["standard_errors"])

    @refusing
    def interval(self, confidence: Number = 0.95) -> Any:
        """Return (low, high) for each number, from the population's point of view.

        Another level than the one asked for is fetched from the server, for free.
        """
        level = float(probability("confidence", confidence, zero=False))
        if level != self.confidence:
            return self._fetch(level).interval(level)
        return self._shape(list(zip(self._numbers["lows"], self._numbers["highs"], strict=True)))

    def to_pandas(self) -> Any:
        """Return one row a number: value, standard error, interval."""
        pd = import_frames("pandas", NUMBERS)
        headings = ("value", "standard_error", "low", "high")
        columns = dict(zip(headings, self._numbers.values(), strict=True))
        return pd.DataFrame(columns, index=pd.Index(self.names, name="parameter"))

    def __str__(self) -> str:
        values, lows, highs = (self._numbers[name] for name in ("values", "lows", "highs"))
        known = ["unknown" if value is None else f"{value:.5g}" for value in values]
        lines = [
            f"{name}: {value} [{low:.5g}, {high:.5g}]"
            for name, value, low, high in zip(self.names, known, lows, highs, strict=True)
        ]
        head = f"{self.statistic}, {100 * self.confidence:g} % intervals; cost {self.cost}"
        return "\n".join([head, *lines])

    def __repr__(self) -> str:
        return f"<{self}>"

    def _shape(self, numbers: list[Any]) -> Any:
        match self._form:
            case "one":
                return numbers[0]
            case "named":
                return dict(zip(self.names, numbers, strict=True))
            case _:
                return list(numbers)


@show_wants
class RemoteEstimators(ABC):
    """The estimates of a curator that is somewhere else; wants are ``epsilon=`` or ``share=``.

    ``confidence=`` is the level of the intervals that come back.
    """

    @abstractmethod
    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the server answers to a request."""

    def mean(
        self, table: str, column: str, *, bounds: Ends | str | None = None, **want: Unpack[Sent]
    ) -> RemoteEstimate:
        """Return the mean of a column, with an interval for the population's."""
        return self._estimate("mean", want, table=table, column=column, bounds=_ends(bounds))

    def variance(
        self, table: str, column: str, *, bounds: Ends | str | None = None, **want: Unpack[Sent]
    ) -> RemoteEstimate:
        """Return the variance of a column, with an interval."""
        return self._estimate("variance", want, table=table, column=column, bounds=_ends(bounds))

    def covariance(
        self, table: str, columns: Sequence[str], *, bounds: str | None = None, **want: Unpack[Sent]
    ) -> RemoteEstimate:
        """Return variances and covariances of columns, by name."""
        return self._estimate("covariance", want, table=table, columns=[*columns], bounds=bounds)

    def quantiles(
        self,
        table: str,
        column: str,
        levels: Number | Sequence[Number],
        *,
        within: Ends | None = None,
        **want: Unpack[Sent],
    ) -> RemoteEstimate:
        """Return quantiles of a column; ``value`` is a list."""
        several = (
            levels if isinstance(levels, Sequence) and not isinstance(levels, str) else [levels]
        )
        named = {"levels": [float(level) for level in several], "within": _ends(within)}
        return self._estimate("quantiles", want, table=table, column=column, **named)

    def density(
        self,
        table: str,
        column: str,
        *,
        bins: int | None = None,
        within: Ends | None = None,
        **want: Unpack[Sent],
    ) -> RemoteEstimate:
        """Return a histogram density: ``value`` is its height in each bin, between ``edges``."""
        named = {"bins": bins, "within": _ends(within)}
        return self._estimate("density", want, table=table, column=column, **named)

    def exponential_family(
        self,
        table: str,
        column: str | Sequence[str],
        *,
        family: str,
        within: Ends | None = None,
        **want: Unpack[Sent],
    ) -> RemoteEstimate:
        """Return the likeliest law of a family."""
        columns = [column] if isinstance(column, str) else [*column]
        named = {"family": family, "within": _ends(within)}
        return self._estimate("exponential_family", want, table=table, columns=columns, **named)

    def fit(
        self,
        table: str,
        formula: str,
        *,
        family: str = "linear",
        ridge: Number = 0,
        **want: Unpack[Sent],
    ) -> RemoteEstimate:
        """Return the coefficients of a regression such as ``"cost ~ age + smoker"``."""
        named = {"formula": formula, "family": family, "ridge": float(ridge)}
        return self._estimate("fit", want, table=table, **named)

    def compare_means(
        self, table: str, column: str, *, by: str, **want: Unpack[Sent]
    ) -> RemoteEstimate:
        """Return the difference of a column's means in two groups, with a p-value."""
        return self._estimate("compare_means", want, table=table, column=column, by=by)

    def compare_proportions(
        self, table: str, column: str, *, by: str, **want: Unpack[Sent]
    ) -> RemoteEstimate:
        """Return the difference of the parts in which a column is true, with a p-value."""
        return self._estimate("compare_proportions", want, table=table, column=column, by=by)

    def independence(
        self, table: str, first: str, second: str, **want: Unpack[Sent]
    ) -> RemoteEstimate:
        """Return a test of whether two columns have to do with each other."""
        return self._estimate("independence", want, table=table, columns=[first, second])

    def sample_and_aggregate(
        self, table: str, estimator: str, *, blocks: int | None = None, **want: Unpack[Sent]
    ) -> RemoteEstimate:
        """Return what an estimator gives that the owner registered under this name."""
        named = {"estimator": estimator, "blocks": blocks}
        return self._estimate("sample_and_aggregate", want, table=table, **named)

    def _estimate(self, statistic: str, sent: Sent, **said: Any) -> RemoteEstimate:
        want = cast("dict[str, Any]", sent)
        call = {"fresh": want.pop("fresh", False), "key": want.pop("key", None)}
        call["key"] = call["key"] or secrets.token_hex(16)
        body = {"statistic": statistic, **said, **call, **write_want(want)}

        def fetch(level: float) -> RemoteEstimate:
            found = self.send("POST", "/v1/statistics", {**body, "confidence": level})
            return RemoteEstimate.of(found, fetch)

        return RemoteEstimate.of(self.send("POST", "/v1/statistics", body), fetch)


def _restore(numbers: list[float | None], far: float) -> list[float]:
    return [far if number is None else number for number in numbers]


def _ends(given: Ends | str | None) -> list[float] | str | None:
    return given if given is None or isinstance(given, str) else [float(end) for end in given]
