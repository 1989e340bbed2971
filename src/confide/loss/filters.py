"""Privacy filters, which limit the total loss of requests that may depend on earlier answers.

The ledger asks a filter about every charge. A filter is an immutable value: granting a request
returns a new filter, and a refusal raises an error and changes nothing. Spending is counted in
shares of the budget, so that rounding errors cannot add up.
"""

from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import ClassVar, TypeVar

from confide.errors import BadDeclaration, BudgetExceeded
from confide.exact import float_above, positive, probability
from confide.loss import curves
from confide.loss.composition import compose
from confide.loss.curves import best_order, renyi_for
from confide.loss.kinds import ApproximateLoss, GaussianLoss, PureLoss, RenyiLoss
from confide.loss.protocol import Bound, Loss, Unpriceable, read_loss, read_order
from confide.loss.shares import UNITS, Share

__all__ = [
    "Filter",
    "GaussianFilter",
    "PureFilter",
    "RenyiFilter",
    "auto_filter",
]

F = TypeVar("F", bound="Filter")
_ZERO_SHARE = Share(0)
_ROUND_UP, _ROUND_DOWN = (
    Context(prec=6, rounding=ROUND_CEILING),
    Context(prec=6, rounding=ROUND_FLOOR),
)


@dataclass(frozen=True, slots=True)
class Filter:
    """The base class of the three filters: a guarantee, and the spent part of it.

    ``total`` is the total budget in the filter's own currency: an epsilon, a mu^2, or a Renyi
    divergence. ``spent`` is a share of it. ``delta_pot`` is the part of delta reserved for the
    failures of single answers, and ``delta_spent`` is how much of it was granted. ``TERMS`` lists
    the fields that a grant does not change.
    """

    TERMS: ClassVar[tuple[str, ...]] = ("epsilon", "delta", "total", "delta_pot")

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    spent: Share = field(default=_ZERO_SHARE, kw_only=True)
    delta_spent: Fraction = field(default=Fraction(0), kw_only=True)
    total: Fraction = field(init=False, repr=False, compare=False)
    delta_pot: Fraction = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._set(epsilon=positive("epsilon", self.epsilon))
        self._set(delta=probability("delta", self.delta))
        self._open()
        self._set(delta_spent=probability("delta_spent", self.delta_spent))
        if _read_share("spent", self.spent).units > UNITS:
            raise BadDeclaration(f"`spent` must be a share of at most 1; got {self.spent!r}.")
        if self.delta_spent > self.delta_pot:
            raise BadDeclaration(
                f"`delta_spent` must be at most {self.delta_pot}; got {self.delta_spent}."
            )

    def _open(self) -> None:
        """Check the arguments of this kind of filter, and set ``total`` and ``delta_pot``."""
        raise NotImplementedError

    def _loss(self, amount: Fraction) -> Loss:
        """Return the loss of a positive amount in this filter's currency."""
        raise NotImplementedError

    def _amount(self, core: Loss) -> Bound:
        """Return the amount that a loss costs in this filter's currency; infinite if unbounded."""
        raise NotImplementedError

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def left(self) -> Share:
        """The remaining share."""
        return Share(UNITS - self.spent.units)

    @property
    def delta_left(self) -> Fraction:
        """The remaining delta for failures."""
        return self.delta_pot - self.delta_spent

    @property
    def epsilon_spent(self) -> float:
        """The epsilon of everything granted so far, at the budget's delta, rounded up.

        Claim:   all answers together are (epsilon_spent, delta)-DP so far.
        Why:     what was granted has the loss of the spent share, except with probability
                 ``delta_spent``. The filter itself bounds the result by its own epsilon.
        Source:  docs/proofs/loss-filters.md.
        Checked: tests/loss/test_filters.py.
        """
        loss = self.loss_of(self.spent)
        whole = ApproximateLoss(loss, self.delta_spent) if self.delta_spent else loss
        return min(whole.epsilon_at(self.delta), float_above(self.epsilon))

    def loss_of(self, share: Share) -> Loss:
        """Return the loss that a granted share allows, in the filter's own currency."""
        amount = _read_share("share", share).fraction * self.total
        return self._loss(amount) if amount else compose([])

    def price(self, loss: Loss) -> tuple[Share, Fraction]:
        """Return the cost of a loss: a share, rounded up, and the delta of its failure.

        Raises:
            Unpriceable: this filter cannot bound the loss.
        """
        amount = self._amount(read_loss("loss", loss).core)
        if not isinstance(amount, Fraction):
            raise Unpriceable(
                f"A {type(self).__name__} cannot bound {loss!r}. "
                "Use another mechanism or another accounting."
            )
        return Share.ceil(amount / self.total), loss.failure

    def grant(self: F, share: Share, delta: object = 0) -> F:
        """Return the filter after granting ``share``, plus ``delta`` for a failure.

        Raises:
            BudgetExceeded: the request exceeds the remaining budget; this filter is unchanged.
        """
        units = self.spent.units + _read_share("share", share).units
        # Privacy: compare exact numbers, for the share and for delta, before granting anything.
        if units > UNITS:
            cost, left = share.fraction, self.left.fraction
            shown = f"{_format(100 * cost, _ROUND_UP)}% of the budget"
            raise _budget_exceeded(shown, f"{_format(100 * left, _ROUND_DOWN)}%", cost, left)
        return self._with_spent(Share(units), self._charge(delta) if delta else self.delta_spent)

    def _charge(self, delta: object) -> Fraction:
        requested = probability("delta", delta)
        if requested > self.delta_left:
            shown = f"{_format(requested, _ROUND_UP)} of the delta for failures"
            left = _format(self.delta_left, _ROUND_DOWN)
            raise _budget_exceeded(shown, left, requested, self.delta_left)
        return self.delta_spent + requested

    def _with_spent(self: F, spent: Share, delta_spent: Fraction) -> F:
        """Return a copy with these amounts spent, without recomputing the totals."""
        copy = object.__new__(type(self))
        set_field = object.__setattr__
        for name in self.TERMS:
            set_field(copy, name, getattr(self, name))
        set_field(copy, "spent", spent)
        set_field(copy, "delta_spent", delta_spent)
        return copy


