"""Any estimator of the owner's, run over blocks of units.

The estimator sees the rows of one block at a time. Its results, one a block, are put together such
that a single block, and so a single unit, hardly matters.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Final

import numpy as np

from confide.declare import Float, Int, Table
from confide.engines.protocol import Block, Estimator, SealedBlocks
from confide.errors import BadDeclaration, UnknownName, UnsupportedQuery
from confide.exact import fraction, integer
from confide.ledger import Hold
from confide.loss import Loss, PureLoss, Share
from confide.plan.calibration import loss_for_noise
from confide.plan.selection import BlockReading
from confide.query import TableQuery, col, count_units
from confide.release.noise_sample import sample_noise
from confide.release.payable import GRID_STEPS_CHANGED
from confide.release.selection import add_blocks
from confide.statistics.arguments import NAME, Argument, JsonInteger, TableName
from confide.statistics.block_pooling import METHODS, Bounds, Pooling
from confide.statistics.estimate import (
    Estimate,
    EstimateContext,
    Floats,
    Form,
    charge_and_release,
    make_estimate,
    release_totals,
    split_share,
)
from confide.statistics.formula import declared_column, number_column
from confide.statistics.replicas import POINTS
from confide.statistics.spec import StatisticSpec

__all__ = [
    "COLUMN",
    "SAMPLE_AND_AGGREGATE",
    "BlockArguments",
    "BlockRelease",
    "Sampling",
    "choose_blocks",
    "correct_bias",
    "estimate_blocks",
    "read_bounds",
    "release_blocks",
]

COLUMN: Final = "column"
"""The bounds of results that lie within those of the columns."""

FEWEST: Final = 10
MOST: Final = 10**6
LEAST_ROWS: Final = 20
MOST_PAID: Final = 10.0
COUNT_PART: Final = Fraction(1, 20)
COUNT_LEVEL: Final = 0.995
NARROWEST: Final = Fraction(1, 2**40)
MAX_BOUND: Final = Fraction(2**1000)
SMALLEST: Final = Fraction(1, 2**800)
"""Bounds below this, or this near each other, would leave steps that are no doubles."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """What is computed on blocks: an estimator under a name, its columns and its results' bounds.

    ``bounds`` holds a pair (low, high) for each number that the estimator returns.
    """

    name: str
    estimator: Estimator
    table: str
    columns: tuple[str, ...]
    bounds: Bounds
    blocks: int | None
    method: str

    @classmethod
    def of(
        cls,
        asked: EstimateContext,
        name: str,
        estimator: Estimator,
        table: str,
        *,
        columns: Sequence[str],
        bounds: Sequence[Any] | str | None,
        blocks: int | None,
        method: str,
    ) -> "Sampling":
        """Return what a caller named, checked."""
        if method not in METHODS:
            raise BadDeclaration(f"method must be one of {', '.join(METHODS)}, got {method!r}")
        if isinstance(columns, str) or not columns:
            raise BadDeclaration(f"columns must be a list of column names, got {columns!r}")
        named = tuple(declared_column(asked, table, column)[1] for column in columns)
        found = declared_column(asked, table, columns[0])[0]
        if blocks is not None:
            blocks = integer("blocks", blocks, low=FEWEST, high=MOST)
        pairs = read_bounds(bounds)
        if pairs is None:
            pairs = tuple(_bounds_of(asked, found, column) for column in named)
        return cls(name, estimator, found, named, pairs, blocks, method)

    @property
    def outputs(self) -> int:
        """How many numbers the estimator returns."""
        return len(self.bounds)


def read_bounds(bounds: Sequence[Any] | str | None) -> Bounds | None:
    """Return the bounds of each number that an estimator gives; None for those of the columns.

    Raises:
        BadDeclaration: there are none, or they are not bounds.
    """
    if bounds is None:
        raise BadDeclaration(
            'an estimator needs bounds; give bounds="column" if its results lie within the '
            "declared bounds of the column, or bounds=(low, high)"
        )
    if isinstance(bounds, str):
        if bounds == COLUMN:
            return None
        raise BadDeclaration(f'bounds must be "column" or pairs (low, high), got {bounds!r}')
    listed = list(bounds)
    if not listed:
        raise BadDeclaration("bounds must be pairs (low, high), one for each result, got none")
    if len(listed) == 2 and not any(isinstance(end, Sequence) or end is None for end in listed):
        listed = [listed]
    return tuple(_read_pair(pair) for pair in listed)


def _bounds_of(asked: EstimateContext, table: str, column: str) -> tuple[Fraction, Fraction]:
    """Return the declared bounds of a column of numbers."""
    numbers = number_column(asked, table, column)
    return _read_pair((numbers.low, numbers.high))


def _read_pair(pair: Any) -> tuple[Fraction, Fraction]:
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise BadDeclaration(f"bounds must be pairs (low, high), got {pair!r}")
    low, high = (fraction("bounds", end, "pairs of finite numbers") for end in pair)
    if low >= high:
        raise BadDeclaration(f"bounds need low < high, got {pair!r}")
    if max(abs(low), abs(high)) > MAX_BOUND:
        raise BadDeclaration(f"bounds must lie within 2^1000 of zero, got {pair!r}")
    if high - low < max(abs(low), abs(high), SMALLEST) * NARROWEST:
        raise BadDeclaration(f"bounds must be farther apart, to leave room for steps, got {pair!r}")
    return low, high


def correct_bias(estimator: Estimator) -> Estimator:
    """Return the estimator without the part of its bias that falls like 1 / rows.

    Why: with bias b / m on m rows it has 2 b / m on half of them, so twice the whole less the mean
         of both halves has none; what is left falls like 1 / m^2. A single row has no halves.
    """

    def corrected(block: Block) -> Floats:
        if len(block) < 2:
            return np.asarray(estimator(block), dtype=np.float64)
        odd, even = block.take(slice(1, None, 2)), block.take(slice(0, None, 2))
        parts = [np.asarray(estimator(part), dtype=np.float64) for part in (block, odd, even)]
        return np.asarray(2.0 * parts[0] - (parts[1] + parts[2]) / 2.0)

    return corrected


@dataclass(frozen=True, slots=True)
class BlockArguments:
    """The arguments of `sample_and_aggregate`."""

    table: TableName
    estimator: Annotated[
        str | Estimator, Argument("the name of an estimator that the owner registered", (NAME,))
    ]
    _: KW_ONLY
    columns: Annotated[Sequence[str] | None, Argument("the columns of a block")] = None
    bounds: Annotated[
        Sequence[Any] | str | None, Argument('pairs (low, high), one for each result, or "column"')
    ] = None
    blocks: Annotated[
        int | None, Argument("how many blocks; left out, chosen", (JsonInteger(1, MOST),))
    ] = None
    method: Annotated[str, Argument("window, mean or median")] = "window"
    corrected: Annotated[bool | None, Argument("whether the bias is reduced")] = None


def estimate_blocks(asked: EstimateContext, arguments: BlockArguments) -> Estimate:
    """Return an estimate by a registered estimator, or by a function of the owner's.

    A function given by hand is not known again, since another may have the same name. So it is run,
    and paid for, anew.
    """
    if isinstance(arguments.estimator, str):
        name = arguments.estimator
        function, columns, bounds = _find_registered(asked, name, arguments)
    else:
        # Privacy: a function of an analyst's could carry rows away by itself.
        if asked.executor.analyst:
            raise UnsupportedQuery("only the owner's functions run on rows; name one of theirs")
        asked = replace(asked, options=replace(asked.options, fresh=True))
        function, name = arguments.estimator, _name_function(arguments.estimator)
        columns, bounds = arguments.columns or (), arguments.bounds
    sampling = Sampling.of(
        asked,
        name,
        function,
        arguments.table,
        columns=columns,
        bounds=bounds,
        blocks=arguments.blocks,
        method=arguments.method,
    )
    by_default = isinstance(bounds, str) and bounds == COLUMN
    is_corrected = by_default if arguments.corrected is None else arguments.corrected
    return release_blocks(asked, sampling, corrected=is_corrected)


def _find_registered(
    asked: EstimateContext, name: str, arguments: BlockArguments
) -> tuple[Estimator, Sequence[str], Any]:
    """Return an estimator of the owner's by its name, with the columns and bounds they gave it."""
    if name not in asked.estimators:
        known = ", ".join(sorted(asked.estimators)) or "none so far"
        raise UnknownName(f"there is no estimator {name!r}; registered are: {known}")
    if arguments.columns is not None or arguments.bounds is not None:
        raise UnsupportedQuery(
            "a registered estimator has the columns and bounds that the owner gave it; "
            "leave columns= and bounds= out"
        )
    return asked.estimators[name]


