"""Calls go down the layers, as imports do, except for methods that a lower layer declares."""

import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

import confide as cf
from support.tree import layers, modules

HEIGHTS: Final = {name: height for height, names in enumerate(layers()) for name in names}
PASSED_THROUGH: Final = ("confide.errors", "confide.lazy")
"""Modules that call what they wrap: a decorator for errors, and lazily imported modules."""

ASKED: Final[dict[str, Callable[[cf.Curator], object]]] = {
    "sql": lambda curator: (
        (
            curator.sql(
                "SELECT ward, AVG(age) AS a, MEDIAN(age) AS m FROM visits GROUP BY 1", share=0.01
            )
        ).intervals
    ),
    "error": lambda curator: curator.sql("SELECT COUNT(*) FROM visits WHERE age > 3", error=300),
    "top keys": lambda curator: curator.sql(
        "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1", share=0.01
    ),
    "combined": lambda curator: curator.sql("SELECT COUNT(*) FROM visits", share=0.01).combined(),
    "table": lambda curator: curator.table("visits").agg(n=cf.count()).ask(share=0.01),
    "choose": lambda curator: curator.choose(
        ["A", "B"], "SELECT COUNT(*) FROM visits WHERE ward = '{}'".format, share=0.01
    ),
    "release": lambda curator: curator.release(["SELECT COUNT(*) FROM visits"], share=0.01),
    "watch": lambda curator: curator.watch(3, share=0.01).ask("SELECT COUNT(*) FROM visits"),
    "mean": lambda curator: curator.mean("visits", "age", share=0.1, bounds="private").interval(),
    "fit": lambda curator: curator.fit("visits", "age ~ ward", share=0.1).interval(),
}


def declared() -> dict[str, int]:
    """Return the methods of protocols and abstract classes, with their lowest layers."""
    found: dict[str, int] = {}
    for module in modules():
        for kind in vars(module).values():
            if not isinstance(kind, type) or kind.__module__ != module.__name__:
                continue
            if getattr(kind, "_is_protocol", False) or getattr(kind, "__abstractmethods__", ()):
                height = HEIGHTS[module.__name__.split(".")[1]]
                found |= {name: min(height, found.get(name, height)) for name in vars(kind)}
    return found


def height_of(frame: FrameType | None) -> int | None:
    """Return the layer of a frame, or None outside the layers of confide."""
    name = frame.f_globals.get("__name__", "") if frame is not None else ""
    if not name.startswith("confide.") or name in PASSED_THROUGH:
        return None
    return HEIGHTS[name.split(".")[1]]


def calls_up(work: Callable[[], object], allowed: dict[str, int]) -> Counter[str]:
    """Return the upward calls while ``work`` runs, except for methods declared in a lower layer."""
    found: Counter[str] = Counter()

    def look(frame: FrameType, event: str, _: Any) -> None:
        above = height_of(frame) if event == "call" else None
        if above is None or frame.f_code.co_name == "<module>":
            return
        caller = frame.f_back
        while caller is not None and height_of(caller) is None:
            if caller.f_globals.get("__name__") in PASSED_THROUGH:
                return
            caller = caller.f_back
        below = height_of(caller)
        is_up = below is not None and above > below
        if is_up and allowed.get(frame.f_code.co_name, above) > (below or 0):
            found[f"layer {below} calls {frame.f_code.co_qualname}"] += 1

    # Finalizers of other tests' objects would run within these calls.
    gc.disable()
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return found


@pytest.fixture(scope="module")
def curator() -> cf.Curator:
    """Return a curator of a small table."""
    rng = np.random.default_rng(0)
    rows = pa.table(
        {"pid": range(500), "age": rng.integers(0, 99, 500), "ward": rng.choice(["A", "B"], 500)}
    )
    table = cf.Table(
        "visits",
        rows,
        unit="pid",
        columns={"age": cf.Int(0, 99), "ward": cf.Category(["A", "B"])},
        unique=True,
    )
    return cf.Curator([table], budget=cf.Budget(100, 1e-6))


@pytest.mark.parametrize("name", ASKED)
def test_no_call_goes_up(name: str, curator: cf.Curator) -> None:
    """No operation makes a layer call something that only a higher layer knows."""
    assert Counter() == calls_up(lambda: ASKED[name](curator), declared())


def test_an_upward_call_is_detected(curator: cf.Curator) -> None:
    """Without the methods declared lower down, calls of the engine and the ledger are detected."""
    assert calls_up(lambda: ASKED["mean"](curator), {})
