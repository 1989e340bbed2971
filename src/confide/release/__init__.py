"""Noise on sealed totals, and the answer that comes of it."""

from confide.release.answer import Answer, Cost, predict_errors
from confide.release.noise import NoisyMeasurement, perturb
from confide.release.program.run import supports

__all__ = ["Answer", "Cost", "NoisyMeasurement", "perturb", "predict_errors", "supports"]
