"""The owner's `Budget` and `Limits`, and the keyword arguments with which analysts set a price."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Final, TypedDict, TypeVar, get_type_hints

from confide.errors import BadDeclaration
from confide.exact import Number, positive, probability
from confide.loss import Share

__all__ = [
    "NAME",
    "Budget",
    "CostArgs",
    "Limit",
    "LimitRule",
    "Limits",
    "PriceArgs",
    "QueryArgs",
    "Window",
    "read_share",
    "show_keywords",
]

ACCOUNTINGS: Final = ("auto", "pure", "gaussian", "renyi")
DELTA_ACCOUNTINGS: Final = ("gaussian", "renyi")


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """The total privacy budget: (epsilon, delta)-DP, pure if delta is 0.

    A query that costs more than ``max_share_per_query`` of it needs ``confirm=True``; 1 turns this
    off.

    >>> Budget(2.0).delta
    Fraction(0, 1)
    """

    epsilon: Fraction
    delta: Fraction
    accounting: str
    max_share_per_query: Fraction

    def __init__(
        self,
        epsilon: Number,
        delta: Number = 0,
        *,
        accounting: str = "auto",
        max_share_per_query: Number | Share = "20%",
    ) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon))
        object.__setattr__(self, "delta", probability("delta", delta))
        if accounting not in ACCOUNTINGS:
            raise BadDeclaration(
                f"`accounting` must be auto, pure, gaussian, or renyi; got {accounting!r}."
            )
        if accounting in DELTA_ACCOUNTINGS and not self.delta:
            raise BadDeclaration(
                f"Accounting {accounting!r} needs a `delta` greater than 0; got {delta!r}."
            )
        object.__setattr__(self, "accounting", accounting)
        most = read_share("max_share_per_query", max_share_per_query)
        object.__setattr__(self, "max_share_per_query", most.fraction)


NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}\Z")
FULL_SHARE: Final = Share.floor(1)
REUSE_OPTIONS: Final = ("own", "all")


class Window(StrEnum):
    """A calendar period, in UTC."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"

    def start(self, time: datetime) -> datetime:
        """Return the start of the window that contains ``time``; weeks start on Monday.

        >>> Window.MONTH.start(datetime(2026, 11, 16, 9, tzinfo=UTC)).isoformat()
        '2026-11-01T00:00:00+00:00'
        """
        day = time.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        match self:
            case Window.DAY:
                return day
            case Window.WEEK:
                return day - timedelta(days=day.weekday())
            case Window.MONTH:
                return day.replace(day=1)
            case Window.YEAR:
                return day.replace(month=1, day=1)


@dataclass(frozen=True, slots=True, init=False)
class Limit:
    """A spending limit: in total, and per day, week, month, or year.

    ``max_share_per_query`` replaces the budget's for an analyst; None keeps it.

    >>> Limit("25%", month=0.05).windows[Window.MONTH].fraction
    Fraction(1, 20)
    """

    share: Share
    windows: Mapping[Window, Share]
    max_share_per_query: Share | None

    def __init__(
        self,
        share: Number | Share = 1,
        *,
        max_share_per_query: Number | Share | None = None,
        **windows: Number | Share,
    ) -> None:
        advice = "A limit has a share, and shares for day, week, month, or year."
        own = max_share_per_query
        most = None if own is None else read_share("max_share_per_query", own)
        object.__setattr__(self, "max_share_per_query", most)
        object.__setattr__(self, "share", read_share("share", share))
        object.__setattr__(self, "windows", _read_windows(windows, advice))

    def items(self) -> Iterator[tuple[Window | None, Share]]:
        """Yield each window with its share; None stands for all time, and is left out at 100%."""
        if self.share < FULL_SHARE:
            yield None, self.share
        yield from self.windows.items()

    def __reduce__(self) -> tuple["partial[Limit]", tuple[()]]:
        """Support pickling by rebuilding the object from its declaration."""
        own = self.max_share_per_query
        return partial(Limit, self.share, max_share_per_query=own, **_by_name(self.windows)), ()


