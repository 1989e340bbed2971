"""Mechanisms: each releases noisy values or a choice, and states the privacy loss of one use."""

from confide.mechanisms.exponential import Exponential
from confide.mechanisms.gaussian import Gaussian
from confide.mechanisms.key_selection import KeySelection
from confide.mechanisms.knorm import Box, KNorm, Polytope
from confide.mechanisms.laplace import Laplace
from confide.mechanisms.neighbours import (
    Neighbours,
    Sensitivity,
    histogram_sensitivity,
    sum_sensitivity,
)
from confide.mechanisms.permute_and_flip import PermuteAndFlip
from confide.mechanisms.randomized_response import RandomizedResponse
from confide.mechanisms.sparse_vector import SparseVector

__all__ = [
    "Box",
    "Exponential",
    "Gaussian",
    "KNorm",
    "KeySelection",
    "Laplace",
    "Neighbours",
    "PermuteAndFlip",
    "Polytope",
    "RandomizedResponse",
    "Sensitivity",
    "SparseVector",
    "histogram_sensitivity",
    "sum_sensitivity",
]
