"""A clock for rate limits that only tests advance."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

__all__ = ["RateClock", "stop_rate_clock"]


@dataclass(slots=True)
class RateClock:
    """The time in seconds since 1970, as rate limits read it."""

    time: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


def stop_rate_clock(patch: pytest.MonkeyPatch) -> RateClock:
    """Replace the clock of rate limits, and return the new one.

    With the real clock, a machine that needs a minute for a few requests would never reach a limit.
    """
    clock = RateClock()
    patch.setattr("limits.storage.memory.time", SimpleNamespace(time=clock))
    return clock
