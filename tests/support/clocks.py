"""A clock for rate limits that stands still until a test moves it."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

__all__ = ["RateClock", "stop_rate_clock"]


@dataclass(slots=True)
class RateClock:
    """Seconds since 1970, as rate limits read them."""

    time: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


def stop_rate_clock(patch: pytest.MonkeyPatch) -> RateClock:
    """Return the clock that rate limits read from now on.

    Without it, a machine that needs a minute for a few requests would never reach a limit.
    """
    clock = RateClock()
    patch.setattr("limits.storage.memory.time", SimpleNamespace(time=clock))
    return clock
