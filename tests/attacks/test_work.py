"""Attacks by work: a query that takes long only if one person is in the data.

An allowed query takes an engine a few steps per character of a value, for any value. Patterns are
the one kind of expression that a naive engine matches repeatedly.
"""

import re
from itertools import count
from threading import Thread
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import Table, Text
from confide.errors import Refusal, UnsupportedQuery
from confide.expressions.construct import normalize_pattern
from support.entropy import SeededEntropy
from support.neighbours import LARGE_BUDGET, totals_of
from support.places import PLACES, Place, find_place

PATTERNS: Final = 16
TEXTS: Final = 150
LONG: Final = "a" * 2_000
TIMEOUT: Final = 300
"""A timeout in seconds; a naive engine would need more steps than a year has nanoseconds."""


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    """Return a place for the rows of each engine, in turn."""
    return find_place(request.param, request)


def open_texts(texts: list[str], place: Place) -> Curator:
    """Return a curator over people with one string each, in an engine."""
    rows = pa.table({"who": list(range(len(texts))), "t": texts})
    table = Table("p", rows, unit="who", columns={"t": Text()}, unique=True)
    return Curator(place.move([table]), budget=LARGE_BUDGET)


def count_matches(patterns: list[str]) -> str:
    """Return a query that counts the matching strings of each pattern."""
    counts = (
        f"COUNT(*) FILTER (WHERE t LIKE '{pattern}') AS n{place}"
        for place, pattern in enumerate(patterns)
    )
    return f"SELECT {', '.join(counts)} FROM p"


def match_plainly(pattern: str, text: str) -> bool:
    """Return whether a string matches, by the definition of LIKE."""
    spelled = {"%": ".*", "_": "."}
    return bool(re.fullmatch("".join(spelled.get(c, re.escape(c)) for c in pattern), text, re.S))


def count_steps(pattern: str, text: str) -> int:
    """Return the number of calls in which a textbook matcher finds that a string does not match."""
    steps = count(1)

    def match(p: int, t: int) -> bool:
        next(steps)
        if p == len(pattern):
            return t == len(text)
        if pattern[p] == "%":
            return any(match(p + 1, rest) for rest in range(t, len(text) + 1))
        return t < len(text) and pattern[p] in ("_", text[t]) and match(p + 1, t + 1)

    assert not match(0, 0)
    return next(steps) - 1


def test_patterns_mean_the_same_everywhere(place: Place, entropy: SeededEntropy) -> None:
    """On every engine, a LIKE counts the strings that its definition counts, including newlines."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))

    def draw(letters: str, most: int) -> str:
        return "".join(rng.choice(list(letters), size=int(rng.integers(0, most))))

    drawn = (draw("ab.%%_", 9) for _ in range(PATTERNS))
    patterns = list({normalize_pattern(pattern): pattern for pattern in drawn}.values())
    texts = [draw("ab.\n\\%é", 12) for _ in range(TEXTS)]
    (found,) = totals_of(open_texts(texts, place), count_matches(patterns)).values()

    assert tuple(sum(match_plainly(p, text) for text in texts) for p in patterns) == found
    assert 4 < sum(0 < matches < TEXTS for matches in found)


def test_no_string_keeps_an_engine_busy(place: Place) -> None:
    """A pattern of twelve parts finishes soon on a long string of one person that nearly matches.

    The textbook's matcher takes at least 2^11 times as many steps for a string twice as long.
    """
    short = [count_steps("%a" * 3 + "%b", "a" * size) for size in (20, 40)]
    assert short[1] > 2**3 * short[0]

    told: list[Any] = []
    curator = open_texts([LONG, "b"], place)
    text = count_matches(["%a" * 12 + "%b", "%a_" * 12 + "%b", "a%" * 12 + "b"])
    asked = Thread(target=lambda: told.append(totals_of(curator, text)), daemon=True)
    asked.start()
    asked.join(TIMEOUT)

    assert [{(): (0, 0, 0)}] == told


def count_comparisons(pattern: str, text: str) -> int:
    """Return the number of comparisons of a matcher that tries each part at every position."""
    first, *parts = pattern.split("%")
    compared, start = len(first), len(first)
    for part in parts:
        for place in range(start, len(text) + 1):
            reached = 0
            for here, there in zip(part, text[place:], strict=False):
                compared += 1
                if here not in ("_", there):
                    break
                reached += 1
            if reached == len(part):
                start = place + len(part)
                break
        else:
            break
    return compared


@pytest.mark.parametrize("pattern", ["%" + "_" * 11 + "b%", "%_%____b%", "_" * 11 + "%__b__%"])
def test_wildcards_are_compared_once(pattern: str) -> None:
    """A string that does not match is scanned once per part, for any number of underscores."""
    naive, ours = (count_comparisons(one, LONG) for one in (pattern, normalize_pattern(pattern)))

    assert ours <= len(LONG) + len(pattern)
    assert naive > 2 * len(LONG)


def test_patterns_keep_their_meaning(entropy: SeededEntropy) -> None:
    """A pattern as sent to engines matches the strings that the analyst's pattern matches."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    texts = ["".join(rng.choice(list("ab"), size=int(rng.integers(0, 9)))) for _ in range(60)]
    for _ in range(300):
        pattern = "".join(rng.choice(list("a%_"), size=int(rng.integers(0, 9))))
        written = normalize_pattern(pattern)

        assert [match_plainly(pattern, t) for t in texts] == [
            match_plainly(written, t) for t in texts
        ]
        assert written == normalize_pattern(written)


@pytest.mark.parametrize("pattern", ["%a_____b%", "%a_____", "%a_%a_____b"])
def test_many_wildcards_within_a_part_are_refused(pattern: str) -> None:
    """A part with five underscores, which would be compared repeatedly, is refused for free."""
    with pytest.raises(UnsupportedQuery, match="at most 4 `_`"):
        normalize_pattern(pattern)
    assert pattern.replace("_____", "____").count("_") == normalize_pattern(
        pattern.replace("_____", "____")
    ).count("_")


SLEEPS: Final = ("SLEEP(5)", "PG_SLEEP(5)", "REPEAT(t, 1000000)", "REGEXP_MATCHES(t, '(a+)+b')")


@pytest.mark.parametrize("expression", SLEEPS)
def test_functions_that_only_take_time_are_refused(expression: str) -> None:
    """Functions that sleep, enlarge strings, or backtrack in regular expressions are refused."""
    curator = Curator(
        [Table("p", pa.table({"who": [1], "t": ["a"]}), unit="who", columns={"t": Text()})],
        budget=LARGE_BUDGET,
    )
    for text in (
        f"SELECT COUNT(*) AS n FROM p WHERE {expression} IS NULL",
        f"SELECT COUNT(*) AS n FROM p WHERE t = 'a' AND {expression} IS NOT NULL",
    ):
        with pytest.raises(Refusal):
            curator.sql(text, epsilon=1)
