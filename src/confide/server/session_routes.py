"""The routes of choices, batches and watches: several readings on one charge."""

import math
from typing import Annotated, Any

from fastapi import APIRouter, Path

from confide.curator import Curator
from confide.server import bodies, models
from confide.server.entry import Asking, StrictRoute, Working
from confide.server.routes import REFUSALS
from confide.server.shapes import show_answer, show_cost

__all__ = ["cost_of", "router"]

Session = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=REFUSALS)


def cost_of(asked: Any) -> dict[str, Any]:
    """Return what a request says about its cost."""
    given = {"epsilon": asked.epsilon, "share": asked.share}
    return {name: value for name, value in given.items() if value is not None}


@router.post("/choose")
async def choose(caller: Asking, office: Working, asked: bodies.Contest) -> bodies.Chosen:
    """Choose the candidate with about the greatest score, and tell no number."""

    def ask(curator: Curator, want: dict[str, Any]) -> Any:
        scores = asked.candidates
        return curator.choose(list(scores), scores, fresh=asked.fresh, key=asked.key, **want)

    def work() -> bodies.Chosen:
        found = office.pay(caller, cost_of(asked), ask)
        return bodies.Chosen(
            value=found.value,
            regret=found.regret if math.isfinite(found.regret) else None,
            cost=show_cost(found.cost),
            receipt=models.ReceiptShown(entry=found.receipt.entry, digest=found.receipt.digest),
            reused=found.reused,
        )

    return await office.run_question(caller, work)


@router.post("/release")
async def release(caller: Asking, office: Working, asked: bodies.Batch) -> bodies.Released:
    """Answer a whole set of questions, planned together and charged once."""

    def ask(curator: Curator, want: dict[str, Any]) -> Any:
        said: dict[str, Any] = {**want, "fresh": asked.fresh, "key": asked.key}
        return curator.release(asked.queries, weights=asked.weights, **said)

    def work() -> bodies.Released:
        found = office.pay(caller, cost_of(asked), ask)
        return bodies.Released(answers=[show_answer(one, asked.confidence) for one in found])

    return await office.run_question(caller, work)


@router.post("/watches")
async def open_watch(
    caller: Asking, office: Working, asked: bodies.WatchAsked
) -> bodies.WatchOpened:
    """Open a session that tells of each question whether its answer passes a threshold."""

    def ask(curator: Curator, want: dict[str, Any]) -> Any:
        said: dict[str, Any] = {**want, "signed": asked.signed, "key": asked.key}
        most = asked.sensitivity
        return curator.watch(asked.threshold, asked.above, sensitivity=most, **said)

    def work() -> bodies.WatchOpened:
        office.watches.check_room(caller.account)
        watch = office.pay(caller, cost_of(asked), ask)
        width = watch.half_width()
        return bodies.WatchOpened(
            watch=office.watches.keep(caller.account, watch),
            left=watch.left,
            half_width=width if math.isfinite(width) else None,
            cost=show_cost(watch.cost),
            receipt=models.ReceiptShown(entry=watch.receipt.entry, digest=watch.receipt.digest),
        )

    return await office.run_question(caller, work)


@router.post("/watches/{watch}/ask")
async def ask_watch(
    caller: Asking, office: Working, watch: Session, asked: bodies.Watched
) -> bodies.Told:
    """Tell whether the answer to one COUNT or SUM is above the threshold; "below" is free."""

    def work() -> bodies.Told:
        above, left = office.watches.ask(caller.account, watch, asked.sql, asked.key)
        return bodies.Told(above=above, left=left)

    return await office.run_question(caller, work)


@router.delete("/watches/{watch}")
async def close_watch(caller: Asking, office: Working, watch: Session) -> dict[str, str]:
    """Close a session; what it cost stays."""
    await office.run(lambda: office.watches.close(caller.account, watch))
    return {"status": "closed"}
