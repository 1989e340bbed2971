"""Exact sampling from secure random bits; the mechanisms state the privacy loss of its use."""

from confide.noise.entropy import SYSTEM, Entropy, SystemEntropy
from confide.noise.gaussian import RoundedGaussian
from confide.noise.joint import BoxNoise, ConeNoise
from confide.noise.laplace import DiscreteLaplace
from confide.noise.law import IndependentNoise, NoiseLaw
from confide.noise.sampler import MAX_NOISE, Integer, Integers, Law, draw_one, half_width
from confide.noise.selection import EXPONENTIAL, GUMBEL, noisy_argmax, noisy_argmax_rows
from confide.noise.uniform import bernoulli, categorical, uniform_below, uniform_below_each

__all__ = [
    "EXPONENTIAL",
    "GUMBEL",
    "MAX_NOISE",
    "SYSTEM",
    "BoxNoise",
    "ConeNoise",
    "DiscreteLaplace",
    "Entropy",
    "IndependentNoise",
    "Integer",
    "Integers",
    "Law",
    "NoiseLaw",
    "RoundedGaussian",
    "SystemEntropy",
    "bernoulli",
    "categorical",
    "draw_one",
    "half_width",
    "noisy_argmax",
    "noisy_argmax_rows",
    "uniform_below",
    "uniform_below_each",
]
