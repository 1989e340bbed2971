import math
from fractions import Fraction

import pytest

from confide.errors import BadDeclaration
from confide.loss import (
    ApproximateLoss,
    BoundedRangeLoss,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PureLoss,
    RenyiLoss,
    Unpriceable,
    compose,
    group,
)


@pytest.mark.parametrize(
    ("expected", "loss"),
    [
        (PureLoss(3), PureLoss(1)),
        (BoundedRangeLoss(3), BoundedRangeLoss(1)),
        (GaussianLoss(9), GaussianLoss(1)),
        (LaplaceLoss(3, 15), LaplaceLoss(1, 5)),
        (compose([PureLoss(3), GaussianLoss(9)]), compose([PureLoss(1), GaussianLoss(1)])),
        (compose([]), compose([])),
    ],
)
def test_three_people_face_three_times_the_distance(expected: Loss, loss: Loss) -> None:
    """The loss of each kind for three units is that of three times the distance."""
    assert expected == group(loss, 3)


def test_one_person_is_no_group() -> None:
    """A group of one unit has the loss of the unit."""
    assert RenyiLoss(2, 1) == group(RenyiLoss(2, 1), 1)


def test_failures_grow_with_the_group() -> None:
    """Three units have failure (e^(3 epsilon) - 1) / (e^epsilon - 1), rounded up."""
    found = group(ApproximateLoss(PureLoss(Fraction(1, 10)), Fraction(1, 10**9)), 3)
    expected = 1e-9 * math.expm1(0.3) / math.expm1(0.1)

    assert PureLoss(Fraction(3, 10)) == found.core
    assert pytest.approx(expected, rel=1e-14) == float(found.failure)


@pytest.mark.parametrize(
    "loss",
    [
        RenyiLoss(2, 1),
        ApproximateLoss(GaussianLoss(1), 1e-9),
        ApproximateLoss(PureLoss(9), 1e-3),
    ],
)
def test_what_is_not_known_about_groups_is_refused(loss: Loss) -> None:
    """A loss without a useful bound for groups raises Unpriceable."""
    with pytest.raises(Unpriceable):
        group(loss, 2)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2", None])
def test_a_bad_group_is_named(bad: int) -> None:
    """A group size that is not a positive integer raises an error that names it."""
    with pytest.raises(BadDeclaration, match="`size` must be"):
        group(PureLoss(1), bad)