@dataclass(frozen=True, slots=True)
class PureFilter(Filter):
    """A filter that grants epsilons up to a total of epsilon, and failures up to delta.

    Claim:   for any grants, and any dependence of requests on answers, the whole
             interaction is (epsilon, delta)-DP; epsilon-DP when delta is 0.
    Why:     the granted epsilon_i sum to at most epsilon on every path of the interaction, so
             epsilon bounds the log-ratio of every transcript. docs/proofs/loss-filters.md adds
             failures.
    Source:  [RRUV16].
    Checked: tests/loss/test_filters.py.

    >>> PureFilter(1).grant(Share.floor(0.25)).left.fraction
    Fraction(3, 4)
    """

    def _open(self) -> None:
        self._set(total=self.epsilon, delta_pot=self.delta)

    def _loss(self, amount: Fraction) -> Loss:
        return PureLoss(amount)

    def _amount(self, core: Loss) -> Bound:
        return core.epsilon


@dataclass(frozen=True, slots=True)
class GaussianFilter(Filter):
    """A filter that grants squares of mu up to the total that (epsilon, delta) allows.

    Claim:   for any grants, and any dependence of requests on answers, the whole
             interaction is (epsilon, delta)-DP.
    Why:     the granted mu_i^2 sum to at most mu^2, which is ``total``, on every path of the
             interaction. So the interaction is mu-Gaussian-DP, and mu was computed for epsilon and
             delta - delta_aside. Failures use at most delta_aside; see docs/proofs/loss-filters.md.
    Source:  [ST22]; [BW18] Theorem 8 for the exact mu.
    Checked: tests/loss/test_filters.py.
    """

    TERMS: ClassVar[tuple[str, ...]] = (*Filter.TERMS, "delta_aside")

    delta_aside: Fraction = Fraction(0)

    def _open(self) -> None:
        rest = _set_aside(self.delta, self.delta_aside)
        self._set(delta_aside=self.delta - rest, delta_pot=self.delta - rest)
        self._set(total=curves.mu_squared_for(self.epsilon, rest))

    def _loss(self, amount: Fraction) -> Loss:
        return GaussianLoss(amount)

    def _amount(self, core: Loss) -> Bound:
        return core.mu_squared


