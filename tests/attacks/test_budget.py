"""Attacks on the budget through the public interface: names, refusals, and refunds.

tests/crash and tests/contracts cover crashes, races, tampering, clocks, and full disks.
"""

from fractions import Fraction
from typing import Any, Final

import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import Budget, Int, Table
from confide.errors import BudgetExceeded, ConfideError
from support.neighbours import open_one

ROWS: Final = [{"who": person, "x": person % 7} for person in range(40)]
COUNT: Final = "SELECT COUNT(*) AS n FROM {}"


def declare(name: str) -> Table:
    return Table(name, pa.Table.from_pylist(ROWS), unit="who", columns={"x": Int(0, 9)})


def test_a_second_name_shares_the_budget() -> None:
    """Rows that are declared under two names are paid from one budget.

    Two curators with separate ledgers, of which neither knows the other, pay twice as much.
    """
    apart = [Curator([declare(name)], budget=Budget(1)) for name in ("first", "second")]
    for curator, name in zip(apart, ("first", "second"), strict=True):
        curator.sql(COUNT.format(name), share=1)
    assert 2 == sum(curator.budget.spent.share for curator in apart)

    both = Curator([declare("first"), declare("second")], budget=Budget(1))
    both.sql(COUNT.format("first"), share="3/4")
    with pytest.raises(BudgetExceeded):
        both.sql(COUNT.format("second"), share="3/4")
    assert Fraction(3, 4) == both.budget.spent.share


def ask_until_refused(rows: list[dict[str, Any]]) -> list[str]:
    """Return the outputs of a session that overspends, without numbers."""
    curator, told = open_one(rows, {"x": Int(0, 9)}, budget=Budget(1)), []
    texts = (COUNT.format("p"), "SELECT SUM(x) AS s FROM p", "SELECT MAX(x) AS m FROM p")
    for share in ("1/2", "1/3", "1/5", "1/6"):
        for text in texts:
            try:
                told.append(str(curator.sql(text, share=share, fresh=True).cost))
            except ConfideError as refusal:
                told.append(f"{type(refusal).__name__}: {refusal}")
    return told


def refund_small(rows: list[dict[str, Any]]) -> list[str]:
    """Return the outputs of a naive budget that refunds empty answers."""
    left, told = Fraction(1), []
    for least in (39, 38, 37):
        fits = left >= Fraction(1, 2)
        told.append("answered" if fits else "refused")
        left -= Fraction(1, 2) if fits and sum(row["who"] >= least for row in rows) else 0
    return told


def test_refusals_reveal_nothing_about_rows() -> None:
    """Two neighboring curators refuse the same queries with the same messages.

    If empty answers are refunded, the refusals reveal who is in the data.
    """
    without = ROWS[:-1]
    assert refund_small(ROWS) != refund_small(without)

    told = ask_until_refused(ROWS)
    assert told == ask_until_refused(without)
    assert any("BudgetExceeded" in line for line in told)
