"""A holdout set that can be asked again and again, and stays true of the population."""

from confide.holdout.answers import Answer, Answers
from confide.holdout.leaderboard import BoardScore, Leaderboard
from confide.holdout.methods import Guarantee, Left
from confide.holdout.metrics import Metric, mean_metric, metric_of
from confide.holdout.planning import Bound, Plan, plan
from confide.holdout.scoring import Scorer
from confide.holdout.session import Holdout
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