def _name_function(function: object) -> str:
    """Return the name of a function, which the ledger writes down beside what it cost."""
    if not callable(function):
        raise BadDeclaration(f"estimator must be a function or a registered name, got {function!r}")
    kind = type(function)
    inside = getattr(function, "__module__", None) or kind.__module__
    named = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    return f"{inside}.{named or f'<{kind.__qualname__}>'}"


def release_blocks(asked: EstimateContext, sampling: Sampling, *, corrected: bool) -> Estimate:
    """Return an estimate by any function of rows, with standard errors.

    Law:     "mean": the mean over blocks of results cut to their bounds, plus noise. "median": a
             rank chosen among them. "window": the mean of results cut to a window of five times
             the range between two quartiles that were chosen, plus noise in proportion to it;
             where the loss is too small for so few blocks to choose quartiles, as for "mean".
    Claim:   costs what was granted, whatever the estimator does. With blocks of a few times
             n^(1/4) rows and the bias corrected, the error is that of the estimator on all rows
             once epsilon n^(1/4) is large.
    Why:     one unit changes one block. The noise of a window is 1 / (epsilon k) of the spread
             sqrt(k / n) of results on k blocks, which is small beside 1 / sqrt(n) when epsilon
             sqrt(k) is large; a bias of (k / n)^2 is so while k is below n^(3/4).
    Source:  [NRS07], [Smi08], [Smi11]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_aggregate.py, tests/statistics/test_pooling.py (intervals),
             bench/estimates.py.
    """
    function = correct_bias(sampling.estimator) if corrected else sampling.estimator
    release = BlockRelease(asked, sampling, function)
    terms = {
        "estimate": "blocks",
        "estimator": sampling.name,
        "table": sampling.table,
        "columns": sampling.columns,
        "bounds": [[str(end) for end in pair] for pair in sampling.bounds],
        "blocks": sampling.blocks,
        "method": sampling.method,
        "corrected": corrected,
    }
    paid = charge_and_release(asked, terms, release.prepare, release.run, readings=2)
    numbers, replicas = release.read(paid.prepared, paid.noisy)
    names = tuple(f"{sampling.name}[{place}]" for place in range(sampling.outputs))
    form: Form = "one" if sampling.outputs == 1 else "list"
    return make_estimate(f"{sampling.name} over blocks", names, numbers, replicas, paid, form=form)


