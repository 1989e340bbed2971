"""Choices, batches and watches on behalf of a caller, whichever door they came through."""

from typing import Any

from confide.client.http import NotYours
from confide.curator import Curator
from confide.errors import UnsupportedQuery
from confide.execution import KeptWatch
from confide.release import Answer
from confide.release.selection import Choice
from confide.server import bodies
from confide.server.office import Caller, Office
from confide.server.shapes import show_answer, show_cost, show_number, show_receipt

__all__ = ["ask_watch", "choose", "close_watch", "look_at_watch", "open_watch", "release"]

Want = dict[str, Any]


def choose(office: Office, caller: Caller, asked: bodies.Contest) -> bodies.Chosen:
    """Return the candidate with about the greatest score, and no number."""

    def ask(curator: Curator, want: Want) -> Choice:
        scores = asked.candidates
        return curator.choose(list(scores), scores, fresh=asked.fresh, key=asked.key, **want)

    found = office.pay(caller, asked.cost(), ask)
    return bodies.Chosen(
        value=found.value,
        regret=show_number(found.regret),
        cost=show_cost(found.cost),
        receipt=show_receipt(found.receipt),
        reused=found.reused,
    )


def release(office: Office, caller: Caller, asked: bodies.Batch) -> bodies.Released:
    """Return the answers to a whole set of questions, planned together and charged once."""

    def ask(curator: Curator, want: Want) -> tuple[Answer, ...]:
        said: Want = {**want, "fresh": asked.fresh, "key": asked.key}
        return curator.release(asked.queries, weights=asked.weights, **said)

    found = office.pay(caller, asked.cost(), ask)
    return bodies.Released(answers=[show_answer(one, asked.confidence) for one in found])


def open_watch(office: Office, caller: Caller, asked: bodies.WatchAsked) -> bodies.WatchOpened:
    """Open a session that any worker goes on with; the same key finds it again, for free."""

    def ask(curator: Curator, want: Want) -> KeptWatch:
        said: Want = {**want, "signed": asked.signed, "key": asked.key, "label": _label(caller)}
        most = asked.sensitivity
        return curator.keep_watch(asked.threshold, asked.above, sensitivity=most, **said)

    return _show(office.pay(caller, asked.cost(), ask))


def look_at_watch(office: Office, caller: Caller, entry: int) -> bodies.WatchOpened:
    """Tell where a session stands; costs nothing."""
    return _show(_find(office, caller, entry))


def ask_watch(office: Office, caller: Caller, entry: int, asked: bodies.Watched) -> bodies.Told:
    """Tell whether an answer is above, and how many times more that may be told."""
    watch = _find(office, caller, entry)
    return bodies.Told(above=watch.ask(asked.sql, key=asked.key), left=watch.left)


def close_watch(office: Office, caller: Caller, entry: int) -> None:
    """End a session; what it cost stays."""
    _find(office, caller, entry).close()


def _show(watch: KeptWatch) -> bodies.WatchOpened:
    return bodies.WatchOpened(
        watch=watch.receipt.entry,
        left=watch.left,
        half_width=show_number(watch.half_width()),
        cost=show_cost(watch.cost),
        receipt=show_receipt(watch.receipt),
        reused=watch.reused,
    )


def _find(office: Office, caller: Caller, entry: int) -> KeptWatch:
    """Return a session of the caller's: not there and not yours sound alike.

    # Privacy: answers "above" were paid for, so an agent uses up those of its own sessions alone.
    """
    try:
        watch = office.curator_of(caller).take_up_watch(entry)
    except UnsupportedQuery:
        watch = None
    if watch is None or (caller.is_agent and watch.label != _label(caller)):
        raise NotYours(
            "this is not one of your watches; POST /v1/watches, or the tool watch, opens one and "
            "tells its number"
        )
    return watch


def _label(caller: Caller) -> str:
    """Return what tells an agent's sessions from those of its analyst."""
    return caller.token.id if caller.is_agent else ""
