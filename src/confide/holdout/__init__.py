"""Reusable holdout sets, whose answers to adaptive queries stay valid for the population."""

from confide.holdout.choice import USED_OPTIONS
from confide.holdout.holdout import BoardScore, Holdout, Leaderboard
from confide.holdout.planning import Bound, HoldoutPlan, plan
from confide.holdout.protocol import Guarantee, HoldoutAnswer, HoldoutAnswers, Left
from confide.holdout.scoring import Metric, Scorer, mean_metric, metric_of
from confide.holdout.thresholdout import Thresholdout

__all__ = [
    "USED_OPTIONS",
    "BoardScore",
    "Bound",
    "Guarantee",
    "Holdout",
    "HoldoutAnswer",
    "HoldoutAnswers",
    "HoldoutPlan",
    "Leaderboard",
    "Left",
    "Metric",
    "Scorer",
    "Thresholdout",
    "mean_metric",
    "metric_of",
    "plan",
]