@dataclass(frozen=True, slots=True)
class BlockRelease:
    """The way of one estimate: how many blocks, and what is released of their results."""

    asked: EstimateContext
    sampling: Sampling
    function: Estimator

    def prepare(self, share: Share) -> tuple[Share, Share]:
        """Return what the count of units costs, if it is needed, and what is left."""
        count, rest = Share(0), share
        if self.sampling.blocks is None:
            count, rest = split_share(share, (COUNT_PART, 1 - COUNT_PART))
            self.asked.plan(self._count(), count)
        self._pooling(rest, FEWEST).check()
        return count, rest

    def _pooling(self, share: Share, blocks: int) -> Pooling:
        executor, sampling = self.asked.executor, self.sampling
        granted = executor.planner.loss(share)
        pooling = Pooling(
            sampling.bounds,
            sampling.method,
            granted,
            executor.planner.neighbours,
            executor.entropy,
            blocks,
        )
        return pooling.choose_part()

    def _count(self) -> Any:
        """Return the query for the units of blocks: those with a row without NULL."""
        known = (col(name).not_null() for name in dict.fromkeys(self.sampling.columns))
        return self.asked.planner.read(
            TableQuery(self.sampling.table).where(*known).agg(n=count_units())
        )

    def run(self, shares: tuple[Share, Share], hold: Hold) -> dict[str, Any]:
        """Return everything that is released."""
        executor, entropy = self.asked.executor, self.asked.executor.entropy
        blocks = self.sampling.blocks
        if blocks is None:
            plan = executor.planner.plan(self._count(), shares[0])
            steps = release_totals(executor, plan, hold)
            units = float(steps[0][0]) * float(plan.noise.steps[0])
            slack = float(np.quantile(sample_noise(plan.noise)[:, 0], COUNT_LEVEL))
            blocks = choose_blocks(units, slack, executor.planner.loss(shares[1]))
        table = self.asked.catalog.private[self.sampling.table]
        reading = BlockReading(table, self.sampling.columns, blocks)
        outputs = self.sampling.outputs
        sealed = executor.engine.run_blocks(reading, hold, self.function, outputs, entropy)
        return self.aggregate(sealed, shares[1], blocks)

    def aggregate(self, sealed: SealedBlocks, share: Share, blocks: int) -> dict[str, Any]:
        """Return the releases made of the results of blocks."""
        parts = self._pooling(share, blocks)
        grids, entropy = parts.grids, self.asked.executor.entropy
        quartiles = [parts.quartiles(sealed, place, grid) for place, grid in enumerate(grids)]
        steps = parts.write_steps(grids, quartiles)
        found: dict[str, Any] = {"blocks": blocks, "quartiles": quartiles, "steps": steps}
        if self.sampling.method == "median":
            middle = [
                parts.median(sealed, place, grid, quartiles[place])
                for place, grid in enumerate(grids)
            ]
            return {**found, "sums": middle}
        windows = parts.windows(grids, quartiles)
        sums = add_blocks(sealed, grids, windows, parts.sum_noise(windows), entropy)
        squares: list[int] = []
        if parts.has_squares:
            noise = parts.square_noise(windows)
            squares = add_blocks(sealed, grids, windows, noise, entropy, squared=True)
        return {**found, "sums": sums, "squares": squares}

    def read(self, shares: tuple[Share, Share], noisy: dict[str, Any]) -> tuple[Floats, Floats]:
        """Return the estimates and their replicas from what was released.

        Raises:
            UnsupportedQuery: it was written in other steps than those of today.
        """
        parts, outputs = self._pooling(shares[1], noisy["blocks"]), self.sampling.outputs
        quartiles = noisy["quartiles"]
        if any(bool(pair) != bool(parts.part) for pair in quartiles):
            raise UnsupportedQuery(GRID_STEPS_CHANGED)
        if noisy.get("steps") != parts.write_steps(parts.grids, quartiles):
            raise UnsupportedQuery(GRID_STEPS_CHANGED)
        numbers, replicas = np.empty(outputs), np.empty((POINTS, outputs))
        for place in range(outputs):
            numbers[place], replicas[:, place] = parts.read(place, noisy)
        return numbers, replicas


