"""Several readings on one charge: a choice among questions, a watch over a threshold.

A choice reads every candidate's score and a watch one value for each question, but what they cost
was worked out, and charged, for the whole before the first reading.
"""

from confide.desk import Score
from confide.sessions.choice import choose_among, pair_candidates
from confide.sessions.kept import KeptWatch
from confide.sessions.methods import Watching
from confide.sessions.watch import Watch

__all__ = [
    "KeptWatch",
    "Score",
    "Watch",
    "Watching",
    "choose_among",
    "pair_candidates",
]
