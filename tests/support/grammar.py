"""Random queries on the worlds of support/people.py, all of which are supported."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

__all__ = [
    "CONDITIONS",
    "KEYS",
    "NUMBERS",
    "Words",
    "draw_quantiles",
    "draw_question",
    "draw_wanted",
    "pick",
]

NUMBERS: Final = (
    "age",
    "cost",
    "price",
    "age - 60",
    "cost / 7",
    "-price",
    "age * cost",
    "age % 7",
    "ABS(cost - 100)",
    "ROUND(cost, 1)",
    "ROUND(age, -1)",
    "FLOOR(cost / 10)",
    "CEIL(price)",
    "SQRT(age)",
    "LN(age + 1)",
    "EXP(price)",
    "LEAST(age, 30)",
    "LEAST(age, cost)",
    "GREATEST(price, age, 5)",
    "COALESCE(cost, -5)",
    "COALESCE(age, cost, 7)",
    "CASE WHEN smoker THEN age ELSE cost END",
    "CASE WHEN cost > 5 THEN 1 END",
    "YEAR(day)",
    "MONTH(day) * 10",
    "LENGTH(ward)",
    "CAST(age > 50 AS INT)",
    "CAST(cost AS INT)",
    "LEAST(GREATEST(cost / age, -3), 3)",
    "LEAST(GREATEST(CAST(words AS DOUBLE), 0), 9)",
)
CONDITIONS: Final = (
    "age > 40",
    "cost <= 100.5",
    "ward IN ('A', 'B')",
    "ward <> 'A' OR cost > 3",
    "smoker",
    "NOT smoker",
    "words LIKE 'a%'",
    "day >= DATE '2020-06-01'",
    "cost IS NULL",
    "place IS NOT NULL",
    "age BETWEEN 10 AND 70",
    "CAST(words AS DATE) IS NULL",
    "cost / age > 1",
    "LOWER(words) = SUBSTR(words, 1, 3)",
)
KEYS: Final = (
    "ward",
    "place",
    "smoker",
    "age % 3",
    "MONTH(day)",
    "COALESCE(ward, 'none')",
    "CASE WHEN age > 50 THEN 'old' ELSE 'young' END",
    "FLOOR(price / 3)",
)
LEVELS: Final = ("0.5", "0.9", "0.25", "0.01", "0.6", "0.999")
OF_NUMBERS: Final = ("SUM", "AVG", "VAR_SAMP", "STDDEV")


@dataclass(frozen=True, slots=True)
class Words:
    """The expressions available for the rows of a source."""

    numbers: tuple[str, ...] = NUMBERS
    conditions: tuple[str, ...] = CONDITIONS
    keys: tuple[str, ...] = KEYS
    others: tuple[str, ...] = ()

    def __or__(self, more: "Words") -> "Words":
        return Words(
            self.numbers + more.numbers,
            self.conditions + more.conditions,
            self.keys + more.keys,
            self.others + more.others,
        )


PLAIN: Final = Words(others=("ward", "words", "smoker"))


def draw_question(rng: np.random.Generator) -> str:
    """Return a random query, with ``world`` as its first key."""
    return draw_wanted(rng, PLAIN, "visits")


def draw_wanted(
    rng: np.random.Generator, words: Words, source: str, world: str = "world", unit: str = "pid"
) -> str:
    """Return a random query on a source, with its world as the first key."""
    keys = [str(key) for key in rng.choice(words.keys, size=int(rng.integers(0, 3)), replace=False)]
    if rng.random() < 0.15:
        wanted = [f"COUNT(DISTINCT {unit})"]
    else:
        wanted = [_draw_statistic(rng, words, unit) for _ in range(int(rng.integers(1, 4)))]
    named = [f"{statistic} AS s{place}" for place, statistic in enumerate(wanted)]
    shown = [world, *(f"{key} AS g{place}" for place, key in enumerate(keys)), *named]
    where = f" WHERE {pick(rng, words.conditions)}" if rng.random() < 0.4 else ""
    return f"SELECT {', '.join(shown)} FROM {source}{where} GROUP BY {', '.join([world, *keys])}"


def draw_quantiles(rng: np.random.Generator) -> str:
    """Return a random query of quantiles, some next to a count, with ``world`` as the first key."""
    keys = [str(key) for key in rng.choice(KEYS, size=int(rng.integers(0, 3)), replace=False)]
    named = [f"{_draw_quantile(rng)} AS s{place}" for place in range(int(rng.integers(1, 3)))]
    named += ["COUNT(*) AS n"] if rng.random() < 0.3 else []
    shown = ["world", *(f"{key} AS g{place}" for place, key in enumerate(keys)), *named]
    where = f" WHERE {pick(rng, CONDITIONS)}" if rng.random() < 0.3 else ""
    return f"SELECT {', '.join(shown)} FROM visits{where} GROUP BY {', '.join(['world', *keys])}"


def _draw_quantile(rng: np.random.Generator) -> str:
    text = f"QUANTILE_CONT({pick(rng, NUMBERS)}, {pick(rng, LEVELS)})"
    return f"{text} FILTER (WHERE {pick(rng, CONDITIONS)})" if rng.random() < 0.3 else text


def _draw_statistic(rng: np.random.Generator, words: Words, unit: str) -> str:
    kind = rng.random()
    if kind < 0.2:
        text = "COUNT(*)"
    elif kind < 0.3:
        text = f"COUNT(DISTINCT {unit})"
    elif kind < 0.45:
        text = f"COUNT({pick(rng, (*words.numbers, *words.others))})"
    else:
        text = f"{pick(rng, OF_NUMBERS)}({pick(rng, words.numbers)})"
    return f"{text} FILTER (WHERE {pick(rng, words.conditions)})" if rng.random() < 0.3 else text


def pick(rng: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(rng.integers(len(options)))]
