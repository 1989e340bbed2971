"""What an owner may set as the time of a statement, and that all of it can be waited for."""

from threading import TIMEOUT_MAX, Event

import pytest

from confide.engines.duckdb.timeouts import Watcher
from confide.engines.protocol import MAX_SECONDS, read_seconds
from confide.errors import BadDeclaration


class Told:
    """A connection that says when it was interrupted."""

    def __init__(self) -> None:
        self.text = Event()

    def interrupt(self) -> None:
        self.text.set()


def test_the_longest_time_can_be_waited_for() -> None:
    """A watcher that waits for the longest time still ends what takes too long meanwhile."""
    watcher, late = Watcher(), Told()
    longest = read_seconds("TIME", str(MAX_SECONDS))
    with watcher.watched(Told(), longest), watcher.watched(late, 0.01):
        assert late.text.wait(60)

    assert longest < TIMEOUT_MAX


@pytest.mark.parametrize("text", [str(MAX_SECONDS + 1), "99999999999", "9" * 5_000])
def test_a_longer_time_is_refused_with_the_longest(text: str) -> None:
    """The message names the setting and the greatest value, and does not repeat pages of digits."""
    with pytest.raises(
        BadDeclaration, match=rf"^TIME must be .* from 1 to {MAX_SECONDS},"
    ) as caught:
        read_seconds("TIME", text)

    assert len(str(caught.value)) < 200
