"""`RemoteEstimate`, and the base class that requests statistics from a server."""

import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np

from confide.client.http import EstimateArgs, encode_price
from confide.client.results import RemoteReceipt, read_cost
from confide.errors import BadDeclaration, refusing
from confide.exact import Number, fraction, probability
from confide.release import Cost
from confide.release.display import ESTIMATE_ADVICE, import_frames

__all__ = ["RemoteEstimate", "RemoteEstimateMethods", "encode_numbers"]

INFINITE_VALUES: Final = {"standard_errors": math.inf, "lows": -math.inf, "highs": math.inf}
"""The infinity that null stands for in each field, because JSON has no infinities."""

OPTION_NAMES: Final = ("epsilon", "share", "confidence", "fresh", "key", "confirm")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RemoteEstimate:
    """Numbers with standard errors and intervals that account for sampling error and noise.

    ``value`` and ``standard_error`` are one number, a list, or a dictionary by name; `interval`
    returns a pair (low, high) instead of each number. An unknown value is None. A density has
    ``edges``; a hypothesis test has a ``p_value``.
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
        """Return the estimate in a response; ``fetch`` gets it at another confidence level."""
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
                **{
                    name: _restore(body[name], infinity)
                    for name, infinity in INFINITE_VALUES.items()
                },
            },
            _fetch=fetch,
        )

    @property
    def value(self) -> Any:
        """The estimate."""
        return self._shape(self._numbers["values"])

    @property
    def standard_error(self) -> Any:
        """The standard error of each number, from sampling and noise combined."""
        return self._shape(self._numbers["standard_errors"])

    @refusing
    def interval(self, confidence: Number = 0.95) -> Any:
        """Return a confidence interval (low, high) for each population value.

        If the level differs from that of the original request, the interval is fetched from the
        server at no cost.
        """
        level = float(probability("confidence", confidence, zero=False))
        if level != self.confidence:
            return self._fetch(level).interval(level)
        return self._shape(list(zip(self._numbers["lows"], self._numbers["highs"], strict=True)))

    def to_pandas(self) -> Any:
        """Return a DataFrame with one row per number: value, standard error, interval."""
        pd = import_frames("pandas", ESTIMATE_ADVICE)
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
        head = f"{self.statistic}, {100 * self.confidence:g}% intervals; cost {self.cost}"
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


class RemoteEstimateMethods(ABC):
    """The base class of connections; it requests any statistic by name."""

    @abstractmethod
    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the server's response to a request."""

    def estimate(self, statistic: str, table: str, **given: Any) -> RemoteEstimate:
        """Return an estimate of a statistic that the server offers, given the statistic's name.

        ``given`` holds the statistic's keyword arguments, either ``epsilon=`` or ``share=``, and
        optionally ``confidence=``, ``fresh=``, ``key=``, and ``confirm=``.
        """
        want = {name: given.pop(name) for name in OPTION_NAMES if name in given}
        return self._send_estimate(statistic, {"table": table, **given}, cast("EstimateArgs", want))

    def _send_estimate(
        self, statistic: str, arguments: Mapping[str, object], want: EstimateArgs
    ) -> RemoteEstimate:
        """Return the estimate of a statistic, with a random key if ``want`` has none."""
        prices = cast("dict[str, Any]", want)
        call = {name: prices.pop(name, False) for name in ("fresh", "confirm")}
        call["key"] = prices.pop("key", None) or secrets.token_hex(16)
        named = {name: _encode_value(value) for name, value in arguments.items()}
        body = {"statistic": statistic, **named, **call, **encode_price(prices)}

        def fetch(level: float) -> RemoteEstimate:
            found = self.send("POST", "/v1/statistics", {**body, "confidence": level})
            return RemoteEstimate.of(found, fetch)

        return RemoteEstimate.of(self.send("POST", "/v1/statistics", body), fetch)


def _restore(numbers: list[float | None], infinity: float) -> list[float]:
    """Return the numbers with ``infinity`` instead of null."""
    return [infinity if number is None else number for number in numbers]


def encode_numbers(given: object) -> Any:
    """Return numbers, alone or in a list, as JSON numbers; keep anything else unchanged.

    >>> encode_numbers(["1/4", 1]), encode_numbers("private")
    ([0.25, 1.0], 'private')
    """
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        return [encode_numbers(one) for one in given]
    try:
        return float(fraction("number", given, "a number"))
    except BadDeclaration:
        return given


def _encode_value(given: object) -> Any:
    """Return an argument as a JSON value."""
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        return [_encode_value(one) for one in given]
    if isinstance(given, np.integer):
        return int(given)
    return float(given) if isinstance(given, Fraction | Decimal | np.floating) else given
