"""Counters for `/metrics`: requests and refusals, never data or time."""

import os
import threading
from collections import Counter
from typing import Final

__all__ = ["Metrics"]

HELP: Final = {
    "confide_requests_total": "requests by route and status",
    "confide_refusals_total": "refusals by code",
    "confide_answers_total": "answers, new or asked before",
}


class Metrics:
    """Counters of one worker.

    # Privacy: a label is a route, a status, a code or yes/no; how long answers take is not here,
    # since that depends on rows.
    """

    def __init__(self) -> None:
        self._counted: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._lock = threading.Lock()

    def add(self, name: str, **labels: str) -> None:
        """Count one more."""
        with self._lock:
            self._counted[name, tuple(sorted(labels.items()))] += 1

    def text(self, busy: int) -> str:
        """Return everything in the text format of Prometheus."""
        worker = ("worker", str(os.getpid()))
        with self._lock:
            counted = sorted(self._counted.items())
        lines: list[str] = []
        for name, meaning in HELP.items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} counter"]
            lines += [
                f"{name}{_labels((*labels, worker))} {count}"
                for (counter, labels), count in counted
                if counter == name
            ]
        lines += [
            "# HELP confide_questions_busy questions that are being answered",
            "# TYPE confide_questions_busy gauge",
            f"confide_questions_busy{_labels((worker,))} {busy}",
        ]
        return "\n".join(lines) + "\n"


def _labels(pairs: tuple[tuple[str, str], ...]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in pairs) + "}"
