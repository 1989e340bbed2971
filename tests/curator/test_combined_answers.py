"""Combinations of several answers to one query."""

from fractions import Fraction
from math import sqrt
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

import confide as cf
from confide.declare import Limits
from support.laws import ALPHA, binomial_p

COUNT: Final = "SELECT g, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m FROM t GROUP BY g"
ROWS: Final = pa.table({"who": list(range(90)), "x": [0.5, 1.0] * 45, "g": ["a", "b", "c"] * 30})
PLAIN: Final = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
GAUSSIAN: Final = cf.Budget(1, 1e-6)


def open_curator(budget: cf.Budget = GAUSSIAN, **more: Any) -> cf.Curator:
    """Return a curator of ninety people in three groups."""
    group = cf.Category(["a", "b", "c"])
    columns: dict[str, cf.Float | cf.Category] = {"x": cf.Float(0, 1), "g": group}
    table = cf.Table("t", ROWS, unit="who", columns=columns)
    return cf.Curator([table], budget=budget, **more)


def ask(curator: cf.Curator, share: str, text: str = COUNT) -> cf.Answer:
    return curator.sql(text, share=share, fresh=True)


def widths(answer: cf.Answer, name: str = "n") -> list[float]:
    ends = answer.interval_rows()
    return [row[f"{name}_high"] - row[f"{name}_low"] for row in ends]


def test_one_answer_is_its_own_combination() -> None:
    """The combination of a single stored answer equals that answer, at no cost."""
    answer = ask(open_curator(), "1%")
    combined = answer.combined()

    assert answer.rows == combined.rows
    assert answer.interval_rows() == combined.interval_rows()
    assert (Fraction(0), True) == (combined.cost.share, combined.reused)


def test_equal_answers_weigh_the_same() -> None:
    """Four answers of equal shares combine to the mean of their totals, with half the width."""
    curator = open_curator()
    answers = [ask(curator, "1%") for _ in range(4)]
    combined = answers[0].combined()
    values = np.mean([answer.totals.values(answer.plan) for answer in answers], axis=0)

    assert np.allclose(values, combined.totals.values(combined.plan))
    for single, joint in zip(widths(answers[0]), widths(combined), strict=True):
        assert joint == pytest.approx(single / 2, rel=0.03)
    assert "24/25" == str(curator.budget.left.share)


@pytest.mark.parametrize("budget", [GAUSSIAN, cf.Budget(1)], ids=["gaussian", "pure"])
def test_precise_answers_weigh_more(budget: cf.Budget) -> None:
    """Weights are inverse variances: 1% and 4% weigh 1 : 4 under mu^2, 1 : 16 under epsilon."""
    curator = open_curator(budget)
    small, large = ask(curator, "1%"), ask(curator, "4%")
    combined = large.combined()
    power = 1 if budget.delta else 2
    weight = 4**power / (1 + 4**power)
    first, second = (one.totals.values(one.plan) for one in (small, large))

    assert np.allclose(
        weight * second + (1 - weight) * first,
        combined.totals.values(combined.plan),
        atol=0.01 * float(np.abs(second - first).max()),
    )
    joint, single = widths(combined)[0], widths(large)[0]
    assert joint < single
    if budget.delta:
        assert joint == pytest.approx(single * sqrt(weight), rel=0.03)


def test_everything_is_computed_from_the_combination() -> None:
    """Means, sums, and their intervals come from the combined totals, and become narrower.

    The budget is so large that no interval of a mean reaches the ends of the declared range.
    """
    curator = open_curator(cf.Budget(2_000, 1e-6))
    answers = [ask(curator, "1%") for _ in range(9)]
    combined = answers[-1].combined()

    for name in ("n", "s", "m"):
        assert sum(widths(combined, name)) < 0.9 * sum(widths(answers[-1], name))
    assert ["a", "b", "c"] == [row["g"] for row in combined.rows]


@pytest.mark.statistical
@pytest.mark.parametrize("budget", [GAUSSIAN, cf.Budget(1)], ids=["gaussian", "pure"])
def test_intervals_of_combinations_cover(budget: cf.Budget) -> None:
    """95% intervals of three unequal answers cover the true value that often; 50% ones do not.

    Correct intervals fail with probability at most ALPHA, since the groups' noise is independent.
    """
    curator, inside, narrower = open_curator(budget), 0, 0
    for number in range(100):
        # A budget has room for the answers of 16 analysts, which are not shared.
        curator = curator if number % 16 else open_curator(budget)
        analyst = curator.as_analyst(f"ana{number}")
        answers = [ask(analyst, share, PLAIN) for share in ("1%", "2%", "3%")]
        combined = answers[-1].combined()
        for row, narrow in zip(combined.interval_rows(), combined.interval_rows(0.5), strict=True):
            inside += row["n_low"] <= 30 <= row["n_high"]
            narrower += narrow["n_low"] <= 30 <= narrow["n_high"]

    assert binomial_p(inside, 300, 0.95) > ALPHA
    assert binomial_p(narrower, 300, 0.95) < ALPHA


def test_only_free_answers_are_combined() -> None:
    """Other analysts' answers are combined only if the owner shares them."""
    for reuse, parts in (("own", 1), ("all", 3)):
        curator = open_curator(limits=Limits(reuse=reuse))
        names = ("ana", "bob", "eve")
        *_, answer = [ask(curator.as_analyst(name), "1%") for name in names]

        assert widths(answer.combined())[0] == pytest.approx(
            widths(answer)[0] / sqrt(parts), rel=0.03
        )


def test_a_choice_of_keys_cannot_be_combined() -> None:
    """Chosen keys have no numbers to combine."""
    answer = ask(open_curator(), "1%", "SELECT g FROM t GROUP BY g ORDER BY COUNT(*) DESC LIMIT 1")
    with pytest.raises(cf.UnsupportedQuery, match="selected keys"):
        answer.combined()
