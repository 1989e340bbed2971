"""One small run of every mechanism, on an invented clinic of 240 patients.

Each patient counts once in every figure below, and neighbouring tables differ by one patient
added or removed; so a count moves by at most 1, and a sum of nights by at most `MOST_NIGHTS`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from rich.console import Console

from confide.cli.screen import make_table, say
from confide.loss import Loss, compose
from confide.mechanisms import Exponential, Gaussian, Laplace, PermuteAndFlip, SparseVector

__all__ = ["run_mechanisms"]

SMOKERS: Final = 87
WARDS: Final = {"north": 61, "south": 96, "west": 83}
NIGHTS: Final = 731
MOST_NIGHTS: Final = 14
CONDITIONS: Final = {"asthma": 31, "diabetes": 52, "hypertension": 74, "migraine": 28, "other": 55}
CALLERS: Final = {"January": 12, "February": 19, "March": 54, "April": 22}
MANY: Final = 40
DELTA: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Line:
    """One question and what came of it."""

    mechanism: str
    question: str
    answer: str
    interval: str
    loss: Loss


def run_mechanisms(console: Console) -> None:
    """Print one line for each mechanism and what they cost together."""
    lines = [
        count_smokers(),
        count_wards(),
        sum_nights(),
        choose_condition(),
        flip_condition(),
        watch_months(),
    ]
    headings = ("mechanism", "question", "answer", "95 % interval", "loss")
    title = "An invented clinic of 240 patients; the answers differ at every run"
    table = make_table(*headings, title=title, is_light=True)
    for line in lines:
        table.add_row(line.mechanism, line.question, line.answer, line.interval, cost(line.loss))
    console.print(table)
    together = compose([line.loss for line in lines]).epsilon_at(DELTA)
    say(console, f"All of it together: epsilon {text_above(together)} at delta {DELTA:g}.")


def count_smokers() -> Line:
    """Release one count."""
    mechanism = Laplace(sensitivity=1, epsilon=0.5)
    answer = int(mechanism.release(SMOKERS))
    interval = around(answer, mechanism.interval(0.95))
    return Line("Laplace", "How many patients smoke?", str(answer), interval, mechanism.loss)


def count_wards() -> Line:
    """Release a histogram: one patient is in one ward, so all counts together move by 1."""
    mechanism = Laplace(sensitivity=1, epsilon=0.5)
    answers = [int(count) for count in mechanism.release(list(WARDS.values()))]
    intervals = [around(answer, mechanism.interval(0.95)) for answer in answers]
    named = (f"{ward} {answer}" for ward, answer in zip(WARDS, answers, strict=True))
    return Line(
        "Laplace, 3 cells",
        "How many are in each ward?",
        "\n".join(named),
        "\n".join(intervals),
        mechanism.loss,
    )


def sum_nights() -> Line:
    """Release a sum of bounded values."""
    mechanism = Gaussian(sensitivity=MOST_NIGHTS, epsilon=1.0, delta=DELTA)
    answer = int(mechanism.release(NIGHTS))
    interval = around(answer, mechanism.interval(0.95))
    question = f"How many nights in all, up to {MOST_NIGHTS} each?"
    return Line("Gaussian", question, str(answer), interval, mechanism.loss)


def choose_condition() -> Line:
    """Choose a likely maximum; one more patient raises scores only."""
    mechanism = Exponential(sensitivity=1, epsilon=0.5)
    chosen = list(CONDITIONS)[mechanism.choose(list(CONDITIONS.values()))]
    return Line("Exponential", "Which condition is most common?", chosen, "", mechanism.loss)


def flip_condition() -> Line:
    """Choose a likely maximum by permute-and-flip, which errs less at the same epsilon."""
    mechanism = PermuteAndFlip(sensitivity=1, epsilon=0.5)
    chosen = list(CONDITIONS)[mechanism.choose(list(CONDITIONS.values()))]
    return Line("Permute-and-flip", "Which condition is most common?", chosen, "", mechanism.loss)


def watch_months() -> Line:
    """Find the first month above a threshold, at a price that ignores how many were below."""
    mechanism = SparseVector(MANY, above=1, sensitivity=1, epsilon=1.0)
    found = next((month for month, calls in CALLERS.items() if mechanism.ask(calls)), "none")
    question = f"First month when more than {MANY} called?"
    return Line("Sparse vector", question, found, "", mechanism.loss)


def around(answer: int, noise: Sequence[float]) -> str:
    """Return where the value without noise lies: the answer less what the noise may be."""
    low, high = noise
    return f"{math.floor(answer - high)} to {math.ceil(answer - low)}"


def cost(loss: Loss) -> str:
    """Return a loss for people, rounded up."""
    if math.isfinite(loss.epsilon):
        return f"epsilon {text_above(loss.epsilon)}"
    return f"mu {text_above(loss.mu)}"


def text_above(value: float | Fraction) -> str:
    """Return at most four decimals that are no less than ``value``.

    >>> text_above(0.5), text_above(0.25001), text_above(Fraction(1, 3))
    ('0.5', '0.2501', '0.3334')
    """
    return f"{Decimal(math.ceil(Fraction(value) * 10_000)) / 10_000:f}"
