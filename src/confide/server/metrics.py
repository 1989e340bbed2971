"""Metrics for `/metrics`: requests, refusals, answers, and running queries, never data."""

import os
import threading
from collections import Counter
from typing import Final

__all__ = ["Metrics"]

HELP: Final = {
    "confide_requests_total": "Requests by route and status.",
    "confide_refusals_total": "Refusals by error code.",
    "confide_answers_total": "Answers, new or reused.",
}


class Metrics:
    """The counters of one worker.

    # Privacy: a label is a route, a status, an error code, yes or no, or a process id. There are no
    # durations, because they depend on rows.
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._lock = threading.Lock()

    def add(self, name: str, **labels: str) -> None:
        """Increment a counter."""
        with self._lock:
            self._counts[name, tuple(sorted(labels.items()))] += 1

    def text(self, busy: int) -> str:
        """Return all counters, and the number of running queries, in the Prometheus format."""
        worker = ("worker", str(os.getpid()))
        with self._lock:
            counts = sorted(self._counts.items())
        lines: list[str] = []
        for name, meaning in HELP.items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} counter"]
            lines += [
                f"{name}{_labels((*labels, worker))} {count}"
                for (counter, labels), count in counts
                if counter == name
            ]
        lines += [
            "# HELP confide_running_queries Running queries.",
            "# TYPE confide_running_queries gauge",
            f"confide_running_queries{_labels((worker,))} {busy}",
        ]
        return "\n".join(lines) + "\n"


def _labels(pairs: tuple[tuple[str, str], ...]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in pairs) + "}"
