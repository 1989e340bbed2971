"""Planning of holdout sessions: the rows needed, the accuracy tau, or the queries allowed.

Every known bound is computed for the same request, so that they can be compared. The plan is the
best bound whose method confide can run.
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

MAX_ROWS: Final = 10**15
MAX_QUERIES: Final = 10**12
SHOWN_OVERFITS: Final = (1, 3, 10, 30, 100, 300)
"""Numbers of overfits to show for a given n and tau if queries and overfits are both left out."""

Covers = Callable[[int, float, float, int, int], bool]
"""Checks whether a theorem covers (rows, tau, beta, queries, overfits)."""


@dataclass(frozen=True, slots=True)
class Theorem:
    """A theorem about the validity of sessions.

    ``method`` is the method of `Holdout` that has this guarantee, or None if there is none.
    """

    name: str
    method: str | None
    covers: Covers
    claim: str
    source: str
    needs_guess: bool = False
    is_adaptive: bool = True
    is_for_every_answer: bool = True

    @property
    def can_be_chosen(self) -> bool:
        """Whether confide can run it and its claim covers every answer to an adaptive analyst."""
        return self.method is not None and self.is_adaptive and self.is_for_every_answer


ALL_ANSWERS: Final = "every answer within tau"
UNTIL_LAST_OVERFIT: Final = "every answer within tau; the session ends after the last overfit"
UNTIL_TRUE_OVERFITS: Final = "within tau until that many guesses were off by more than tau / 2"
BEST_SCORE: Final = "the best score so far within tau; other scores are not shown"

THEOREMS: Final = (
    Theorem(
        "coding",
        "coding",
        coding_bounds.fits_coding,
        UNTIL_LAST_OVERFIT,
        "docs/proofs/holdout.md",
        needs_guess=True,
    ),
    Theorem(
        "guess-and-check",
        "guess-and-check",
        coding_bounds.fits_anytime,
        "the last answer within tau; the session has no end, and intervals widen",
        "docs/proofs/holdout.md",
        needs_guess=True,
    ),
    Theorem(
        "coding, published claim",
        "coding",
        coding_bounds.fits_same_claim,
        UNTIL_TRUE_OVERFITS,
        "docs/proofs/holdout.md",
        needs_guess=True,
    ),
    Theorem(
        "thresholdout, published theorem",
        "thresholdout",
        noisy_bounds.fits_theorem,
        UNTIL_TRUE_OVERFITS,
        "DFHPRR15b",
        needs_guess=True,
    ),
    Theorem(
        "gaussian, information", "gaussian", noisy_bounds.fits_gaussian, ALL_ANSWERS, "RRSSTW20"
    ),
    Theorem("gaussian, posterior", None, noisy_bounds.fits_posterior, ALL_ANSWERS, "JLNRSS20"),
    Theorem("gaussian, monitor", None, noisy_bounds.fits_monitor, ALL_ANSWERS, "BNSSSU16"),
    Theorem(
        "gaussian, approximate privacy",
        None,
        noisy_bounds.fits_approximate,
        ALL_ANSWERS,
        "DFHPRR15a",
    ),
    Theorem(
        "laplace, pure privacy",
        None,
        noisy_bounds.fits_pure,
        ALL_ANSWERS,
        "docs/proofs/holdout.md",
    ),
    Theorem(
        "laplace, published pure privacy",
        None,
        noisy_bounds.fits_published_pure,
        ALL_ANSWERS,
        "DFHPRR15a",
    ),
    Theorem(
        "laplace, max-information",
        None,
        noisy_bounds.fits_max_information,
        ALL_ANSWERS,
        "DFHPRR15b",
    ),
    Theorem(
        "rounding", "rounding", coding_bounds.fits_rounding, ALL_ANSWERS, "docs/proofs/holdout.md"
    ),
    Theorem("splitting", "splitting", coding_bounds.fits_splitting, ALL_ANSWERS, "Hoe63"),
    Theorem(
        "ladder",
        "ladder",
        coding_bounds.fits_ladder,
        BEST_SCORE,
        "docs/proofs/holdout.md",
        is_for_every_answer=False,
    ),
    Theorem(
        "ladder, published bound",
        None,
        coding_bounds.fits_published_ladder,
        BEST_SCORE,
        "BH15",
        is_for_every_answer=False,
    ),
    Theorem(
        "queries fixed in advance",
        None,
        coding_bounds.fits_bonferroni,
        "every answer within tau, if no query depends on an answer: a lower bound",
        "Hoe63",
        is_adaptive=False,
    ),
)


@dataclass(frozen=True, slots=True)
class Bound:
    """The numbers that a theorem guarantees for a request; ``rule`` is the theorem's name."""

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
    """The best bound whose method confide can run, plus all bounds for comparison, best first.

    ``sought`` is the name of the quantity that was computed: n, tau, queries or overfits.
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
        width = max(len(bound.rule) for bound in self.bounds)
        lines = [
            f"tau = {self.tau:.4g}, beta = {self.beta:.4g}, queries = {self.queries:,}, "
            f"overfits = {self.overfits if self.overfits is not None else 'none'}, "
            f"n = {self.n:,}: {self.method}",
            "",
            f"{'bound':{width}}  {self.sought:>17}  claim [source]",
        ]
        for bound in self.bounds:
            shown = _show(getattr(bound, self.sought))
            more = f"; {bound.overfits} overfits" if bound.overfits != self.overfits else ""
            more = more if bound.overfits is not None else ""
            lines.append(f"{bound.rule:{width}}  {shown:>17}  {bound.claim}{more} [{bound.source}]")
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
    """Compute the omitted quantity under every known bound, best first, without reading any data.

    With probability at least 1 - ``beta``, answers are within ``tau`` of the population's values;
    each bound states its exact claim. An overfit is a query whose guess (its mean over the
    training rows) is not close to its mean over the holdout.

    Leave out the quantity to compute: ``n`` (the rows of the holdout), or ``tau`` for a given n, or
    ``queries``, ``overfits`` or both for a given n and tau. If n or tau is computed without
    ``overfits``, the plan shows only bounds for methods that need no guesses. With ``epsilon`` the
    whole session must also be epsilon-DP. Then ``overfits`` must be given or computed, because only
    overfits cost privacy.

    >>> found = plan(tau=0.1, beta=0.05, queries=100, overfits=10)
    >>> found.n, found.method
    (5432, 'coding')
    >>> plan(n=5432, beta=0.05, queries=100, overfits=10).tau <= 0.1
    True
    """
    request = _Request.of(tau, beta, queries, overfits, n)
    theorems = (
        THEOREMS if epsilon is None else (_private_theorem(request, positive("epsilon", epsilon)),)
    )
    pairs = [(one, theorem) for theorem in theorems for one in request.variants(theorem)]
    found = [bound for one, theorem in pairs if (bound := one.solve(theorem)) is not None]
    found.sort(key=request.rank)
    chosen = next(filter(request.accepts, found), None)
    if chosen is None:
        raise UnsupportedQuery(
            "No method can guarantee this. Use a larger tau or beta, fewer queries or overfits, or "
            "more rows."
        )
    return HoldoutPlan(
        n=chosen.n,
        tau=chosen.tau,
        beta=request.beta,
        queries=chosen.queries,
        overfits=chosen.overfits,
        method=chosen.method or "",
        sought=request.sought,
        bounds=tuple(found),
    )


def _private_theorem(request: "_Request", epsilon: Fraction) -> Theorem:
    """Return the theorem for epsilon-DP sessions: Thresholdout, whose overfits cost privacy."""
    if not (request.has_overfits or request.omits_counts):
        raise BadDeclaration(
            "With `epsilon=`, overfits cost privacy, so their number is needed. Pass `overfits=`."
        )
    covers = partial(noisy_bounds.fits_private, epsilon=epsilon)
    claim = f"{UNTIL_LAST_OVERFIT}; epsilon-DP with epsilon = {float(epsilon):.4g}"
    return Theorem("thresholdout", "thresholdout", covers, claim, "DFHPRR15b", needs_guess=True)


@dataclass(frozen=True, slots=True)
class _Request:
    """The given quantities, and ``sought``, the name of the one to compute.

    Quantities that are not given have placeholders, which `solve` replaces.
    """

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
    ) -> "_Request":
        given = {
            "tau": None if tau is None else float(probability("tau", tau, zero=False)),
            "queries": _count("queries", queries),
            "overfits": _count("overfits", overfits),
            "n": _count("n", n),
        }
        sought = _sought(given)
        failure = float(probability("beta", beta, zero=False))
        kept = {name: value for name, value in given.items() if value is not None}
        return cls(beta=failure, sought=sought, **kept)  # type: ignore[arg-type]

    @property
    def omits_counts(self) -> bool:
        """Whether both queries and overfits are omitted."""
        return self.sought == "queries" and self.overfits is None

    def accepts(self, bound: Bound) -> bool:
        """Return whether a bound may be the plan.

        If queries and overfits are both omitted, only a bound without overfits or with a medium
        number of them qualifies.
        """
        qualifies = not self.omits_counts or bound.overfits in (None, SHOWN_OVERFITS[2])
        return bound.can_be_chosen and qualifies

    @property
    def has_overfits(self) -> bool:
        """Whether a number of overfits is given or to be computed."""
        return self.overfits is not None or self.sought == "overfits"

    def variants(self, theorem: Theorem) -> "list[_Request]":
        """Return the requests to solve for a theorem.

        If the theorem needs a number of overfits that is neither given nor computed, there is one
        request for each of `SHOWN_OVERFITS` if queries are computed, and none otherwise.
        """
        if self.has_overfits or not theorem.needs_guess:
            return [self]
        return (
            [replace(self, overfits=size) for size in SHOWN_OVERFITS] if self.omits_counts else []
        )

    def rank(self, bound: Bound) -> tuple[float, str]:
        """Return the sort key of a bound; the best comes first."""
        value = getattr(bound, self.sought) or 0
        return (value if self.sought in ("n", "tau") else -value), bound.rule

    def solve(self, theorem: Theorem) -> Bound | None:
        """Return the bound that a theorem gives, or None."""
        match self.sought:
            case "n":
                found = _fewest_rows(self, theorem)
            case "tau":
                found = _smallest_tau(self, theorem)
            case _:
                found = _longest_session(self, theorem)
        if found is None:
            return None
        overfits = found.overfits if theorem.needs_guess else None
        return Bound(
            theorem.name,
            theorem.method,
            found.n,
            found.tau,
            found.queries,
            overfits,
            theorem.claim,
            theorem.source,
            theorem.can_be_chosen,
        )

    def holds(self, theorem: Theorem) -> bool:
        """Return whether a theorem covers these quantities, with at most one overfit per query."""
        overfits = min(self.overfits or 1, self.queries)
        return theorem.covers(self.n, self.tau, self.beta, self.queries, overfits)


def _count(name: str, value: int | None) -> int | None:
    return None if value is None else integer(name, value, low=1, high=MAX_QUERIES)


def _sought(given: dict[str, float | int | None]) -> str:
    """Return the name of the quantity to compute: one that is not given."""
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
    names = ", ".join(sorted(set(given) - missing)) or "nothing"
    raise BadDeclaration(
        "Omit the quantity to compute: `n`; or `tau` if `n` and `queries` are given; or `queries` "
        "or `overfits` if `n` and `tau` are given. For example, pass `tau=0.05`, `queries=10_000`, "
        f"and `overfits=100` to compute `n`; got {names}."
    )


def _fewest_rows(request: _Request, theorem: Theorem) -> _Request | None:
    if not replace(request, n=MAX_ROWS).holds(theorem):
        return None
    rows = first_integer(lambda n: replace(request, n=n).holds(theorem), start=1)
    return replace(request, n=rows)


def _smallest_tau(request: _Request, theorem: Theorem) -> _Request | None:
    low, high = 0.0, 0.999
    if not replace(request, tau=high).holds(theorem):
        return None
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if replace(request, tau=middle).holds(theorem) else (middle, high)
    return replace(request, tau=high)


def _longest_session(request: _Request, theorem: Theorem) -> _Request | None:
    """Return the request with the maximum number of what is sought, or None if not even 1 holds."""
    if request.sought == "overfits" and not theorem.needs_guess:
        return request if request.holds(theorem) else None

    def allowed(size: int) -> bool:
        return _with_size(request, size).holds(theorem)

    limit = MAX_QUERIES if request.sought == "queries" else request.queries
    if not allowed(1):
        return None
    longest = (
        limit if allowed(limit) else first_integer(lambda size: not allowed(size), start=1) - 1
    )
    return _with_size(request, longest)


def _with_size(request: _Request, size: int) -> _Request:
    """Return the request with this number of queries or overfits, whichever is sought."""
    if request.sought == "queries":
        return replace(request, queries=size)
    return replace(request, overfits=size)
