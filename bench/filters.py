"""Speed of filters over 10**6 sequential grants, and whether it stays constant."""

import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

from confide.loss import Filter, GaussianLoss, PureLoss, Share, auto_filter

REQUESTS = 10**6
PRICED = 10**5
BRIEF = 10**3
MAX_GROWTH = 2.0


def grant_all(start: Filter, share: Share, times: int) -> Filter:
    """Grant the same share repeatedly."""
    for _ in range(times):
        start = start.grant(share)
    return start


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds that a function takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure(accounting: str) -> float:
    """Print the speed of one filter and return the time of its last tenth relative to its first."""
    start = auto_filter(1, "1e-6", accounting)
    share, tenth = Share.floor(Fraction(1, REQUESTS)), REQUESTS // 10
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        start = grant_all(start, share, tenth)
        times.append(time.perf_counter() - begin)
    loss = PureLoss("1e-9") if accounting == "pure" else GaussianLoss("1e-9")
    priced = seconds(lambda: [start.price(loss) for _ in range(PRICED)]) / PRICED
    print(
        f"{accounting:9} {REQUESTS:,} grants {sum(times):5.2f} s, last tenth / first tenth "
        f"{times[-1] / times[0]:4.2f}, one price {priced * 1e6:5.1f} us"
    )
    return times[-1] / times[0]


def time_grant(accounting: str) -> float:
    """Return the seconds of one grant, in the fastest of several runs."""
    start, share = auto_filter(1, "1e-6", accounting), Share.floor(Fraction(1, REQUESTS))
    return min(seconds(partial(grant_all, start, share, BRIEF)) for _ in range(20)) / BRIEF


def time_price(accounting: str) -> float:
    """Return the seconds of one price, in the fastest of several runs."""
    start = auto_filter(1, "1e-6", accounting)
    loss = PureLoss("1e-9") if accounting == "pure" else GaussianLoss("1e-9")
    return (
        min(seconds(lambda: [start.price(loss) for _ in range(BRIEF)]) for _ in range(20)) / BRIEF
    )


def figures() -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield the figures for `compare.py`: the seconds of one grant and of one price."""
    for accounting in ("pure", "gaussian", "renyi"):
        yield f"{accounting}: a grant", partial(time_grant, accounting)
        yield f"{accounting}: a price", partial(time_price, accounting)


if __name__ == "__main__":
    growth = [measure(accounting) for accounting in ("pure", "gaussian", "renyi")]
    if max(growth) > MAX_GROWTH:
        sys.exit("the cost of a grant grows with the number of grants before it")
