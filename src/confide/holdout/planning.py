"""Rows, tau or queries that a session needs or allows.

Every known bound is worked out for the same wishes, so that they can be compared; the best that
confide can run is the plan.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Final

from confide.errors import BadDeclaration, UnsupportedQuery
from confide.exact import Number, first_integer, integer, positive, probability
from confide.holdout import coding_bounds, noisy_bounds

__all__ = ["Bound", "HoldoutPlan", "plan"]

MOST: Final = 10**15
MOST_QUERIES: Final = 10**12
OVERFITS: Final = (1, 3, 10, 30, 100, 300)
"""Shown for a given n and tau, when neither queries nor overfits are given."""

Fits = Callable[[int, float, float, int, int], bool]
"""Whether (rows, tau, beta, queries, overfits) go together."""


@dataclass(frozen=True, slots=True)
class Theorem:
    """One theorem that says which sessions are valid."""

    name: str
    method: str | None
    fits: Fits
    claim: str
    source: str
    needs_guess: bool = False
    is_adaptive: bool = True
    is_for_every_answer: bool = True

    @property
    def can_be_chosen(self) -> bool:
        """Whether confide runs it, and it speaks of every answer to an adaptive analyst."""
        return self.method is not None and self.is_adaptive and self.is_for_every_answer


EVERY: Final = "every answer within tau"
LIMITED: Final = "every answer within tau; the session ends after the last overfit"
TRUE_OVERFITS: Final = "within tau until that many guesses were off by more than tau / 2"
BEST: Final = "the best score so far within tau; other scores are not told"

RULES: Final = (
    Theorem(
        "coding",
        "coding",
        coding_bounds.fits_coding,
        LIMITED,
        "docs/proofs/holdout.md",
        needs_guess=True,
    ),
    Theorem(
        "guess-and-check",
        "guess-and-check",
        coding_bounds.fits_anytime,
        "the last answer within tau; goes on for ever, with wider intervals",
        "docs/proofs/holdout.md",
        needs_guess=True,
    ),
    Theorem(
        "coding, published claim",
        "coding",
        coding_bounds.fits_same_claim,
        TRUE_OVERFITS,
        "docs/proofs/holdout.md",
        needs_guess=True,
    ),
    Theorem(
        "thresholdout, published theorem",
        "thresholdout",
        noisy_bounds.fits_theorem,
        TRUE_OVERFITS,
        "DFHPRR15b",
        needs_guess=True,
    ),
    Theorem("gaussian, information", "gaussian", noisy_bounds.fits_gaussian, EVERY, "RRSSTW20"),
    Theorem("gaussian, posterior", None, noisy_bounds.fits_posterior, EVERY, "JLNRSS20"),
    Theorem("gaussian, monitor", None, noisy_bounds.fits_monitor, EVERY, "BNSSSU16"),
    Theorem(
        "gaussian, approximate privacy", None, noisy_bounds.fits_approximate, EVERY, "DFHPRR15a"
    ),
    Theorem("laplace, pure privacy", None, noisy_bounds.fits_pure, EVERY, "docs/proofs/holdout.md"),
    Theorem(
        "laplace, published pure privacy",
        None,
        noisy_bounds.fits_published_pure,
        EVERY,
        "DFHPRR15a",
    ),
    Theorem(
        "laplace, max-information", None, noisy_bounds.fits_max_information, EVERY, "DFHPRR15b"
    ),
    Theorem("rounding", "rounding", coding_bounds.fits_rounding, EVERY, "docs/proofs/holdout.md"),
    Theorem("splitting", "splitting", coding_bounds.fits_splitting, EVERY, "Hoe63"),
    Theorem(
        "ladder",
        "ladder",
        coding_bounds.fits_ladder,
        BEST,
        "docs/proofs/holdout.md",
        is_for_every_answer=False,
    ),
    Theorem(
        "ladder, published bound",
        None,
        coding_bounds.fits_published_ladder,
        BEST,
        "BH15",
        is_for_every_answer=False,
    ),
    Theorem(
        "queries fixed beforehand",
        None,
        coding_bounds.fits_bonferroni,
        "every answer within tau, if no query depends on an answer: the floor",
        "Hoe63",
        is_adaptive=False,
    ),
)


@dataclass(frozen=True, slots=True)
class Bound:
    """What one theorem gives for the wishes of a plan."""

    rule: str
    method: str | None
    n: int
    tau: float
    queries: int
    overfits: int | None
    claim: str
    source: str
    can_be_chosen: bool


@dataclass(frozen=True, slots=True)
class HoldoutPlan:
    """The best bound that confide can run, and all others for comparison, best first.

    ``sought`` names what was worked out: n, tau, queries or overfits.
    """

    n: int
    tau: float
    beta: float
    queries: int
    overfits: int | None
    method: str
    sought: str
    bounds: tuple[Bound, ...] = field(repr=False)

    def __str__(self) -> str:
        wide = max(len(bound.rule) for bound in self.bounds)
        lines = [
            f"tau = {self.tau:.4g}, beta = {self.beta:.4g}, queries = {self.queries:,}, "
            f"overfits = {self.overfits if self.overfits is not None else 'none'}, "
            f"n = {self.n:,}: {self.method}",
            "",
            f"{'bound':{wide}}  {self.sought:>17}  claim [source]",
        ]
        for bound in self.bounds:
            shown = _show(getattr(bound, self.sought))
            more = f"; {bound.overfits} overfits" if bound.overfits != self.overfits else ""
            more = more if bound.overfits is not None else ""
            lines.append(f"{bound.rule:{wide}}  {shown:>17}  {bound.claim}{more} [{bound.source}]")
        return "\n".join(lines)


def _show(value: float | None) -> str:
    match value:
        case None:
            return "-"
        case float():
            return f"{value:.4g}"
        case _:
            return f"{value:,}"


def plan(
    *,
    tau: Number | None = None,
    beta: Number = 0.05,
    queries: int | None = None,
    overfits: int | None = None,
    n: int | None = None,
    epsilon: Number | None = None,
) -> HoldoutPlan:
    """Return what a session needs, by every known bound, best first.

    Leave out what is sought: ``n`` (rows of the holdout), or ``tau`` for a given n, or, for given
    n and tau, ``queries`` or ``overfits`` or both. Without ``overfits``, where n or tau is sought,
    only bounds that need no training guess are shown. With ``epsilon`` the session shall also be
    epsilon-DP as a whole, and ``overfits`` must be known, for they are what it pays for. Nothing
    is read.

    >>> found = plan(tau=0.1, beta=0.05, queries=100, overfits=10)
    >>> found.n, found.method
    (5432, 'coding')
    >>> plan(n=5432, beta=0.05, queries=100, overfits=10).tau <= 0.1
    True
    """
    wish = _Wish.of(tau, beta, queries, overfits, n)
    rules = RULES if epsilon is None else (_private_rule(wish, positive("epsilon", epsilon)),)
    asked = [(one, rule) for rule in rules for one in wish.tried(rule)]
    found = [bound for one, rule in asked if (bound := one.solve(rule)) is not None]
    found.sort(key=wish.order)
    chosen = next(filter(wish.prefers, found), None)
    if chosen is None:
        raise UnsupportedQuery(
            "no method keeps this: ask for a larger tau or beta, fewer queries or overfits, or "
            "more rows"
        )
    return HoldoutPlan(
        n=chosen.n,
        tau=chosen.tau,
        beta=wish.beta,
        queries=chosen.queries,
        overfits=chosen.overfits,
        method=chosen.method or "",
        sought=wish.sought,
        bounds=tuple(found),
    )


def _private_rule(wish: "_Wish", epsilon: Fraction) -> Theorem:
    """Return the only rule whose session is epsilon-DP: Thresholdout, paid by its overfits."""
    if not (wish.has_overfits or wish.is_open):
        raise BadDeclaration(
            "with epsilon= the session is paid by its overfits, got none; say overfits= too"
        )
    fits = partial(noisy_bounds.fits_private, epsilon=epsilon)
    claim = f"{LIMITED}; epsilon-DP with epsilon = {float(epsilon):.4g}"
    return Theorem("thresholdout", "thresholdout", fits, claim, "DFHPRR15b", needs_guess=True)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What is given, and what is sought."""

    beta: float
    sought: str
    tau: float = 1.0
    queries: int = 1
    overfits: int | None = None
    n: int = 0

    @classmethod
    def of(
        cls,
        tau: Number | None,
        beta: Number,
        queries: int | None,
        overfits: int | None,
        n: int | None,
    ) -> "_Wish":
        given = {
            "tau": None if tau is None else float(probability("tau", tau, zero=False)),
            "queries": _count("queries", queries),
            "overfits": _count("overfits", overfits),
            "n": _count("n", n),
        }
        sought = _sought(given)
        chance = float(probability("beta", beta, zero=False))
        kept = {name: value for name, value in given.items() if value is not None}
        return cls(beta=chance, sought=sought, **kept)  # type: ignore[arg-type]

    @property
    def is_open(self) -> bool:
        """Whether neither queries nor overfits are given."""
        return self.sought == "queries" and self.overfits is None

    def prefers(self, bound: Bound) -> bool:
        """Tell whether a bound may be the plan; where overfits are open, with a middling number."""
        fits = not self.is_open or bound.overfits in (None, OVERFITS[2])
        return bound.can_be_chosen and fits

    @property
    def has_overfits(self) -> bool:
        """Whether a number of overfits is given or sought."""
        return self.overfits is not None or self.sought == "overfits"

    def tried(self, rule: Theorem) -> "list[_Wish]":
        """Return what a rule is asked: nothing, where it needs a number of overfits."""
        if self.has_overfits or not rule.needs_guess:
            return [self]
        return [replace(self, overfits=size) for size in OVERFITS] if self.is_open else []

    def order(self, bound: Bound) -> tuple[float, str]:
        """Return where a bound stands in the table: the best first."""
        value = getattr(bound, self.sought) or 0
        return (value if self.sought in ("n", "tau") else -value), bound.rule

    def solve(self, rule: Theorem) -> Bound | None:
        """Return what one rule gives, or nothing where it gives nothing."""
        match self.sought:
            case "n":
                found = _least_rows(self, rule)
            case "tau":
                found = _least_tau(self, rule)
            case _:
                found = _longest(self, rule)
        if found is None:
            return None
        overfits = found.overfits if rule.needs_guess else None
        return Bound(
            rule.name,
            rule.method,
            found.n,
            found.tau,
            found.queries,
            overfits,
            rule.claim,
            rule.source,
            rule.can_be_chosen,
        )

    def holds(self, rule: Theorem) -> bool:
        """Tell whether the rule allows exactly this."""
        overfits = min(self.overfits or 1, self.queries)
        return rule.fits(self.n, self.tau, self.beta, self.queries, overfits)


