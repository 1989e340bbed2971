"""The published experiment at a small scale: its distribution, its figures, and its command."""

import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from confide.cli import app
from confide.errors import BadDeclaration
from confide.examples.holdout_experiment import (
    LINES,
    METHODS,
    draw_result,
    run_experiment,
    save_result,
)
from support.entropy import SeededEntropy

BANDS = [
    # method, has signal, k, mean over many runs, deviation of one run
    (METHODS[0], False, 500, 0.633, 0.0035),
    (METHODS[1], False, 500, 0.513, 0.012),
    (METHODS[0], True, 20, 0.605, 0.005),
    (METHODS[1], True, 20, 0.606, 0.005),
    (METHODS[0], True, 500, 0.648, 0.003),
    (METHODS[1], True, 500, 0.535, 0.012),
]


@pytest.mark.slow
@pytest.mark.statistical
def test_the_published_figures_come_out(entropy: SeededEntropy) -> None:
    """At full size the means over runs fall into their bands, and every interval covers the truth.

    A band is 6.2 standard deviations of the mean wide, plus 0.001 for rounding. Any of the six
    means leaves its band with probability at most 4e-9. The full 50 runs are in bench/holdout.py.
    """
    runs = 6
    result = run_experiment(runs=runs, picks=(20, 70, 500), entropy=entropy)
    for method, has_signal, k, mean, deviation in BANDS:
        curve = result.curve(method, has_signal=has_signal)
        found = curve.holdout[:, curve.picks.index(k)].mean()

        assert mean == pytest.approx(found, abs=6.2 * deviation / math.sqrt(runs) + 0.001)
    for has_signal in (False, True):
        assert 1.0 == result.curve(METHODS[2], has_signal=has_signal).covered()
    naive = result.curve(METHODS[0], has_signal=False)
    assert 0.13 == pytest.approx((naive.holdout - naive.fresh)[:, -1].mean(), abs=0.015)


@pytest.mark.statistical
def test_the_short_cut_has_the_law_of_rows_drawn_in_full(entropy: SeededEntropy) -> None:
    """Mean accuracies agree with those of an experiment on fully drawn rows.

    Both means have a standard deviation below 0.5 / sqrt(200 runs). The tolerance is six standard
    deviations of the difference.
    """
    rows, features, runs, k = 100, 60, 200, 10
    rng = np.random.Generator(np.random.Philox(key=int(entropy.words(1)[0])))
    unit = 1 / math.sqrt(rows)
    seen = []
    for _ in range(runs):
        train, held, fresh = rng.normal(size=(3, rows, features))  # x times label, no signal
        t, h = train.mean(axis=0), held.mean(axis=0)
        kept = np.flatnonzero((t * h > 0) & (np.abs(t) > unit) & (np.abs(h) > unit))
        order = kept[np.argsort(-np.abs(t[kept]))][:k]
        signs = np.sign(t[order])
        seen.append([np.mean(part[:, order] @ signs > 0) for part in (train, held, fresh)])
    short = run_experiment(rows, features, runs, picks=(k,), entropy=entropy)
    curve = short.curve(METHODS[0], has_signal=False)
    found = [array.mean() for array in (curve.train, curve.holdout, curve.fresh)]

    # The standard deviation of a mean of 200 accuracies on 100 rows each is at most 0.0075.
    assert np.mean(seen, axis=0) == pytest.approx(found, abs=6 * 0.0075 * math.sqrt(2))
    assert found[1] > 0.56


def test_figures_are_drawn(tmp_path: Path) -> None:
    """Figures have six panels with three lines each, and save as PNG, SVG, or HTML."""
    result = run_experiment(100, 40, 2, picks=(5, 10))
    panels = [panel for row in draw_result(result).spec["vconcat"] for panel in row["hconcat"]]

    assert 6 == len(panels)
    assert {"train", "holdout", "fresh"} == {p["rows"] for p in panels[0]["data"]["values"]}
    for name in ("figures.png", "figures.svg", "figures.html"):
        save_result(result, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1_000
    page = (tmp_path / "figures.html").read_text(encoding="utf-8")
    assert "<script" not in page
    with pytest.raises(BadDeclaration, match="The chart must be"):
        save_result(result, tmp_path / "figures.gif")


def test_no_line_is_cut_off(entropy: SeededEntropy) -> None:
    """With 1,000 rows the training accuracy exceeds 0.75, and the axis of every panel covers it."""
    result = run_experiment(1_000, 10_000, 1, picks=(5, 100, 500), entropy=entropy)
    lines = [getattr(one, line).mean(axis=0) for one in result.curves for line in LINES]
    panels = [panel for row in draw_result(result).spec["vconcat"] for panel in row["hconcat"]]
    ends = {tuple(panel["layer"][1]["encoding"]["y"]["scale"]["domain"]) for panel in panels}

    assert max(map(max, lines)) > 0.75
    ((low, high),) = ends
    assert low <= min(map(min, lines)) <= max(map(max, lines)) <= high


def test_the_commands_run(tmp_path: Path) -> None:
    """`confide holdout plan` prints the table; `experiment` saves figures and prints the path."""
    runner = CliRunner()
    planned = runner.invoke(
        app, ["holdout", "plan", "--tau", "0.1", "--queries", "100", "--overfits", "10"]
    )
    out = tmp_path / "small.svg"
    drawn = runner.invoke(
        app,
        [
            "holdout",
            "experiment",
            "--n",
            "100",
            "--features",
            "60",
            "--runs",
            "2",
            "--out",
            str(out),
        ],
    )
    refused = runner.invoke(app, ["holdout", "plan", "--tau", "0.1"])

    assert 0 == planned.exit_code
    assert "n = 5,432: coding" in planned.output
    assert 0 == drawn.exit_code
    assert out.exists()
    assert "holdout accuracy" in drawn.output
    assert 2 == refused.exit_code