@dataclass(frozen=True, slots=True)
class RenyiFilter(Filter):
    """A filter that grants Renyi divergences of one order up to what (epsilon, delta) allows.

    The default order is the one at which the most Gaussian answers fit.

    Claim:   for any grants, and any dependence of requests on answers, the whole
             interaction is (epsilon, delta)-DP.
    Why:     the granted divergences r_i, all at this order, sum to at most r, which is ``total``,
             on every path. So the divergence of the interaction is at most r, and r was computed
             for epsilon and delta - delta_aside. Failures use at most delta_aside; see
             docs/proofs/loss-filters.md.
    Source:  [FZ21]; [CKS20] Proposition 12 for r.
    Checked: tests/loss/test_filters.py.
    """

    TERMS: ClassVar[tuple[str, ...]] = (*Filter.TERMS, "order", "delta_aside")

    order: Fraction | None = None
    delta_aside: Fraction = Fraction(0)

    @property
    def alpha(self) -> Fraction:
        """The order in use."""
        assert self.order is not None  # noqa: S101 - _open sets the order
        return self.order

    def _open(self) -> None:
        rest = _set_aside(self.delta, self.delta_aside)
        order = (
            best_order(self.epsilon, rest)
            if self.order is None
            else read_order("order", self.order)
        )
        total = renyi_for(order, self.epsilon, rest)
        if not total:
            raise BadDeclaration(
                "`order` is too small to grant anything at this `delta`. Increase `order` or "
                f"`delta`; got {order}."
            )
        self._set(delta_aside=self.delta - rest, delta_pot=self.delta - rest)
        self._set(order=order, total=total)

    def _loss(self, amount: Fraction) -> Loss:
        return RenyiLoss(self.alpha, amount)

    def _amount(self, core: Loss) -> Bound:
        return core.renyi_above(self.alpha)


def auto_filter(
    epsilon: object, delta: object = 0, accounting: str = "auto", *, delta_aside: object = 0
) -> Filter:
    """Return the filter for a budget.

    With ``accounting="auto"`` it is pure if delta is 0, else Gaussian. ``delta_aside`` is the part
    of delta reserved for failures; a pure filter reserves all of delta.

    >>> type(auto_filter(1, 1e-6)).__name__
    'GaussianFilter'
    """
    total = positive("epsilon", epsilon)
    chance, aside = probability("delta", delta), probability("delta_aside", delta_aside)
    match accounting:
        case "auto" if chance:
            return GaussianFilter(total, chance, aside)
        case "auto" | "pure":
            return PureFilter(total, chance)
        case "gaussian":
            return GaussianFilter(total, chance, aside)
        case "renyi":
            return RenyiFilter(total, chance, delta_aside=aside)
        case _:
            raise BadDeclaration(
                f"`accounting` must be auto, pure, gaussian, or renyi; got {accounting!r}."
            )


def _set_aside(delta: Fraction, delta_aside: object) -> Fraction:
    """Return ``delta - delta_aside``, or raise BadDeclaration if it is not positive."""
    aside = probability("delta_aside", delta_aside)
    if not delta:
        raise BadDeclaration(
            "This accounting needs a `delta` greater than 0 and less than 1. Pass one such as "
            "1e-8, or omit `accounting`; got 0."
        )
    if aside >= delta:
        raise BadDeclaration(
            f"`delta_aside` must be less than `delta`, which is {delta}; got {delta_aside!r}."
        )
    return delta - aside


def _read_share(name: str, value: Share) -> Share:
    if not isinstance(value, Share):
        raise BadDeclaration(
            f"`{name}` must be a `Share` such as `Share.floor(0.1)`; got {value!r}."
        )
    return value


def _budget_exceeded(
    shown_cost: str, shown_left: str, cost: Fraction, left: Fraction
) -> BudgetExceeded:
    message = (
        f"This answer would cost {shown_cost}, but only {shown_left} is left. "
        "Group by fewer keys or accept a larger error."
    )
    return BudgetExceeded(message, cost=cost, left=left)


def _format(value: Fraction, context: Context) -> str:
    """Return ``value`` with six significant digits, rounded as ``context`` specifies."""
    return str(context.divide(Decimal(value.numerator), Decimal(value.denominator)))
