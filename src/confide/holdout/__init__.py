"""A holdout set that can be asked again and again, and stays true of the population."""

from confide.holdout.holdout import BoardScore, Holdout, Leaderboard
from confide.holdout.planning import Bound, Plan, plan
from confide.holdout.protocol import Answer, Answers, Guarantee, Left
from confide.holdout.scoring import Metric, Scorer, mean_metric, metric_of
from confide.holdout.thresholdout import Thresholdout

__all__ = [
    "Answer",
    "Answers",
    "BoardScore",
    "Bound",
    "Guarantee",
    "Holdout",
    "Leaderboard",
    "Left",
    "Metric",
    "Plan",
    "Scorer",
    "Thresholdout",
    "mean_metric",
    "metric_of",
    "plan",
]
