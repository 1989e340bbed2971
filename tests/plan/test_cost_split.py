"""One cost is split among queries, and among the columns of one query."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.execution.batch import allocate
from confide.loss import UNITS, GaussianLoss, Loss, PureLoss, RenyiLoss, Share
from confide.plan.calibration import split_loss

errors = st.lists(
    st.one_of(st.none(), st.just(0.0), st.floats(1e-6, 1e12)), min_size=1, max_size=12
)
totals = st.integers(10**9, UNITS).map(Share)
powers = st.sampled_from([1, 2])


def weighted_error(
    errors: Sequence[float | None], equal: Share, shares: Sequence[Share], power: int
) -> float:
    """Return the sum of the known errors of equal shares, rescaled to other shares."""
    pairs = zip(errors, shares, strict=True)
    return sum(
        error * float(Fraction(equal.units, share.units)) ** power
        for error, share in pairs
        if error is not None
    )


@given(errors=errors, total=totals, power=powers)
def test_shares_never_add_up_to_more_than_the_whole(
    errors: list[float | None], total: Share, power: int
) -> None:
    """Every query gets a share, and together they take at most what was granted."""
    shares = allocate(errors, total, power)

    assert len(errors) == len(shares)
    assert all(share.units > 0 for share in shares)
    assert sum(share.units for share in shares) <= total.units


@given(errors=errors, total=totals, power=powers)
def test_the_split_is_at_least_as_good_as_equal_shares(
    errors: list[float | None], total: Share, power: int
) -> None:
    """The sum of weighted squared errors is at most that under equal shares."""
    equal = Share(total.units // len(errors))
    shares = allocate(errors, total, power)
    even = [equal] * len(errors)

    before = weighted_error(errors, equal, even, power)

    assert weighted_error(errors, equal, shares, power) <= before * (1 + 1e-6)


@given(
    errors=st.lists(st.floats(0.01, 100.0), min_size=2, max_size=6),
    total=totals,
    power=powers,
    pair=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    moved=st.integers(1, 50),
)
def test_a_transfer_between_queries_raises_the_sum(
    errors: list[float], total: Share, power: int, pair: tuple[int, int], moved: int
) -> None:
    """No small transfer between two queries lowers the sum, so the split is a minimum."""
    shares = list(allocate(errors, total, power))
    one, other = pair[0] % len(errors), pair[1] % len(errors)
    part = shares[one].units * moved // 100
    changed = list(shares)
    changed[one] -= Share(part)
    changed[other] += Share(part)
    equal = Share(total.units // len(errors))

    best = weighted_error(errors, equal, shares, power)

    assert best <= weighted_error(errors, equal, changed, power) * (1 + 1e-6)


def test_shares_follow_the_cube_root_or_the_square_root_of_errors() -> None:
    """Errors 1 : 64 get shares 1 : 4 if they fall as 1/s^2, and 1 : 8 if they fall as 1/s."""
    total = Share.floor(Fraction(9, 10))

    cube, square = (allocate([1.0, 64.0], total, power) for power in (2, 1))

    assert Fraction(4) == Fraction(cube[1].units, cube[0].units).limit_denominator(1000)
    assert Fraction(8) == Fraction(square[1].units, square[0].units).limit_denominator(1000)


@given(
    totals=st.integers(0, 20),
    levels=st.lists(st.fractions(Fraction(1, 1_000), Fraction(999, 1_000)), max_size=8),
    granted=st.sampled_from([PureLoss(1), GaussianLoss(Fraction(1, 9)), RenyiLoss(8, 1)]),
)
def test_fractions_of_columns_add_up_to_one(
    totals: int, levels: list[Fraction], granted: Loss
) -> None:
    """Fractions are positive and add up to exactly 1; without columns, nothing is split."""
    part, parts = split_loss(totals, levels, granted)

    assert bool(totals) == bool(part)
    assert all(one > 0 for one in parts)
    assert bool(totals or levels) == part + sum(parts)


@pytest.mark.parametrize(("granted", "power"), [(PureLoss(1), 1), (GaussianLoss(1), 0.5)])
def test_two_quantiles_are_equally_accurate_beyond_their_levels(
    granted: Loss, power: float
) -> None:
    """Two quantiles have equal errors relative to the rows beyond their levels."""
    levels = [Fraction(1, 2), Fraction(3, 5), Fraction(1, 4)]
    _, parts = split_loss(0, levels, granted)
    errors = [
        float(max(level, 1 - level) / min(level, 1 - level)) / float(part) ** power
        for level, part in zip(levels, parts, strict=True)
    ]

    assert max(errors) == pytest.approx(min(errors))
