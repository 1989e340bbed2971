"""Privacy losses of mechanisms, their composition, and filters that limit the total."""

from confide.loss.composition import ComposedLoss, compose, group, repeat
from confide.loss.curves import mu_squared_for
from confide.loss.filters import (
    Filter,
    GaussianFilter,
    PureFilter,
    RenyiFilter,
    auto_filter,
)
from confide.loss.kinds import (
    ApproximateLoss,
    BoundedRangeLoss,
    GaussianLoss,
    LaplaceLoss,
    PureLoss,
    RenyiLoss,
)
from confide.loss.protocol import Loss, Unpriceable
from confide.loss.shares import UNITS, Share
from confide.loss.textbook import textbook_advanced_composition, textbook_gaussian_sigma

__all__ = [
    "UNITS",
    "ApproximateLoss",
    "BoundedRangeLoss",
    "ComposedLoss",
    "Filter",
    "GaussianFilter",
    "GaussianLoss",
    "LaplaceLoss",
    "Loss",
    "PureFilter",
    "PureLoss",
    "RenyiFilter",
    "RenyiLoss",
    "Share",
    "Unpriceable",
    "auto_filter",
    "compose",
    "group",
    "mu_squared_for",
    "repeat",
    "textbook_advanced_composition",
    "textbook_gaussian_sigma",
]
