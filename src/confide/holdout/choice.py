"""Choice of the method that answers a session's queries, from the options of `Holdout`."""

from dataclasses import dataclass
from typing import Final

from confide.errors import BadDeclaration
from confide.exact import Number, positive
from confide.holdout.baselines import GaussianAnswers, Ladder, Naive, Rounding, Splitting
from confide.holdout.coding import Coding, GuessAndCheck
from confide.holdout.protocol import Method
from confide.holdout.thresholdout import Thresholdout

__all__ = ["METHODS", "Terms", "choose_method"]

COMMON_OPTIONS: Final = ("tau", "queries")
USED_OPTIONS: Final = {
    "coding": ("tau", "queries", "overfits", "threshold"),
    "guess-and-check": ("threshold",),
    "thresholdout": ("tau", "queries", "overfits", "threshold", "sigma", "epsilon"),
    "gaussian": (*COMMON_OPTIONS, "sigma"),
    "rounding": COMMON_OPTIONS,
    "splitting": COMMON_OPTIONS,
    "ladder": COMMON_OPTIONS,
    "naive": (),
}
"""Options that each method uses; all use the rows, and all but naive use beta."""

METHODS: Final = tuple(USED_OPTIONS)
OPTIONS: Final = ("tau", "queries", "overfits", "threshold", "sigma", "epsilon")


@dataclass(frozen=True, slots=True)
class Terms:
    """The requested options of a session; None for an option that was left out."""

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
    def threshold_value(self) -> float | None:
        """The threshold as a float, if one was passed."""
        return None if self.threshold is None else float(positive("threshold", self.threshold))

    def count(self, name: str, method: str) -> int:
        """Return ``queries`` or ``overfits``, as named; raise BadDeclaration if it is missing."""
        value = getattr(self, name)
        if not isinstance(value, int):
            subject = f"Method {method!r}" if method in METHODS else method
            raise BadDeclaration(f"{subject} needs `{name}=`, the maximum number of {name}.")
        return value


def choose_method(name: str, terms: Terms) -> Method:
    """Return the requested method; ``auto`` chooses one that suits the options.

    With training rows, ``auto`` chooses thresholdout if sigma= or epsilon= is given, else coding if
    overfits= is given, else guess-and-check. Without training rows, it chooses Gaussian noise if
    sigma= is given, else whichever of Gaussian noise, rounding, and splitting has the smallest tau.
    An option that the method does not use is refused, because the caller would expect an effect.
    """
    resolved = _resolve(name, terms)
    _check_used(resolved, terms)
    match resolved:
        case "coding" as coding:
            return Coding.of(
                terms.rows,
                terms.train_rows or terms.rows,
                terms.beta,
                terms.count("queries", coding),
                terms.count("overfits", coding),
                tau=terms.tau,
                threshold=terms.threshold_value,
            )
        case "guess-and-check":
            return GuessAndCheck.of(
                terms.rows, terms.train_rows or terms.rows, terms.beta, terms.threshold_value
            )
        case "thresholdout" as thresholdout:
            return Thresholdout.of(
                terms.rows,
                terms.beta,
                terms.count("queries", thresholdout),
                terms.count("overfits", thresholdout),
                tau=terms.tau,
                threshold=terms.threshold,
                sigma=terms.sigma,
                epsilon=terms.epsilon,
            )
        case "naive":
            return Naive(terms.rows)
        case "without a guess":
            terms.count("queries", "A session without training rows")
            names = ("gaussian", "rounding", "splitting")
            tried = [_method_without_guesses(name, terms) for name in names]
            found = [method for method in tried if method is not None]
            return min(found, key=lambda method: method.tau)
        case other:
            method = _method_without_guesses(other, terms)
            if method is None:
                raise BadDeclaration(
                    "Splitting needs at least one row per query. Ask fewer queries or use more "
                    f"rows; got {terms.rows:,} rows for {terms.queries:,} queries."
                )
            return method


def _resolve(name: str, terms: Terms) -> str:
    """Return the name of the method, or "without a guess" to choose from those without guesses."""
    if name in METHODS:
        return name
    if name != "auto":
        raise BadDeclaration(f"`method` must be auto or one of {', '.join(METHODS)}; got {name!r}.")
    if terms.sigma is not None or terms.epsilon is not None:
        return "thresholdout" if terms.train_rows is not None else "gaussian"
    if terms.train_rows is None:
        return "without a guess"
    return "guess-and-check" if terms.overfits is None else "coding"


def _check_used(name: str, terms: Terms) -> None:
    """Raise BadDeclaration for an option that the method does not use."""
    allowed = USED_OPTIONS.get(name, COMMON_OPTIONS)
    for option in OPTIONS:
        if getattr(terms, option) is not None and option not in allowed:
            users = ", ".join(method for method, used in USED_OPTIONS.items() if option in used)
            raise BadDeclaration(
                f"`{option}=` is not used by a session {_describe(name)}. Omit it, or use a method "
                f"that uses it: {users}."
            )


def _describe(name: str) -> str:
    return (
        f"of method {name!r}"
        if name in USED_OPTIONS
        else "without training rows, noise, or `method=`"
    )


def _method_without_guesses(
    name: str, terms: Terms
) -> GaussianAnswers | Rounding | Ladder | Splitting | None:
    """Return a method without guesses, or None if there are too few rows for splitting."""
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
