"""Planning, charging, measuring, and committing.

`Curator`, the statistics, and the server use this package to run queries. A choice reads the score
of every candidate, and a watch reads one value per query. Their cost covers all of these readings
and is charged before the first one.
"""

from confide.execution.batch import choose_among, pair_candidates
from confide.execution.confirmation import ConfirmationRequired
from confide.execution.planner import Score
from confide.execution.watch import DurableWatch, Watch
from confide.execution.watch_methods import WatchMethods

__all__ = [
    "ConfirmationRequired",
    "DurableWatch",
    "Score",
    "Watch",
    "WatchMethods",
    "choose_among",
    "pair_candidates",
]
