"""What the owner allows to be spent in all."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from confide.errors import BadDeclaration
from confide.exact import Number, positive, probability

__all__ = ["Budget"]

ACCOUNTINGS: Final = ("auto", "pure", "gaussian", "renyi")
NEED_DELTA: Final = ("gaussian", "renyi")


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """What may be spent in all: (epsilon, delta)-DP, pure when delta is 0.

    >>> Budget(2.0).delta
    Fraction(0, 1)
    """

    epsilon: Fraction
    delta: Fraction
    accounting: str

    def __init__(self, epsilon: Number, delta: Number = 0, *, accounting: str = "auto") -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon))
        object.__setattr__(self, "delta", probability("delta", delta))
        if accounting not in ACCOUNTINGS:
            raise BadDeclaration(
                f"accounting must be auto, pure, gaussian or renyi, got {accounting!r}"
            )
        if accounting in NEED_DELTA and not self.delta:
            raise BadDeclaration(f"accounting {accounting!r} needs delta above 0, got {delta!r}")
        object.__setattr__(self, "accounting", accounting)
