"""What a holdout answers."""

from dataclasses import dataclass, field
from typing import Final

from confide.holdout.intervals import Bracket
from confide.holdout.methods import Outcomes
from confide.holdout.metrics import Metric, mean_metric
from confide.holdout.values import Floats, Marks

__all__ = ["PLAIN", "Answer", "Answers", "first_answer"]

PLAIN: Final = mean_metric()


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its value, whether the guess was overfit, and what it says of the population."""

    value: float
    overfit: bool
    metric: Metric = field(repr=False)
    bracket: Bracket = field(repr=False)

    @property
    def interval(self) -> tuple[float, float]:
        """A range that holds the population's value, together with those of the whole session."""
        low, high = self.bracket.interval()
        return self.metric.show(low), self.metric.show(high)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        low, high = self.interval
        told = ", overfit" if self.overfit else ""
        return f"{self.value:.4g} [{low:.4g}, {high:.4g}]{told}"


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Answers to many queries, in order; fewer than were asked where the session ended."""

    values: Floats
    overfit: Marks
    outcomes: Outcomes = field(repr=False)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: int) -> Answer:
        bracket = self.outcomes.bracket(range(len(self))[place])
        return Answer(float(self.values[place]), bool(self.overfit[place]), PLAIN, bracket)


def first_answer(outcomes: Outcomes, metric: Metric) -> Answer:
    """Return the answer to the only query, in the unit of its metric."""
    value = metric.show(float(outcomes.values[0]))
    return Answer(value, bool(outcomes.overfit[0]), metric, outcomes.bracket(0))
