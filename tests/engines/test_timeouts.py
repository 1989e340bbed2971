"""Time limits of statements are validated, and even the longest can be waited for."""

from threading import TIMEOUT_MAX, Event

import pytest

from confide.engines.duckdb.timeouts import Watcher
from confide.engines.protocol import MAX_SECONDS, read_seconds
from confide.errors import BadDeclaration


class RecordingConnection:
    """A connection that records when it was interrupted."""

    def __init__(self) -> None:
        self.text = Event()

    def interrupt(self) -> None:
        self.text.set()


def test_the_longest_time_can_be_waited_for() -> None:
    """A watcher that waits for the longest time still interrupts a shorter statement."""
    watcher, late = Watcher(), RecordingConnection()
    longest = read_seconds("TIME", str(MAX_SECONDS))
    with watcher.watched(RecordingConnection(), longest), watcher.watched(late, 0.01):
        assert late.text.wait(60)

    assert longest < TIMEOUT_MAX


@pytest.mark.parametrize("text", [str(MAX_SECONDS + 1), "99999999999", "9" * 5_000])
def test_a_longer_time_is_refused_with_the_longest(text: str) -> None:
    """The message names the setting and the maximum, without repeating pages of digits."""
    with pytest.raises(
        BadDeclaration, match=rf"^`TIME` must be .* from 1 to {MAX_SECONDS},"
    ) as caught:
        read_seconds("TIME", text)

    assert len(str(caught.value)) < 200
