"""Thousands of regressions: rows in NumPy, noise from the plans' own distributions, no engine."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.declare import Column, Float, Int
from confide.loss import Share
from confide.statistics.estimate import EstimateContext, NoisySums, split_share
from confide.statistics.formula import plan_sums, read_formula
from confide.statistics.glm import GlmSolver, SumRequest
from confide.statistics.glm_model import Model, find_link
from support.entropy import SeededEntropy
from support.samples import BUDGETS, Noise, add_rows, ask, curator_of, granted, plan_noise

__all__ = ["Walker", "draw_people", "make_walker", "place_truth"]

Floats = NDArray[np.float64]
BATCH: Final = 256
MAX_COUNT: Final = 15


@dataclass(slots=True)
class Walker:
    """Fits of one regression, each over its own rows and noise.

    Replicas of a fit use ``replicas`` points of the noise's distribution, drawn again each time. So
    the rank of the true value among them is uniform, for any number, if intervals are correct.
    """

    asked: EstimateContext
    share: Share
    model: Model
    entropy: SeededEntropy
    replicas: int
    rng: np.random.Generator = field(init=False)
    laws: dict[object, tuple[Noise, Iterator[Floats]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(int(self.entropy.words(1)[0]))

    def walk(self, rows: Mapping[str, Floats]) -> GlmSolver:
        """Return a solver that ran on the noisy sums of these rows."""
        walk = GlmSolver(self.model)
        while question := walk.ask():
            noise, draws = self._law(question)
            sums = add_rows(question.terms, rows)[0 if question.counted else 1 :] + next(draws)
            points = noise.points[self.rng.integers(len(noise.points), size=self.replicas)]
            walk.take(NoisySums(((),), sums[None], points, noise.variance))
        return walk

    def _law(self, question: SumRequest) -> tuple[Noise, Iterator[Floats]]:
        """Return the noise of a request, which depends only on the number of its terms."""
        key = (len(question.terms), question.part, question.counted)
        if key not in self.laws:
            names = self.model.design.names
            query = plan_sums("people", names, question.terms, counted=question.counted)
            part = split_share(self.share, [question.part])[0]
            plan = self.asked.plan(self.asked.planner.read(query), part)

            def draw() -> Iterator[Floats]:
                while True:
                    yield from plan_noise(plan, BATCH, self.entropy).draws

            self.laws[key] = plan_noise(plan, 1, self.entropy), draw()
        return self.laws[key]


def make_walker(
    family: str, columns: int, entropy: SeededEntropy, *, accounting: str = "pure", replicas: int
) -> Walker:
    """Return fits of a regression on this number of columns, at epsilon 1."""
    names = [f"c{place}" for place in range(columns)]
    kinds: dict[str, Column] = {name: Float(-1, 1) for name in names}
    kinds["y"] = Int(0, 1 if family == "logistic" else MAX_COUNT)
    curator = curator_of({name: [0] for name in kinds}, kinds, BUDGETS[accounting])
    asked = ask(curator, 1)
    design = read_formula(asked, "people", f"y ~ {' + '.join(names)}")
    model = Model(design, find_link(design.response, family))
    return Walker(asked, granted(asked), model, entropy, replicas)


def draw_people(
    family: str, truth: Floats, rows: int, rng: np.random.Generator
) -> dict[str, Floats]:
    """Return rows that follow a regression with these coefficients, intercept first."""
    columns = rng.uniform(-1, 1, (len(truth) - 1, rows))
    linear = truth[0] + truth[1:] @ columns
    draws: dict[str, Callable[[], Floats]] = {
        "logistic": lambda: rng.random(rows) < 1.0 / (1.0 + np.exp(-linear)),
        "poisson": lambda: np.minimum(rng.poisson(np.exp(linear)), MAX_COUNT),
    }
    people = {f"c{place}": column for place, column in enumerate(columns)}
    return {**people, "y": np.asarray(draws[family](), dtype=np.float64)}


def place_truth(replicas: Floats, truth: Floats, *, narrowed: float = 1.0) -> NDArray[np.bool_]:
    """Return whether 95% intervals cover the true value: 2.5% of replicas are on either side.

    ``narrowed`` contracts replicas toward their median. Of 40 k - 1 replicas and the true value,
    which are exchangeable, the true value is one of the k lowest or k highest in one case of 20.
    """
    middle = np.median(replicas, axis=0)
    below = (middle + narrowed * (replicas - middle) < truth).sum(axis=0)
    least = (len(replicas) + 1) // 40
    held: NDArray[np.bool_] = (below >= least) & (below <= len(replicas) - least)
    return held
