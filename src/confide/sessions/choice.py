"""A choice among questions: every score is read on one charge."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from confide.desk import Desk, Manner, Score
from confide.errors import BadDeclaration, refusing
from confide.loss import Share
from confide.plan.selection import plan_contest
from confide.query import canonical
from confide.release.selection import Choice, choose_candidate

__all__ = ["choose_among", "pair_candidates"]

MOST_CANDIDATES: Final = 1_000


@refusing
def pair_candidates(
    candidates: Iterable[str], score: Callable[[str], Score] | Mapping[str, Score]
) -> dict[str, Score]:
    """Return the question of each candidate, in their order."""
    is_list = isinstance(candidates, Iterable) and not isinstance(candidates, str)
    names = list(candidates) if is_list else []
    if not 1 <= len(names) <= MOST_CANDIDATES or not all(isinstance(name, str) for name in names):
        raise BadDeclaration(
            f"candidates must be a list of 1 to {MOST_CANDIDATES:,} names, got "
            f"{len(names):,} things of {type(candidates).__name__}"
        )
    if len(set(names)) != len(names):
        raise BadDeclaration(
            "candidates must differ from each other, got one twice; name each once"
        )
    if not isinstance(score, Mapping):
        if not callable(score):
            raise BadDeclaration(
                "score must be a function from a candidate to its question, or a mapping from one "
                f"to the other, got {type(score).__name__}"
            )
        return {name: score(name) for name in names}
    missing = [name for name in names if name not in score]
    if missing:
        raise BadDeclaration(
            f"score has no question for the candidate {missing[0]!r}; give every candidate one"
        )
    return {name: score[name] for name in names}


def choose_among(
    desk: Desk, scores: Mapping[str, Score], grant: Callable[[], Share], manner: Manner
) -> Choice:
    """Return one candidate, the likelier the greater its score; ``grant`` says what it may cost.

    Claim:   the choice costs the share granted, however many candidates there are.
    Why:     a contest is one use of its selector, whose loss is within that of the share.
    Source:  [MT07], [MS20], through `confide.plan.selection.plan_contest`.
    Checked: tests/curator/test_selection.py.
    """
    queries = {name: desk.read_score(asked) for name, asked in scores.items()}
    names = list(queries)
    question = desk.name_question({"choose": [[n, canonical(one)] for n, one in queries.items()]})
    request = desk.open(question, manner)
    settled = request.settled
    share = request.share(grant) if settled is None else settled.receipt.share
    plans = [desk.plan(query, share) for query in queries.values()]
    contest = plan_contest(plans, desk.neighbours, desk.prices.loss(share))
    if settled is None:
        # Privacy: charged before any row is read, for one use of the selector on all its scores.
        hold = request.reserve(share, readings=len(plans))
        sealed = [desk.engine.run(plan, hold) for plan in plans]
        settled = request.commit(hold, {"place": choose_candidate(sealed, contest, desk.entropy)})
    return Choice(
        names[settled.noisy["place"]],
        settled.cost,
        settled.receipt,
        reused=settled.reused,
        regret=contest.regret(),
    )
