"""The published holdout experiment, and its charts.

There are n training rows and n holdout rows. Labels are 1 or -1 with equal probability, and
features are standard normal. In the variant with a signal, 20 features are shifted toward the label
by 6 / sqrt(n). The analyst keeps features whose training and holdout correlations with the label
agree in sign, and whose absolute values both exceed 1 / sqrt(n). Of these, they take the k features
whose training correlations are largest in absolute value. They classify a row by the sign of the
sum of its features, each times the sign of its training correlation.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from html import escape
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from confide.errors import BadDeclaration
from confide.exact import integer
from confide.holdout.coding import GuessAndCheck
from confide.holdout.coding_bounds import anytime_threshold, outcome_nats
from confide.holdout.protocol import Progress, QueryBatch
from confide.holdout.values import Booleans, Floats
from confide.noise import SYSTEM, Entropy, RoundedGaussian
from confide.release.display import SCHEMA, Chart, import_converter

__all__ = [
    "METHODS",
    "PICKS",
    "Curve",
    "Result",
    "draw_result",
    "run_experiment",
    "save_result",
    "write_page",
]

METHODS: Final = ("standard holdout", "Thresholdout, as published", "guess-and-check")
PICKS: Final = (5, 10, 20, 30, 45, 70, 100, 150, 200, 250, 300, 350, 400, 450, 500)
SIGNAL_FEATURES: Final = 20
SIGNAL_SHIFT: Final = 6.0
BETA: Final = 0.05
STEPS_PER_UNIT: Final = 2**20
NORMAL: Final = RoundedGaussian(Fraction(STEPS_PER_UNIT) ** 2)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Accuracies by run (rows) and number of features (columns), for one method and variant.

    ``train`` is the accuracy on the training rows, and ``holdout`` the one that the method reports
    for the holdout rows. ``truth`` is the accuracy in the population, and ``fresh`` the accuracy on
    n fresh rows. ``low`` and ``high`` are the ends of the intervals of guess-and-check; for other
    methods, they are 0 and 1.
    """

    method: str
    has_signal: bool
    picks: tuple[int, ...]
    train: Floats
    holdout: Floats
    fresh: Floats
    truth: Floats
    low: Floats
    high: Floats

    def covered(self) -> float:
        """Return the fraction of runs in which every interval covers the true accuracy."""
        covers = (self.low <= self.truth) & (self.truth <= self.high)
        return float(covers.all(axis=1).mean())


@dataclass(frozen=True, slots=True)
class Result:
    """The results of an experiment, with one curve for each method and variant."""

    rows: int
    features: int
    runs: int
    curves: tuple[Curve, ...]

    def curve(self, method: str, *, has_signal: bool) -> Curve:
        """Return the curve of a method and variant."""
        return next(c for c in self.curves if (c.method, c.has_signal) == (method, has_signal))


