"""Noise for sealed totals, and the answers built from noisy ones."""

from confide.release.answer import Answer, Cost, predict_errors
from confide.release.noise import NoisyMeasurement, add_noise
from confide.release.program.run import supports

__all__ = ["Answer", "Cost", "NoisyMeasurement", "add_noise", "predict_errors", "supports"]
