"""The common part of all engines: rows become totals by group."""

from decimal import Decimal

from confide.engines.sql.engine import sum_groups


def test_groups_that_come_in_parts_are_added_up() -> None:
    """Totals of equal keys are added up, whatever types the driver returns and however large."""
    rows = [("a", 1, 2**70), ("b", None, Decimal(5)), ("a", 2, Decimal(2**70)), (None, 4, -1)]
    expected = {("a",): (3, 2**71), ("b",): (0, 5), (None,): (4, -1)}

    assert expected == sum_groups(rows, 1)


def test_groups_may_lack_keys_totals_or_rows() -> None:
    """Without keys there is one group, without totals there are empty ones, without rows none."""
    assert {(): (3, 0)} == sum_groups([(3, None)], 0)
    assert {("a",): (), ("b",): ()} == sum_groups([("a",), ("b",)], 1)
    assert {} == sum_groups([], 1)
