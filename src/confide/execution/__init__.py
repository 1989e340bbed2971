"""Plans, charges, measures and commits; everything above is its client.

A choice reads every candidate's score and a watch one value for each question, but what they cost
was worked out, and charged, for the whole before the first reading.
"""

from confide.execution.batch import choose_among, pair_candidates
from confide.execution.planner import Score
from confide.execution.watch import DurableWatch, Watch
from confide.execution.watch_methods import WatchMethods

__all__ = [
    "DurableWatch",
    "Score",
    "Watch",
    "WatchMethods",
    "choose_among",
    "pair_candidates",
]