def run_experiment(
    rows: int = 10_000,
    features: int = 10_000,
    runs: int = 50,
    *,
    picks: tuple[int, ...] = PICKS,
    tick: Callable[[], None] = lambda: None,
    entropy: Entropy = SYSTEM,
) -> Result:
    """Run both variants of the experiment with each method.

    ``picks`` are the numbers k of features; those above ``features`` are left out. ``tick`` is
    called after every run.

    Claim:   each run has exactly the distribution of the experiment on sampled rows.
    Why:     let a column be a feature times the label. The analyst sees rows only through the
             column means, and the means of normal columns are independent of the residuals about
             them. So means are drawn first. Each signed sum over chosen features is a sum of means
             plus a sum of residuals. The latter is normal, and drawn for one block of features
             after the other. On the training and the holdout rows, it is centered to add up to zero
             over the rows.
    Source:  docs/proofs/holdout.md.
    Checked: tests/examples/test_holdout_experiment.py (against rows drawn in full).
    """
    size = integer("n", rows, low=10, high=10**7), integer("features", features, low=1, high=10**7)
    run_count = integer("runs", runs, low=1, high=10**6)
    usable_picks = tuple(k for k in picks if k <= size[1])
    curves = []
    for has_signal in (False, True):
        runs_by_method: dict[str, list[_Run]] = {method: [] for method in METHODS}
        for _ in range(run_count):
            table = _MeanTable.draw(*size, has_signal=has_signal, entropy=entropy)
            for method in METHODS:
                runs_by_method[method].append(table.analyze(method, usable_picks, entropy))
            tick()
        curves += [
            _curve_of(method, runs_by_method[method], usable_picks, has_signal)
            for method in METHODS
        ]
    return Result(*size, run_count, tuple(curves))


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """One analysis: the accuracies of `Curve` for each number of features."""

    train: Floats
    holdout: Floats
    fresh: Floats
    truth: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _MeanTable:
    """Column means of feature times label, on both sets of rows and in the population."""

    rows: int
    train: Floats
    holdout: Floats
    truth: Floats

    @classmethod
    def draw(cls, rows: int, features: int, *, has_signal: bool, entropy: Entropy) -> "_MeanTable":
        """Return the means of a new table."""
        root = math.sqrt(rows)
        truth = np.zeros(features)
        truth[: SIGNAL_FEATURES if has_signal else 0] = SIGNAL_SHIFT / root
        means = _normals(2 * features, entropy).reshape(2, features) / root + truth
        return cls(rows, means[0], means[1], truth)

    def analyze(self, method: str, picks: tuple[int, ...], entropy: Entropy) -> _Run:
        """Return the accuracies if the analyst selects features by the answers of one method."""
        unit = 1 / math.sqrt(self.rows)
        released, progress = self._release(method, unit, entropy)
        is_kept = (
            (self.train * released > 0) & (np.abs(self.train) > unit) & (np.abs(released) > unit)
        )
        kept = np.flatnonzero(is_kept)
        order = kept[np.argsort(-np.abs(self.train[kept]), kind="stable")]
        accuracies = [self._accuracies(means, order, picks, entropy) for means in self._sets()]
        train, exact, fresh = accuracies
        truth = self._true_accuracies(order, picks)
        if method == METHODS[0]:
            return _Run(train, exact, fresh, truth, exact * 0, exact * 0 + 1)
        if method == METHODS[1]:
            shown = self._noisy(train, exact, unit, entropy)
            return _Run(train, shown, fresh, truth, exact * 0, exact * 0 + 1)
        session = GuessAndCheck(self.rows, BETA, anytime_threshold(self.rows, self.rows))
        batch = QueryBatch(exact, train, self.rows, is_binary=True)
        outcomes = session.answer(progress, batch, entropy)[1]
        ends = [outcomes.bracket(index).interval() for index in range(len(picks))]
        low, high = np.array(ends).T
        return _Run(train, outcomes.values, fresh, truth, low, high)

    def _sets(self) -> Iterator[Floats | None]:
        """Yield the means of the training and the holdout rows, and None for fresh rows."""
        yield self.train
        yield self.holdout
        yield None

    def _release(self, method: str, unit: float, entropy: Entropy) -> tuple[Floats, Progress]:
        """Return the method's answers about the holdout means, and the session's progress.

        ``unit`` is the standard deviation of a column mean, 1 / sqrt(n).
        """
        if method == METHODS[0]:
            return self.holdout, Progress()
        if method == METHODS[1]:
            return self._noisy(self.train, self.holdout, unit, entropy), Progress()
        # The threshold is for values in [0, 1], whose standard deviation is 1/2 instead of 1.
        threshold = 2 * anytime_threshold(self.rows, self.rows)
        gap = self.holdout - self.train
        is_over = np.abs(gap) > threshold
        steps = np.rint(gap / threshold)
        released = np.where(is_over, self.train + steps * threshold, self.train)
        return released, _progress_after(is_over, steps)

    def _noisy(self, guesses: Floats, means: Floats, unit: float, entropy: Entropy) -> Floats:
        """Return the answers of the published program, which differ from those of its theorem.

        It adds normal noise to the threshold and to the means, and does not limit the number of
        overfits.
        """
        noise = _normals(2 * len(means), entropy).reshape(2, -1) * unit
        is_over = np.abs(guesses - means) > 4 * unit + noise[0]
        return np.where(is_over, means + noise[1], guesses)

    def _accuracies(
        self,
        means: Floats | None,
        order: NDArray[np.intp],
        picks: tuple[int, ...],
        entropy: Entropy,
    ) -> Floats:
        """Return the accuracy on one set of rows for each number of features.

        ``means`` are the column means of the set, or None for fresh rows. ``order`` lists the kept
        features, best first.
        """
        accuracies = np.empty(len(picks))
        source = self.truth if means is None else means
        gains = np.cumsum(np.sign(self.train[order]) * source[order])
        total, used = np.zeros(self.rows), 0
        for index, k in enumerate(picks):
            stop = min(k, len(order))
            if stop > used:
                block = _normals(self.rows, entropy) * math.sqrt(stop - used)
                total += block if means is None else block - block.mean()
                used = stop
            accuracies[index] = np.mean(total + (gains[used - 1] if used else 0.0) > 0)
        return accuracies

    def _true_accuracies(self, order: NDArray[np.intp], picks: tuple[int, ...]) -> Floats:
        """Return the accuracy in the population for each number of features."""
        gains = np.cumsum(np.sign(self.train[order]) * self.truth[order])
        sizes = [min(k, len(order)) for k in picks]
        normal = NormalDist()
        return np.array(
            [normal.cdf(float(gains[k - 1]) / math.sqrt(k)) if k else 0.5 for k in sizes]
        )