def _count(name: str, value: int | None) -> int | None:
    return None if value is None else integer(name, value, low=1, high=MOST_QUERIES)


def _sought(given: dict[str, float | int | None]) -> str:
    missing = {name for name, value in given.items() if value is None}
    match (given["n"] is None, given["tau"] is None):
        case (True, False) if given["queries"] is not None:
            return "n"
        case (False, True) if given["queries"] is not None:
            return "tau"
        case (False, False) if missing in ({"queries"}, {"queries", "overfits"}):
            return "queries"
        case (False, False) if missing == {"overfits"}:
            return "overfits"
    said = ", ".join(sorted(set(given) - missing)) or "nothing"
    raise BadDeclaration(
        "leave out what is sought: n; or tau, with n and queries given; or queries or overfits, "
        f"with n and tau given; got {said}. Such as tau 0.05, queries 10000, overfits 100"
    )


def _least_rows(wish: _Wish, rule: Theorem) -> _Wish | None:
    if not replace(wish, n=MOST).holds(rule):
        return None
    rows = first_integer(lambda n: replace(wish, n=n).holds(rule), start=1)
    return replace(wish, n=rows)


def _least_tau(wish: _Wish, rule: Theorem) -> _Wish | None:
    low, high = 0.0, 0.999
    if not replace(wish, tau=high).holds(rule):
        return None
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if replace(wish, tau=middle).holds(rule) else (middle, high)
    return replace(wish, tau=high)


def _longest(wish: _Wish, rule: Theorem) -> _Wish | None:
    """Return the longest session: the most queries, or the most overfits, that are allowed."""
    if wish.sought == "overfits" and not rule.needs_guess:
        return wish if wish.holds(rule) else None

    def allowed(size: int) -> bool:
        return _sized(wish, size).holds(rule)

    top = MOST_QUERIES if wish.sought == "queries" else wish.queries
    if not allowed(1):
        return None
    most = top if allowed(top) else first_integer(lambda size: not allowed(size), start=1) - 1
    return _sized(wish, most)


def _sized(wish: _Wish, size: int) -> _Wish:
    """Return the wish with as many queries, or overfits, as are tried."""
    if wish.sought == "queries":
        return replace(wish, queries=size)
    return replace(wish, overfits=size)
