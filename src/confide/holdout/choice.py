"""Picks the method for the given terms."""

from dataclasses import dataclass
from typing import Final

from confide.errors import BadDeclaration
from confide.exact import Number, positive
from confide.holdout.baselines import GaussianAnswers, Ladder, Naive, Rounding, Splitting
from confide.holdout.coding import Coding, GuessAndCheck
from confide.holdout.protocol import Method
from confide.holdout.thresholdout import Thresholdout

__all__ = ["METHODS", "Terms", "choose_method"]

UNGUESSED: Final = ("tau", "queries")
USES: Final = {
    "coding": ("tau", "queries", "overfits", "threshold"),
    "guess-and-check": ("threshold",),
    "thresholdout": ("tau", "queries", "overfits", "threshold", "sigma", "epsilon"),
    "gaussian": (*UNGUESSED, "sigma"),
    "rounding": UNGUESSED,
    "splitting": UNGUESSED,
    "ladder": UNGUESSED,
    "naive": (),
}
"""What each method makes use of, beside the rows and beta."""

METHODS: Final = tuple(USES)
OPTIONS: Final = ("tau", "queries", "overfits", "threshold", "sigma", "epsilon")


@dataclass(frozen=True, slots=True)
class Terms:
    """What a session's owner asked for; None where nothing was said."""

    rows: int
    train_rows: int | None
    tau: float | None
    beta: float
    queries: int | None
    overfits: int | None
    threshold: Number | None
    sigma: Number | None
    epsilon: Number | None

    @property
    def line(self) -> float | None:
        """The threshold as a number."""
        return None if self.threshold is None else float(positive("threshold", self.threshold))

    def count(self, name: str, method: str) -> int:
        """Return ``queries`` or ``overfits``, which this method needs."""
        value = getattr(self, name)
        if not isinstance(value, int):
            raise BadDeclaration(f"{method} needs {name}=, the most that may be asked")
        return value


def choose_method(name: str, terms: Terms) -> Method:
    """Return the method asked for; ``auto`` takes the one that suits the terms.

    With noise (sigma= or epsilon=) that is thresholdout; with training rows and a number of
    overfits, coding; without that number, guess-and-check; without training rows, whichever of
    normal noise, rounding and fresh rows keeps the smaller tau. What the method makes no use of is
    refused: it would promise what nobody keeps.
    """
    resolved = _resolve(name, terms)
    _check_used(resolved, terms)
    match resolved:
        case "coding" as found:
            return Coding.of(
                terms.rows,
                terms.train_rows or terms.rows,
                terms.beta,
                terms.count("queries", found),
                terms.count("overfits", found),
                tau=terms.tau,
                threshold=terms.line,
            )
        case "guess-and-check":
            return GuessAndCheck.of(
                terms.rows, terms.train_rows or terms.rows, terms.beta, terms.line
            )
        case "thresholdout" as found:
            return Thresholdout.of(
                terms.rows,
                terms.beta,
                terms.count("queries", found),
                terms.count("overfits", found),
                tau=terms.tau,
                threshold=terms.threshold,
                sigma=terms.sigma,
                epsilon=terms.epsilon,
            )
        case "naive":
            return Naive(terms.rows)
        case "without a guess":
            terms.count("queries", "a session without training rows")
            tried = [_unguessed(way, terms) for way in ("gaussian", "rounding", "splitting")]
            return min((way for way in tried if way is not None), key=lambda way: way.tau)
        case found:
            way = _unguessed(found, terms)
            if way is None:
                raise BadDeclaration(
                    f"splitting needs a row for each of {terms.queries:,} queries, got "
                    f"{terms.rows:,} rows"
                )
            return way


def _resolve(name: str, terms: Terms) -> str:
    if name in METHODS:
        return name
    if name != "auto":
        raise BadDeclaration(f"method must be auto or one of {', '.join(METHODS)}, got {name!r}")
    if terms.sigma is not None or terms.epsilon is not None:
        return "thresholdout" if terms.train_rows is not None else "gaussian"
    if terms.train_rows is None:
        return "without a guess"
    return "guess-and-check" if terms.overfits is None else "coding"


def _check_used(name: str, terms: Terms) -> None:
    """Refuse arguments that the method does not use."""
    uses = USES.get(name, UNGUESSED)
    for option in OPTIONS:
        if getattr(terms, option) is not None and option not in uses:
            users = ", ".join(method for method, used in USES.items() if option in used)
            raise BadDeclaration(
                f"{option}= is not used by a session {_named(name)}; leave it out, or take a "
                f"method that uses it: {users}"
            )


def _named(name: str) -> str:
    return f"of method {name!r}" if name in USES else "without training rows, noise or method="


def _unguessed(name: str, terms: Terms) -> GaussianAnswers | Rounding | Ladder | Splitting | None:
    """Return a method that needs no guess; none where rows are too few to be split."""
    rows, beta, queries = terms.rows, terms.beta, terms.count("queries", name)
    match name:
        case "gaussian":
            return GaussianAnswers.of(rows, beta, queries, tau=terms.tau, sigma=terms.sigma)
        case "rounding":
            return Rounding.of(rows, beta, queries, terms.tau)
        case "ladder":
            return Ladder.of(rows, beta, queries, terms.tau)
        case _:
            return Splitting(rows, beta, queries, terms.tau) if rows >= queries else None
