"""Noise for sealed totals, and the answers built from noisy ones."""

from confide.release.answer import Answer, Cost, predict_errors
from confide.release.formatting import CHART_WIDTH, draw_chart, figures_of, percent
from confide.release.noise import NoisyMeasurement, add_noise
from confide.release.program.run import check_program

__all__ = [
    "CHART_WIDTH",
    "Answer",
    "Cost",
    "NoisyMeasurement",
    "add_noise",
    "check_program",
    "draw_chart",
    "figures_of",
    "percent",
    "predict_errors",
]
