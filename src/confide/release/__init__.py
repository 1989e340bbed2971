"""Noise on sealed totals, and the answer that comes of it."""

from confide.release.answer import Answer, Cost, predict_errors
from confide.release.noise import NoisyTotals, perturb
from confide.release.program.run import supports

__all__ = ["Answer", "Cost", "NoisyTotals", "perturb", "predict_errors", "supports"]