@dataclass(frozen=True, slots=True)
class LimitRule:
    """One limit on charges: its scope, its window, and its share.

    ``scope`` is "budget", "analyst", or "purpose"; ``name`` is the name of the analyst or purpose,
    and empty for the budget. A ``window`` of None stands for all time.
    """

    scope: str
    name: str
    window: Window | None
    share: Share

    def __str__(self) -> str:
        whose = "the budget" if self.scope == "budget" else f"{self.scope} {self.name!r}"
        return f"the limit of {whose}" + (f" for this {self.window}" if self.window else "")


@dataclass(frozen=True, slots=True, init=False)
class Limits:
    """Limits within the budget: per calendar window for all analysts, per analyst, per purpose.

    The spending of all analysts counts against one budget, so collusion gains nothing. With
    ``reuse="own"``, an analyst gets stored answers to the analyst's own earlier queries for free;
    with ``reuse="all"``, those to everyone's.

    >>> limits = Limits(month="10%", analysts={"ana": 0.25}, purposes={"planning": Limit(0.5)})
    >>> [str(rule) for rule in limits.rules("ana", "")]
    ['the limit of the budget for this month', "the limit of analyst 'ana'"]
    """

    windows: Mapping[Window, Share]
    analysts: Mapping[str, Limit]
    purposes: Mapping[str, Limit]
    reuse: str

    def __init__(
        self,
        *,
        analysts: Mapping[str, Number | Share | Limit] = MappingProxyType({}),
        purposes: Mapping[str, Number | Share | Limit] = MappingProxyType({}),
        reuse: str = "own",
        **windows: Number | Share,
    ) -> None:
        if reuse not in REUSE_OPTIONS:
            raise BadDeclaration(f"`reuse` must be 'own' or 'all'; got {reuse!r}.")
        advice = "The limits for all analysts together are day, week, month, and year."
        object.__setattr__(self, "windows", _read_windows(windows, advice))
        object.__setattr__(self, "analysts", _read_limits("analyst", analysts))
        object.__setattr__(self, "purposes", _read_limits("purpose", purposes))
        for name, limit in self.purposes.items():
            if limit.max_share_per_query is not None:
                raise BadDeclaration(
                    f"Purpose {name!r} cannot have `max_share_per_query`. Set it for the budget or "
                    "for an analyst."
                )
        object.__setattr__(self, "reuse", reuse)

    @property
    def is_shared(self) -> bool:
        """Whether an answer given to one analyst is free for all others."""
        return self.reuse == "all"

    def max_share_per_query(self, analyst: str) -> Share | None:
        """Return the analyst's own limit on the cost of one query, or None if there is none."""
        named = self.analysts.get(analyst)
        return None if named is None else named.max_share_per_query

    def admit(self, analyst: str, purpose: str) -> None:
        """Raise BadDeclaration for an analyst or purpose that is malformed or undeclared.

        If no analysts are declared, every valid name is admitted; the same holds for purposes.
        """
        for scope, name, known in (
            ("analyst", analyst, self.analysts),
            ("purpose", purpose, self.purposes),
        ):
            if name and not (isinstance(name, str) and NAME.match(name)):
                raise BadDeclaration(_name_error(scope, name))
            if name and known and name not in known:
                listed = ", ".join(sorted(known))
                raise BadDeclaration(
                    f"Unknown {scope} {name!r}. Declared: {listed}. To add it, create "
                    f"`[{scope}s.{_toml_key(name)}]` in `confide.toml`."
                )

    def rules(self, analyst: str, purpose: str) -> list[LimitRule]:
        """Return every limit on a charge of this analyst for this purpose."""
        rules = [LimitRule("budget", "", window, share) for window, share in self.windows.items()]
        for scope, name, known in (
            ("analyst", analyst, self.analysts),
            ("purpose", purpose, self.purposes),
        ):
            if name in known:
                rules += [LimitRule(scope, name, *bound) for bound in known[name].items()]
        return rules

    def __reduce__(self) -> tuple["partial[Limits]", tuple[()]]:
        """Support pickling by rebuilding the object from its declaration."""
        shares, analysts = _by_name(self.windows), dict(self.analysts)
        purposes = dict(self.purposes)
        rebuild = partial(Limits, analysts=analysts, purposes=purposes, reuse=self.reuse, **shares)
        return rebuild, ()