def _progress_after(is_overfit: Booleans, steps: Floats) -> Progress:
    """Return the progress of a session after all answers about features, with its code length.

    ``steps`` are the distances of released means from the guesses, in multiples of the threshold.
    The distance d of an overfit is coded with probability 1 / (2 |d| (|d| + 1)), over all integers
    d except 0.
    """
    accepted, overfits, length = 0, 0, 0.0
    for is_over, step in zip(is_overfit.tolist(), steps.tolist(), strict=True):
        length += outcome_nats(accepted, overfits, is_overfit=is_over)
        if is_over:
            distance = max(1.0, abs(step))
            length += math.log(2 * distance * (distance + 1))
        accepted, overfits = accepted + (not is_over), overfits + is_over
    return replace(Progress(), queries=len(is_overfit), overfits=overfits, nats=length)


def _curve_of(
    method: str,
    runs: list[_Run],
    picks: tuple[int, ...],
    has_signal: bool,  # noqa: FBT001
) -> Curve:
    names = ("train", "holdout", "fresh", "truth", "low", "high")
    arrays = {name: np.array([getattr(run, name) for run in runs]) for name in names}
    return Curve(method=method, has_signal=has_signal, picks=picks, **arrays)


def _normals(count: int, entropy: Entropy) -> Floats:
    """Return standard normal numbers on a grid of 2^-20."""
    return NORMAL.draw(count, entropy) / STEPS_PER_UNIT


LINES: Final = ("train", "holdout", "fresh")
COLORS: Final = ("#9d755d", "#4c78a8", "#54a24b")
PANEL_SIZE: Final = (260, 200)
DEFAULT_DOMAIN: Final = (0.35, 0.75)
DOMAIN_STEP: Final = 0.05


def draw_result(result: Result) -> Chart:
    """Return a chart of accuracy against the number of features, with a column for each method."""
    domain = _domain(result.curves)
    rows = [
        {"hconcat": [_panel(result.curve(method, has_signal=signal), domain) for method in METHODS]}
        for signal in (False, True)
    ]
    title = (
        f"n = {result.rows:,}, {result.features:,} features, mean of {result.runs} runs; "
        "bands: one standard deviation, or the 95% interval of guess-and-check"
    )
    return Chart({"$schema": SCHEMA, "title": title, "vconcat": rows})


