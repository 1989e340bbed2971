"""Shared code of mechanisms that choose a candidate: reading scores and bounding the regret."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.errors import BadDeclaration
from confide.exact import Number, ball, float_above, integer, positive, probability
from confide.mechanisms.grid import MAX_VALUE, read_integers

__all__ = ["Selector", "read_flag", "read_scores"]


@dataclass(frozen=True, slots=True, init=False)
class Selector:
    """The base class of mechanisms that choose among scored candidates.

    ``sensitivity`` is the most that one unit can change any candidate's score. ``monotone=True``
    declares that one unit changes all scores in the same direction, as with counts under
    add-remove. Then the same epsilon gives half the bound on the regret.
    """

    sensitivity: Fraction
    epsilon: Fraction
    monotone: bool

    def __init__(
        self, sensitivity: Number = 1, epsilon: Number = 1, *, monotone: bool = False
    ) -> None:
        object.__setattr__(self, "sensitivity", positive("sensitivity", sensitivity))
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon))
        object.__setattr__(self, "monotone", read_flag("monotone", monotone))

    @property
    def rate(self) -> Fraction:
        """The factor by which scores are multiplied before noise of scale 1 is added."""
        return self.epsilon / (self.sensitivity * (1 if self.monotone else 2))

    def regret(self, candidates: int, confidence: Number = 0.95) -> float:
        """Return a bound on how far the chosen score is below the best one, at this confidence.

        Law:    the bound is (ln d + ln(1 / (1 - confidence))) / rate for d candidates, rounded up.
        Claim:  of d candidates without weights, the chosen score is below the best by less than
                the bound, with at least this confidence.
        Why:    for exponential and for Gumbel noise, a candidate whose score is g below the best
                wins only if its noise exceeds that of the best by rate * g. This has probability at
                most exp(-rate * g) for each candidate, and there are fewer than d such candidates.
        Source: [MT07]; Theorem 6 of [Smi17], with its factor 4 lowered to the 2 that suffices.
        """
        count = integer("candidates", candidates, low=1, high=MAX_VALUE)
        miss = 1 - probability("confidence", confidence, zero=False)
        return float_above((ball(count) / ball(miss)).log() / ball(self.rate))


def read_scores(scores: object) -> NDArray[Any]:
    """Return scores as an array of integers or of finite doubles, or raise BadDeclaration."""
    try:
        array = np.asarray(scores)
    except ValueError:
        array = np.array(None)
    if array.ndim != 1 or array.size == 0:
        raise BadDeclaration("`scores` must be a list with one number per candidate, at least one.")
    if array.dtype.kind != "f":
        return read_integers("scores", array)
    doubles = array.astype(np.float64)
    if not (np.abs(doubles) <= MAX_VALUE).all():
        raise BadDeclaration(
            "`scores` must be finite and within 2**61 of 0; got NaN or a larger number."
        )
    return doubles


def read_flag(name: str, value: object) -> bool:
    """Return a Boolean; raise BadDeclaration for other types, such as the string "no"."""
    if not isinstance(value, bool | np.bool_):
        raise BadDeclaration(f"`{name}` must be True or False; got {value!r}.")
    return bool(value)