def read_share(name: str, value: object) -> Share:
    """Return a share of the budget, above 0 and at most 1; errors call the argument ``name``."""
    if isinstance(value, Share):
        share = value
    else:
        try:
            share = Share.floor(value)
        except BadDeclaration as error:
            raise BadDeclaration(str(error).replace("share", name, 1)) from None
    if share > FULL_SHARE:
        raise BadDeclaration(f"`{name}` must be at most 1; got {value!r}.")
    return share


def _read_windows(given: Mapping[str, Number | Share], advice: str) -> Mapping[Window, Share]:
    """Return limits by window; the error for an unknown window ends with ``advice``."""
    unknown = sorted(set(given) - set(Window))
    if unknown:
        raise BadDeclaration(f"Unknown limit `{unknown[0]}`. {advice}")
    return MappingProxyType(
        {Window(name): read_share(name, value) for name, value in given.items()}
    )


def _read_limits(scope: str, given: Mapping[str, Number | Share | Limit]) -> Mapping[str, Limit]:
    read: dict[str, Limit] = {}
    for name, limit in given.items():
        if not isinstance(name, str) or not NAME.match(name):
            raise BadDeclaration(_name_error(scope, name))
        read[name] = limit if isinstance(limit, Limit) else Limit(limit)
    return MappingProxyType(read)


def _by_name(windows: Mapping[Window, Share]) -> dict[str, Share]:
    return {window.value: share for window, share in windows.items()}


def _toml_key(name: str) -> str:
    """Return a name as a TOML key, quoted if necessary.

    >>> _toml_key("bob"), _toml_key("bob@clinic.org")
    ('bob', '"bob@clinic.org"')
    """
    return f'"{name}"' if {".", "@"} & set(name) else name


def _name_error(scope: str, name: object) -> str:
    return (
        f"The name of each {scope} must have at most 63 letters, digits, and `_ . @ -`; got "
        f"{name!r}."
    )


C = TypeVar("C", bound=type)


class CostArgs(TypedDict, total=False):
    """Keyword arguments that set the cost of an answer; pass exactly one.

    ``epsilon=`` is the epsilon of this answer alone, at the budget's delta. ``share=`` is a
    fraction of the total budget, such as 0.05, "1/20", or "5%".
    """

    epsilon: Number
    share: Number


class PriceArgs(CostArgs, total=False):
    """Keyword arguments that set the cost or the error of an answer.

    Pass exactly one of ``epsilon=``, ``share=``, and ``error=``. ``error=`` is the target margin
    of error of every number, at ``confidence=`` (0.95).
    """

    error: Number
    confidence: Number


class QueryArgs(PriceArgs, total=False):
    """Keyword arguments of a query: a price, ``fresh=``, ``key=``, and ``confirm=``.

    ``fresh=True`` pays for a new answer to an earlier query. Queries with the same ``key=`` are
    answered and charged once, even after a failure in between. ``confirm=True`` allows a cost above
    the owner's ``max_share_per_query``.
    """

    fresh: bool
    key: str | None
    confirm: bool


DEFAULTS: Final[dict[str, object]] = {"confidence": 0.95, "fresh": False, "confirm": False}


def show_keywords(cls: C) -> C:
    """List the keywords that ``**want`` accepts in the signatures of a class's methods.

    So `help` and editors show ``epsilon=`` and others instead of ``**want``.
    """
    for method in vars(cls).values():
        signature = inspect.signature(method) if inspect.isfunction(method) else None
        if signature is not None and "want" in signature.parameters:
            *before, want = signature.parameters.values()
            if want.kind is inspect.Parameter.VAR_KEYWORD:
                named = _keyword_parameters(want, {one.name for one in before})
                method.__signature__ = signature.replace(parameters=[*before, *named])
    return cls


def _keyword_parameters(want: inspect.Parameter, taken: set[str]) -> Iterator[inspect.Parameter]:
    """Yield a parameter for each keyword of ``**want: Unpack[...]`` whose name is not ``taken``."""
    (listed,) = want.annotation.__args__
    for name, kind in get_type_hints(listed).items():
        if name not in taken:
            default = DEFAULTS.get(name)
            annotation = kind | None if default is None else kind
            yield inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
