"""Answers, estimates, choices and watches from a server."""

import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Unpack, cast

from confide.client.http import EstimateArgs, write_want
from confide.declare.budget import show_keywords
from confide.errors import Fault, refusing
from confide.exact import Number, probability
from confide.query import TableQuery
from confide.release import Cost
from confide.release.display import (
    NUMBERS,
    Chart,
    draw_chart,
    import_frames,
    write_arrow,
    write_footer,
    write_table,
    write_text,
)

__all__ = [
    "RemoteAnswer",
    "RemoteChoice",
    "RemoteEstimate",
    "RemoteReceipt",
    "RemoteStatistics",
    "RemoteWatch",
    "Send",
    "read_cost",
]

Ends = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class RemoteReceipt:
    """Proof of a charge: the entry's number, and its link in the chain."""

    entry: int
    digest: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RemoteAnswer:
    """Noisy values, one row a group, with their intervals, cost and receipt."""

    columns: tuple[str, ...]
    rows: list[dict[str, Any]]
    cost: Cost
    receipt: RemoteReceipt
    reused: bool
    notes: tuple[str, ...]
    _ends: Ends
    _level: float
    _fetch: Callable[[int, float], Ends]

    @classmethod
    def of(cls, body: dict[str, Any], fetch: Callable[[int, float], Ends]) -> "RemoteAnswer":
        """Return the answer that a response holds; ``fetch`` gets intervals of other levels."""
        return cls(
            columns=tuple(body["columns"]),
            rows=body["rows"],
            cost=read_cost(body["cost"]),
            receipt=RemoteReceipt(**body["receipt"]),
            reused=body["reused"],
            notes=tuple(body["notes"]),
            _ends=body["intervals"],
            _level=body["confidence"],
            _fetch=fetch,
        )

    def to_pandas(self) -> Any:
        """Return the values as a pandas frame."""
        pd = import_frames("pandas")
        return pd.DataFrame(self.rows, columns=list(self.columns))

    def to_polars(self) -> Any:
        """Return the values as a polars frame."""
        pl = import_frames("polars")
        return pl.DataFrame(self.rows, schema=list(self.columns), orient="row")

    def to_arrow(self) -> Any:
        """Return the values as an Arrow table."""
        return write_arrow(self.columns, self.rows)

    @refusing
    def interval_rows(self, confidence: Number = 0.95) -> Ends:
        """Return for each row the ends ``x_low`` and ``x_high`` of every numeric column x.

        Another level than the one asked for is fetched from the server, for free.
        """
        level = float(probability("confidence", confidence, zero=False))
        ends = self._ends if level == self._level else self._fetch(self.receipt.entry, level)
        if len(ends) != len(self.rows):
            raise Fault("the server sent intervals of another answer; ask it again")
        # JSON has no infinity: an end that is missing lies infinitely far away, on its own side.
        far = {"_low": -float("inf"), "_high": float("inf")}
        return [
            {
                name: far[name[name.rindex("_") :]] if end is None else end
                for name, end in row.items()
            }
            for row in ends
        ]

    def intervals(self, confidence: Number = 0.95) -> Any:
        """Return the intervals as a pandas frame, with the keys in front."""
        pd = import_frames("pandas")
        keys = self._keys()
        both = zip(self.rows, self.interval_rows(confidence), strict=True)
        return pd.DataFrame([{**{key: row[key] for key in keys}, **ends} for row, ends in both])

    def plot(self) -> Chart:
        """Return a chart of every numeric column, with its 95 % intervals as error bars."""
        keys = self._keys()
        numbers = [name for name in self.columns if name not in keys]
        return draw_chart(keys, numbers, self.rows, self.interval_rows())

    def __repr__(self) -> str:
        return write_text(self.columns, self.rows, self._own_ends(), self._footer(), self.notes)

    def _repr_html_(self) -> str:
        return write_table(self.columns, self.rows, self._own_ends(), self._footer(), self.notes)

    def _own_ends(self) -> Ends:
        """Return the intervals that came with the answer: to show it asks nobody."""
        return self.interval_rows(self._level)

    def _footer(self) -> str:
        is_noisy = len(self._keys()) < len(self.columns)
        return write_footer(is_noisy=is_noisy, cost=self.cost, level=self._level)

    def _keys(self) -> list[str]:
        noisy = {name.removesuffix("_low") for row in self._ends[:1] for name in row}
        return [name for name in self.columns if name not in noisy]


def read_cost(body: dict[str, Any]) -> Cost:
    """Return a cost as the server wrote it: an exact share, and its epsilon."""
    return Cost(Fraction(body["share"]), float(body["epsilon"]))


IntervalEnds = Sequence[float]
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


