"""Exact random integers from secure bits; knows nothing of privacy."""

from confide.noise.entropy import SYSTEM, Entropy, SystemEntropy
from confide.noise.gaussian import RoundedGaussian
from confide.noise.joint import BoxNoise, ConeNoise
from confide.noise.laplace import DiscreteLaplace
from confide.noise.law import IndependentNoise, NoiseLaw
from confide.noise.sampler import LARGEST_NOISE, Integers, Law, Whole, half_width
from confide.noise.selection import EXPONENTIAL, GUMBEL, greatest, greatest_each
from confide.noise.uniform import bernoulli, categorical, uniform_below, uniform_below_each

__all__ = [
    "EXPONENTIAL",
    "GUMBEL",
    "LARGEST_NOISE",
    "SYSTEM",
    "BoxNoise",
    "ConeNoise",
    "DiscreteLaplace",
    "Entropy",
    "IndependentNoise",
    "Integers",
    "Law",
    "NoiseLaw",
    "RoundedGaussian",
    "SystemEntropy",
    "Whole",
    "bernoulli",
    "categorical",
    "greatest",
    "greatest_each",
    "half_width",
    "uniform_below",
    "uniform_below_each",
]