def choose_blocks(units: float, slack: float, granted: Loss) -> int:
    """Return how many blocks to make of about so many units: 2 n^(1/4) or more in each.

    Larger blocks are nearer to all rows in what they give, smaller ones leave less noise: so their
    size grows with what the noise is paid with.

    Why: the count is too high by more than ``slack`` once in 200 times. Twice the count less that
         is then at most twice the true number, and blocks have half the rows planned or more; so
         few of them are empty, and their lower bounds do not count.
    """
    noise = loss_for_noise(granted)
    paid = noise.epsilon if isinstance(noise, PureLoss) else noise.mu
    wide = 2.0 * float(np.clip(float(paid), 1.0, MOST_PAID))
    sure = max(min(units, 2.0 * (units - slack)), 1.0)
    rows = max(LEAST_ROWS, wide * sure**0.25)
    return int(np.clip(round(sure / rows), FEWEST, MOST))


def _largest(block: Block) -> float:
    """Return the largest number of a block, which one person can always be."""
    return float(max(np.ravel(next(iter(block.columns.values()))), default=0.0))


def _audit(table: Table) -> BlockArguments | None:
    """Return the largest of each block, for the first column of numbers."""
    numbers = table.names_of(Int, Float)
    if not numbers:
        return None
    return BlockArguments(table.name, _largest, columns=numbers[:1], bounds=[(0, 1)], blocks=10)


SAMPLE_AND_AGGREGATE: Final = StatisticSpec(
    name="sample_and_aggregate",
    arguments=BlockArguments,
    estimate=estimate_blocks,
    summary="an estimate by any function of rows, run on blocks of units",
    details=(
        "``estimator`` is the owner's function, from a block of rows to a number or several, "
        "or the name of a registered one. ``bounds`` are pairs (low, high), one for each "
        'number: results are clipped to them. ``bounds="column"`` takes the declared bounds '
        "of ``columns``, one column for each number, which suits a mean, a median, a quantile "
        "or a trimmed mean. If the function returns another count of numbers, every block "
        "fails and counts as the low bounds. ``blocks=None`` makes blocks of a few times "
        "n^(1/4) units. ``method`` is window, mean or median. ``corrected=True`` takes away "
        'bias that falls like 1 / rows; None does so where the bounds are "column".'
    ),
    remote_summary="an estimate by an estimator that the owner registered, by its name",
    audit=_audit,
    trial="the largest of each block",
)