@show_keywords
class RemoteStatistics(ABC):
    """The estimates of a curator that is somewhere else; wants are ``epsilon=`` or ``share=``.

    ``confidence=`` is the level of the intervals that come back.
    """

    @abstractmethod
    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the server answers to a request."""

    def mean(
        self,
        table: str,
        column: str,
        *,
        bounds: IntervalEnds | str | None = None,
        **want: Unpack[EstimateArgs],
    ) -> RemoteEstimate:
        """Return the mean of a column, with an interval for the population's."""
        return self._estimate("mean", want, table=table, column=column, bounds=_ends(bounds))

    def variance(
        self,
        table: str,
        column: str,
        *,
        bounds: IntervalEnds | str | None = None,
        **want: Unpack[EstimateArgs],
    ) -> RemoteEstimate:
        """Return the variance of a column, with an interval."""
        return self._estimate("variance", want, table=table, column=column, bounds=_ends(bounds))

    def covariance(
        self,
        table: str,
        columns: Sequence[str],
        *,
        bounds: str | None = None,
        **want: Unpack[EstimateArgs],
    ) -> RemoteEstimate:
        """Return variances and covariances of columns, by name."""
        return self._estimate("covariance", want, table=table, columns=[*columns], bounds=bounds)

    def quantiles(
        self,
        table: str,
        column: str,
        levels: Number | Sequence[Number],
        *,
        within: IntervalEnds | None = None,
        **want: Unpack[EstimateArgs],
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
        within: IntervalEnds | None = None,
        **want: Unpack[EstimateArgs],
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
        within: IntervalEnds | None = None,
        **want: Unpack[EstimateArgs],
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
        **want: Unpack[EstimateArgs],
    ) -> RemoteEstimate:
        """Return the coefficients of a regression such as ``"cost ~ age + smoker"``."""
        named = {"formula": formula, "family": family, "ridge": float(ridge)}
        return self._estimate("fit", want, table=table, **named)

    def compare_means(
        self, table: str, column: str, *, by: str, **want: Unpack[EstimateArgs]
    ) -> RemoteEstimate:
        """Return the difference of a column's means in two groups, with a p-value."""
        return self._estimate("compare_means", want, table=table, column=column, by=by)

    def compare_proportions(
        self, table: str, column: str, *, by: str, **want: Unpack[EstimateArgs]
    ) -> RemoteEstimate:
        """Return the difference of the parts in which a column is true, with a p-value."""
        return self._estimate("compare_proportions", want, table=table, column=column, by=by)

    def independence(
        self, table: str, first: str, second: str, **want: Unpack[EstimateArgs]
    ) -> RemoteEstimate:
        """Return a test of whether two columns have to do with each other."""
        return self._estimate("independence", want, table=table, columns=[first, second])

    def sample_and_aggregate(
        self, table: str, estimator: str, *, blocks: int | None = None, **want: Unpack[EstimateArgs]
    ) -> RemoteEstimate:
        """Return what an estimator gives that the owner registered under this name."""
        named = {"estimator": estimator, "blocks": blocks}
        return self._estimate("sample_and_aggregate", want, table=table, **named)

    def _estimate(self, statistic: str, sent: EstimateArgs, **said: Any) -> RemoteEstimate:
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


def _ends(given: IntervalEnds | str | None) -> list[float] | str | None:
    return given if given is None or isinstance(given, str) else [float(end) for end in given]


Send = Callable[..., dict[str, Any]]
"""How a request is sent: method, path, body."""


@dataclass(frozen=True, slots=True)
class RemoteChoice:
    """The candidate that was chosen, with what the choice cost.

    ``regret`` bounds by how much its score may fall short of the best one, at 95 % confidence.
    """

    value: str
    cost: Cost
    receipt: RemoteReceipt
    reused: bool
    regret: float

    @classmethod
    def of(cls, body: dict[str, Any]) -> "RemoteChoice":
        """Return the choice that a response holds."""
        regret = float("inf") if body["regret"] is None else float(body["regret"])
        receipt = RemoteReceipt(**body["receipt"])
        return cls(body["value"], read_cost(body["cost"]), receipt, body["reused"], regret)

    def __str__(self) -> str:
        return f"{self.value!r}, within {self.regret:.4g} of the best (95 %); cost {self.cost}"


class RemoteWatch:
    """A session at the server that tells whether answers are above a threshold.

    ``receipt.entry`` is its number, by which `Connection.take_up_watch` finds it again.
    """

    def __init__(
        self, body: dict[str, Any], send: Send, text: Callable[[str | TableQuery], str]
    ) -> None:
        self._path, self._send, self._text = f"/v1/watches/{body['watch']}", send, text
        self._width: float | None = body["half_width"]
        self.left: int = body["left"]
        self.reused: bool = body["reused"]
        self.cost, self.receipt = read_cost(body["cost"]), RemoteReceipt(**body["receipt"])

    def ask(self, query: str | TableQuery, *, key: str | None = None) -> bool:
        """Tell whether the answer to one COUNT or SUM is above the threshold, up to noise."""
        asked = {"sql": self._text(query), "key": key or secrets.token_hex(16)}
        told = self._send("POST", f"{self._path}/ask", asked)
        self.left = told["left"]
        return bool(told["above"])

    def half_width(self) -> float:
        """Return how far from the threshold an answer must lie to be told rightly, at 95 %."""
        return float("inf") if self._width is None else self._width

    def close(self) -> None:
        """End the session; what it cost stays."""
        self._send("DELETE", self._path)
