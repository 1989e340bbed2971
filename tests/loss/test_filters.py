import math
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import BadDeclaration, BudgetExceeded, Refusal
from confide.loss import (
    UNITS,
    ApproximateLoss,
    BoundedRangeLoss,
    Filter,
    GaussianFilter,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PureFilter,
    PureLoss,
    RenyiFilter,
    RenyiLoss,
    Share,
    Unpriceable,
    auto_filter,
    compose,
    repeat,
)

FILTERS: list[Filter] = [
    PureFilter(Fraction(2), Fraction(1, 10**6)),
    GaussianFilter(Fraction(2), Fraction(1, 10**6), Fraction(1, 10**7)),
    RenyiFilter(Fraction(2), Fraction(1, 10**6), None, Fraction(1, 10**7)),
]
SHARES = st.lists(st.integers(1, UNITS // 3).map(Share), max_size=12)
LOSSES = st.builds(
    lambda kind, size: kind(size),
    st.sampled_from([PureLoss, BoundedRangeLoss, lambda size: LaplaceLoss(size, 3)]),
    st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(1, 50), max_denominator=1000),
)
each_filter = pytest.mark.parametrize("start", FILTERS, ids=lambda f: type(f).__name__)


def serve(start: Filter, shares: list[Share]) -> Filter:
    for share in shares:
        with suppress(BudgetExceeded):
            start = start.grant(share)
    return start


@each_filter
@given(shares=SHARES)
def test_nothing_ever_passes_the_total(start: Filter, shares: list[Share]) -> None:
    """A filter may refuse any request, but its grants never add up to more than the total."""
    end = serve(start, shares)

    assert end.spent.units <= UNITS
    assert end.left == Share(UNITS) - end.spent


@each_filter
@given(shares=SHARES, order=st.randoms())
def test_the_order_of_grants_does_not_matter(
    start: Filter, shares: list[Share], order: object
) -> None:
    """The same grants in another order lead to an equal filter."""
    fitting = [share for share in shares if share.units <= UNITS // 12]
    mixed = list(fitting)
    order.shuffle(mixed)  # type: ignore[attr-defined]

    assert serve(start, fitting) == serve(start, mixed)
    assert hash(serve(start, fitting)) == hash(serve(start, mixed))


@each_filter
@given(units=st.integers(1, UNITS // 50), n=st.integers(1, 50))
def test_n_at_once_is_n_one_by_one(start: Filter, units: int, n: int) -> None:
    """One grant of n shares leaves the same filter as n grants of one share."""
    assert start.grant(Share(n * units)) == serve(start, [Share(units)] * n)


@each_filter
@given(loss=LOSSES, n=st.integers(1, 40))
def test_a_batch_never_costs_more_than_its_parts(start: Filter, loss: Loss, n: int) -> None:
    """n uses priced at once cost at most n single prices, and differ by rounding only."""
    single, batch = start.price(loss)[0], start.price(repeat(loss, n))[0]

    assert n * single.units - n < batch.units <= n * single.units


@each_filter
@given(loss=LOSSES, more=LOSSES)
def test_more_is_never_cheaper(start: Filter, loss: Loss, more: Loss) -> None:
    """Two losses cost at least as much as each costs alone."""
    assert start.price(compose([loss, more]))[0] >= max(start.price(loss)[0], start.price(more)[0])


@each_filter
@given(share=st.integers(1, UNITS).map(Share))
def test_the_loss_of_a_share_costs_that_share(start: Filter, share: Share) -> None:
    """The loss that a share allows is priced at exactly that share."""
    assert (share, Fraction(0)) == start.price(start.loss_of(share))


@each_filter
def test_the_whole_budget_keeps_the_guarantee(start: Filter) -> None:
    """All shares together have at most the guaranteed epsilon at the delta not set aside."""
    everything, rest = start.loss_of(Share(UNITS)), start.delta - start.delta_pot

    assert everything.delta_above(start.epsilon) <= rest * (1 + Fraction(1, 2**60))


@each_filter
def test_a_refusal_changes_nothing(start: Filter) -> None:
    """A refusal leaves the filter unchanged and reports the requested and the remaining budget."""
    half = start.grant(Share.floor("50%"))
    before = repr(half)
    with pytest.raises(
        BudgetExceeded, match=r"50\.0001% of the budget, but only 50% is left"
    ) as refused:
        half.grant(Share(UNITS // 2 + UNITS // 10**6))

    assert before == repr(half)
    assert Fraction(1, 2) == refused.value.left < refused.value.cost


@each_filter
def test_refusals_round_against_the_caller(start: Filter) -> None:
    """A displayed cost is never below the exact one, and a displayed remainder never above it."""
    full = start.grant(Share(UNITS - 1))
    with pytest.raises(
        BudgetExceeded, match=r"would cost 4.47466E-17% .* only 2.23732E-17% is left"
    ):
        full.grant(Share(2))


@each_filter
def test_failures_are_paid_from_their_pot(start: Filter) -> None:
    """A failure is priced at its own delta, granted until the pot is empty, and then refused."""
    share, delta = start.price(ApproximateLoss(PureLoss(Fraction(1, 100)), start.delta_pot / 2))
    spent = start.grant(share, delta).grant(share, delta)

    assert 0 == spent.delta_left
    with pytest.raises(BudgetExceeded, match="of the delta for failures"):
        spent.grant(share, Fraction(1, 10**30))


@each_filter
def test_no_delta_is_ever_refunded(start: Filter) -> None:
    """A negative delta or share cannot be granted."""
    with pytest.raises(BadDeclaration, match="delta"):
        start.grant(Share(1), Fraction(-1, 10))
    with pytest.raises(BadDeclaration, match="`share` must be"):
        start.grant(-1)  # type: ignore[arg-type]


@each_filter
@pytest.mark.parametrize("k", [3, 7, 1999, 65_537])
def test_k_grants_of_one_kth_fit(start: Filter, k: int) -> None:
    """k requests of 1/k are all granted, and the next one is not."""
    share = Share.floor(Fraction(1, k))
    end = start
    for _ in range(k):
        end = end.grant(share)

    with pytest.raises(BudgetExceeded):
        end.grant(share)


@pytest.mark.slow
def test_a_million_grants_of_a_millionth_fit() -> None:
    """10**6 requests of 10**-6 are all granted, one after the other."""
    end, share = GaussianFilter(Fraction(1), Fraction(1, 10**6)), Share.floor(1e-6)
    for _ in range(10**6):
        end = end.grant(share)

    assert Share(0) == end.left


def test_a_filter_is_restored_from_what_is_spent() -> None:
    """A filter built from stored spending equals the one that spent it."""
    terms = (Fraction(1), Fraction(1, 10**6), Fraction(1, 10**7))
    spent = GaussianFilter(*terms).grant(Share(5), Fraction(1, 10**9))
    again = GaussianFilter(*terms, spent=Share(5), delta_spent=Fraction(1, 10**9))

    assert spent == again


def test_each_filter_pays_in_its_own_currency() -> None:
    """The canonical loss of a share is a fraction of the total, of the filter's own kind."""
    quarter = Share.floor(Fraction(1, 4))
    pure, gaussian, renyi = FILTERS

    assert PureLoss(Fraction(1, 2)) == pure.loss_of(quarter)
    assert GaussianLoss(gaussian.total / 4) == gaussian.loss_of(quarter)
    assert isinstance(renyi, RenyiFilter)
    assert RenyiLoss(renyi.alpha, renyi.total / 4) == renyi.loss_of(quarter)
    assert compose([]) == pure.loss_of(Share(0))


def test_the_gaussian_filter_allows_more_gaussian_answers() -> None:
    """At (1, 1e-6) the Renyi filter needs 7% more noise for the same share."""
    loss, terms = GaussianLoss(Fraction(1, 1000)), (Fraction(1), Fraction(1, 10**6))
    ratio = (
        RenyiFilter(*terms).price(loss)[0].fraction / GaussianFilter(*terms).price(loss)[0].fraction
    )

    assert 1.06 < math.sqrt(ratio) < 1.08


@pytest.mark.parametrize(
    ("start", "loss"),
    [
        (FILTERS[0], GaussianLoss(Fraction(1))),
        (FILTERS[0], RenyiLoss(Fraction(2), Fraction(1))),
        (FILTERS[1], RenyiLoss(Fraction(2), Fraction(1))),
        (FILTERS[2], RenyiLoss(Fraction(2), Fraction(1))),
        (FILTERS[0], compose([PureLoss(Fraction(1)), GaussianLoss(Fraction(1))])),
    ],
)
def test_what_a_filter_cannot_bound_is_refused(start: Filter, loss: Loss) -> None:
    """A loss without a bound in the filter's currency raises Unpriceable."""
    with pytest.raises(Unpriceable, match="cannot bound"):
        start.price(loss)
    assert issubclass(Unpriceable, Refusal)
    assert "unpriceable" == Unpriceable.code


def test_a_cost_beyond_all_budgets_is_refused() -> None:
    """A loss worth more than any number of units is priced above the whole budget."""
    share, _ = PureFilter(Fraction(1, 10**6)).price(PureLoss(Fraction(10**9)))

    with pytest.raises(BudgetExceeded):
        PureFilter(Fraction(1)).grant(share)


def test_auto_chooses_by_delta() -> None:
    """The filter is pure if delta is 0, Gaussian otherwise, or the one named."""
    assert PureFilter(Fraction(1)) == auto_filter(1)
    assert GaussianFilter(Fraction(1), Fraction(1, 10**6)) == auto_filter(1, 1e-6)
    assert isinstance(auto_filter(1, 1e-6, "pure"), PureFilter)
    assert isinstance(auto_filter(1, 1e-6, "renyi"), RenyiFilter)
    with pytest.raises(BadDeclaration, match="accounting"):
        auto_filter(1, 1e-6, "magic")


@pytest.mark.parametrize("kind", [PureFilter, GaussianFilter, RenyiFilter])
@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "x", None, True])
def test_a_bad_epsilon_is_named(kind: Callable[..., Filter], bad: object) -> None:
    """An epsilon that is not a finite number above 0 raises an error that names it."""
    with pytest.raises(BadDeclaration, match="`epsilon` must be"):
        kind(bad, 1e-6)


@pytest.mark.parametrize("kind", [PureFilter, GaussianFilter, RenyiFilter])
@pytest.mark.parametrize("bad", [1, -1e-9, 2, math.nan, math.inf, "x", None, True])
def test_a_bad_delta_is_named(kind: Callable[..., Filter], bad: object) -> None:
    """A delta outside [0, 1), or 0 if the accounting needs one, raises an error that names it."""
    with pytest.raises(BadDeclaration, match="`delta` must be"):
        kind(1, bad)


def test_bad_terms_are_named() -> None:
    """An impossible delta_aside, order, or stored spending raises an error that names it."""
    with pytest.raises(BadDeclaration, match="needs a `delta`"):
        GaussianFilter(Fraction(1))
    with pytest.raises(BadDeclaration, match="delta_aside"):
        GaussianFilter(Fraction(1), Fraction(1, 10), Fraction(1, 10))
    with pytest.raises(BadDeclaration, match="order"):
        RenyiFilter(Fraction(1), Fraction(1, 10**6), Fraction(1))
    with pytest.raises(BadDeclaration, match="`order` is too small"):
        RenyiFilter(Fraction(1), Fraction(1, 10**6), Fraction(2))
    with pytest.raises(BadDeclaration, match="spent"):
        PureFilter(Fraction(1), spent=Share(UNITS + 1))
    with pytest.raises(BadDeclaration, match="delta_spent"):
        PureFilter(Fraction(1), delta_spent=Fraction(1, 2))