def save_result(result: Result, path: str | Path) -> None:
    """Write the chart as .png or .svg, or with its numbers as .html."""
    target = Path(path)
    match target.suffix.lower():
        case ".png" | ".svg":
            draw_result(result).save(target)
        case ".html":
            target.write_text(write_page(result), encoding="utf-8")
        case _:
            raise BadDeclaration(
                f"The chart must be a .png, .svg, or .html file; got {target.name!r}."
            )


def write_page(result: Result) -> str:
    """Return a page with the chart and a table; it needs no script and no other file."""
    chart = import_converter().vegalite_to_svg(draw_result(result).spec)
    head = "".join(f"<th>{name}</th>" for name in ("method", "signal", "k", *LINES))
    body = "".join(_table_rows(curve) for curve in result.curves)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        "<title>The reusable holdout: an experiment</title>"
        "<style>body{font:16px sans-serif;margin:2em;max-width:70em}td,th{padding:.2em .8em;"
        "text-align:left}svg{max-width:100%;height:auto}</style>"
        "<h1>The reusable holdout: an experiment</h1>"
        f"{chart}<table><tr>{head}</tr>{body}</table></html>\n"
    )


def _table_rows(curve: Curve) -> str:
    signal = "20 features" if curve.has_signal else "none"
    means = {line: getattr(curve, line).mean(axis=0) for line in LINES}
    return "".join(
        f"<tr><td>{escape(curve.method)}</td><td>{signal}</td><td>{k}</td>"
        + "".join(f"<td>{means[line][index]:.3f}</td>" for line in LINES)
        + "</tr>"
        for index, k in enumerate(curve.picks)
    )


def _domain(curves: Iterable[Curve]) -> list[float]:
    """Return the limits of the y-axis of every panel, which include every line.

    Bands may extend beyond the limits: those of guess-and-check cover most of [0, 1] if there are
    few rows.
    """
    means = [getattr(curve, line).mean(axis=0) for curve in curves for line in LINES]
    low, high = (float(end(map(end, means))) for end in (min, max))
    return [
        min(DEFAULT_DOMAIN[0], math.floor(low / DOMAIN_STEP) * DOMAIN_STEP),
        max(DEFAULT_DOMAIN[1], math.ceil(high / DOMAIN_STEP) * DOMAIN_STEP),
    ]


def _panel(curve: Curve, domain: list[float]) -> dict[str, Any]:
    values = [point for line in LINES for point in _points(curve, line)]
    color = {
        "field": "rows",
        "type": "nominal",
        "scale": {"domain": list(LINES), "range": list(COLORS)},
        "title": None,
        "legend": {"symbolOpacity": 1},
    }
    x_axis = {"field": "k", "type": "quantitative", "title": "number of features"}
    scale = {"domain": domain}
    y_axis = {"field": "accuracy", "type": "quantitative", "title": "accuracy", "scale": scale}
    low = {"field": "low", "type": "quantitative", "scale": scale, "title": "accuracy"}
    band = {"x": x_axis, "y": low, "y2": {"field": "high"}, "color": color}
    signal = "20 features with signal" if curve.has_signal else "no signal"
    return {
        "title": [curve.method, signal],
        "width": PANEL_SIZE[0],
        "height": PANEL_SIZE[1],
        "data": {"values": values},
        "layer": [
            {"mark": {"type": "area", "opacity": 0.2, "clip": True}, "encoding": band},
            {
                "mark": {"type": "line", "clip": True},
                "encoding": {"x": x_axis, "y": y_axis, "color": color},
            },
        ],
    }


def _points(curve: Curve, line: str) -> list[dict[str, Any]]:
    """Return the mean and the band of one line, for each number of features."""
    array = getattr(curve, line)
    mean, deviation = array.mean(axis=0), array.std(axis=0)
    low, high = mean - deviation, mean + deviation
    if line == "holdout" and curve.method == METHODS[2]:
        low, high = curve.low.mean(axis=0), curve.high.mean(axis=0)
    return [
        {
            "rows": line,
            "k": k,
            "accuracy": round(float(mean[i]), 5),
            "low": round(float(low[i]), 5),
            "high": round(float(high[i]), 5),
        }
        for i, k in enumerate(curve.picks)
    ]
