"""Sample and aggregate: any estimator of the owner's, run on blocks of units.

The units are divided into blocks, and the estimator gets the rows of one block at a time. Its
results, one per block, are aggregated so that a single block, and so a single unit, has little
influence. `block_pooling` plans the aggregation.
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
"""The value of ``bounds`` for results that lie within the declared bounds of the columns."""

MIN_BLOCKS: Final = 10
MAX_BLOCKS: Final = 10**6
MIN_BLOCK_ROWS: Final = 20
MAX_LOSS_FACTOR: Final = 10.0
COUNT_PART: Final = Fraction(1, 20)
COUNT_LEVEL: Final = 0.995
MIN_RELATIVE_WIDTH: Final = Fraction(1, 2**40)
"""Minimum width of bounds relative to the larger of their magnitudes."""
MAX_BOUND: Final = Fraction(2**1000)
MIN_MAGNITUDE: Final = Fraction(1, 2**800)
"""Smaller bounds must be as far apart as bounds of this magnitude; doubles limit the steps."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """A computation on blocks: a named estimator, its columns, and the bounds of its results.

    ``bounds`` has a pair (low, high) for each number that the estimator returns. ``blocks`` is the
    number of blocks, or None to choose it from a noisy number of units.
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
        context: EstimateContext,
        name: str,
        estimator: Estimator,
        table: str,
        *,
        columns: Sequence[str],
        bounds: Sequence[Any] | str | None,
        blocks: int | None,
        method: str,
    ) -> "Sampling":
        """Return a sampling, with the caller's arguments validated."""
        if method not in METHODS:
            raise BadDeclaration(f"`method` must be one of {', '.join(METHODS)}; got {method!r}.")
        if isinstance(columns, str) or not columns:
            raise BadDeclaration(f"`columns` must be a list of column names; got {columns!r}.")
        named = tuple(declared_column(context, table, column)[1] for column in columns)
        found = declared_column(context, table, columns[0])[0]
        if blocks is not None:
            blocks = integer("blocks", blocks, low=MIN_BLOCKS, high=MAX_BLOCKS)
        pairs = read_bounds(bounds)
        if pairs is None:
            pairs = tuple(_bounds_of(context, found, column) for column in named)
        return cls(name, estimator, found, named, pairs, blocks, method)

    @property
    def outputs(self) -> int:
        """The number of values that the estimator returns."""
        return len(self.bounds)


def read_bounds(bounds: Sequence[Any] | str | None) -> Bounds | None:
    """Return the bounds of each result of an estimator, or None for the declared column bounds.

    Raises:
        BadDeclaration: bounds are missing or malformed.
    """
    if bounds is None:
        raise BadDeclaration(
            'An estimator needs bounds. Pass `bounds="column"` if its results lie within the '
            "declared bounds of the column, otherwise `bounds=(low, high)`."
        )
    if isinstance(bounds, str):
        if bounds == COLUMN:
            return None
        raise BadDeclaration(f'`bounds` must be "column" or pairs (low, high); got {bounds!r}.')
    listed = list(bounds)
    if not listed:
        raise BadDeclaration("`bounds` must be pairs (low, high), one for each result; got none.")
    if len(listed) == 2 and not any(isinstance(end, Sequence) or end is None for end in listed):
        listed = [listed]
    return tuple(_read_pair(pair) for pair in listed)


def _bounds_of(context: EstimateContext, table: str, column: str) -> tuple[Fraction, Fraction]:
    """Return the declared bounds of a numeric column."""
    numbers = number_column(context, table, column)
    return _read_pair((numbers.low, numbers.high))


def _read_pair(pair: Any) -> tuple[Fraction, Fraction]:
    """Return a pair of bounds as exact numbers, or raise BadDeclaration."""
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise BadDeclaration(f"`bounds` must be pairs (low, high); got {pair!r}.")
    low, high = (fraction("bounds", end, "pairs of finite numbers") for end in pair)
    if low >= high:
        raise BadDeclaration(f"`bounds` must be pairs with low < high; got {pair!r}.")
    if max(abs(low), abs(high)) > MAX_BOUND:
        raise BadDeclaration(f"`bounds` must lie between -2^1000 and 2^1000; got {pair!r}.")
    if high - low < max(abs(low), abs(high), MIN_MAGNITUDE) * MIN_RELATIVE_WIDTH:
        raise BadDeclaration(
            "`bounds` must be farther apart, because results between them are rounded to steps; "
            f"got {pair!r}."
        )
    return low, high


def correct_bias(estimator: Estimator) -> Estimator:
    """Return the estimator without the part of its bias that is of order 1 / rows.

    Why: a bias of b / m on m rows is 2 b / m on half of them. So it cancels in twice the estimate
         on all rows minus the mean of the estimates on both halves; what is left is of order
         1 / m^2. A block with fewer than two rows has no halves and is not corrected.
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
        int | None,
        Argument("number of blocks; chosen privately if omitted", (JsonInteger(1, MAX_BLOCKS),)),
    ] = None
    method: Annotated[str, Argument("window, mean, or median")] = "window"
    corrected: Annotated[bool | None, Argument("whether the bias is reduced")] = None


def estimate_blocks(context: EstimateContext, arguments: BlockArguments) -> Estimate:
    """Return an estimate by a registered estimator, or by a function that the owner passes.

    A result of a passed function is not reused, because another function can have the same name. So
    the function is run, and charged for, each time, except for a retry with the same key.
    """
    if isinstance(arguments.estimator, str):
        name = arguments.estimator
        function, columns, bounds = _find_registered(context, name, arguments)
    else:
        # Privacy: an analyst's function could exfiltrate rows.
        if context.executor.analyst:
            raise UnsupportedQuery(
                "An analyst cannot pass a function, because only the owner's functions can run on "
                "rows. Pass the name of a registered estimator."
            )
        context = replace(context, options=replace(context.options, fresh=True))
        function, name = arguments.estimator, _name_function(arguments.estimator)
        columns, bounds = arguments.columns or (), arguments.bounds
    sampling = Sampling.of(
        context,
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
    return release_blocks(context, sampling, corrected=is_corrected)


def _find_registered(
    context: EstimateContext, name: str, arguments: BlockArguments
) -> tuple[Estimator, Sequence[str], Any]:
    """Return a registered estimator by its name, with its columns and bounds."""
    if name not in context.estimators:
        known = ", ".join(sorted(context.estimators)) or "none"
        raise UnknownName(f"Unknown estimator {name!r}. Registered: {known}.")
    if arguments.columns is not None or arguments.bounds is not None:
        raise UnsupportedQuery(
            "The owner has set the columns and bounds of a registered estimator. Omit `columns=` "
            "and `bounds=`."
        )
    return context.estimators[name]


def _name_function(function: object) -> str:
    """Return the qualified name of a function, which the ledger records with its cost."""
    if not callable(function):
        raise BadDeclaration(
            f"`estimator` must be a function or a registered name; got {function!r}."
        )
    kind = type(function)
    inside = getattr(function, "__module__", None) or kind.__module__
    named = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    return f"{inside}.{named or f'<{kind.__qualname__}>'}"


def release_blocks(context: EstimateContext, sampling: Sampling, *, corrected: bool) -> Estimate:
    """Return an estimate by any function of rows, with standard errors.

    Law:     each method pools the results of k blocks. "mean": the mean of the results, clipped to
             their bounds, plus noise. "median": a privately chosen median of the results. "window":
             the mean of the results clipped to a window, plus noise in proportion to its width. The
             window extends beyond two privately chosen quartiles by twice the range between them,
             but not beyond the bounds. "window" works like "mean" if the loss is too small to
             choose quartiles of so few blocks.
    Claim:   costs the granted share, whatever the estimator does. For n rows, blocks of a few times
             n^(1/4) rows, and corrected bias, the error is that of the estimator on all rows, once
             epsilon n^(1/4) is large.
    Why:     one unit changes one block. The results differ by about sqrt(k / n), and so does the
             width of the window. Its noise is 1 / (epsilon k) times as large, which is small
             compared with the sampling error 1 / sqrt(n) when epsilon sqrt(k) is large. The
             remaining bias of (k / n)^2 is small while k is below n^(3/4).
    Source:  [NRS07], [Smi08], [Smi11]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_sample_and_aggregate.py, tests/statistics/test_block_pooling.py
             (intervals), bench/estimates.py.
    """
    function = correct_bias(sampling.estimator) if corrected else sampling.estimator
    release = BlockRelease(context, sampling, function)
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
    charged = charge_and_release(context, terms, release.prepare, release.run, readings=2)
    numbers, replicas = release.read(charged.prepared, charged.noisy)
    names = tuple(f"{sampling.name}[{index}]" for index in range(sampling.outputs))
    form: Form = "one" if sampling.outputs == 1 else "list"
    return make_estimate(
        f"{sampling.name} over blocks", names, numbers, replicas, charged, form=form
    )


@dataclass(frozen=True, slots=True)
class BlockRelease:
    """The release of one estimate: the number of blocks, then their pooled results."""

    context: EstimateContext
    sampling: Sampling
    function: Estimator

    def prepare(self, share: Share) -> tuple[Share, Share]:
        """Return the shares for the number of units (0 if it is not needed) and for the pooling.

        A share that is too small for either is refused before it is charged.
        """
        count_share, pooling_share = Share(0), share
        if self.sampling.blocks is None:
            count_share, pooling_share = split_share(share, (COUNT_PART, 1 - COUNT_PART))
            self.context.plan(self._count(), count_share)
        self._pooling(pooling_share, MIN_BLOCKS).check()
        return count_share, pooling_share

    def _pooling(self, share: Share, blocks: int) -> Pooling:
        executor, sampling = self.context.executor, self.sampling
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
        """Return the query that counts the units that have a row without NULL in the columns."""
        conditions = (col(name).not_null() for name in dict.fromkeys(self.sampling.columns))
        return self.context.planner.read(
            TableQuery(self.sampling.table).where(*conditions).agg(n=count_units())
        )

    def run(self, shares: tuple[Share, Share], hold: Hold) -> dict[str, Any]:
        """Return all released numbers: the payload that the ledger stores."""
        executor, entropy = self.context.executor, self.context.executor.entropy
        blocks = self.sampling.blocks
        if blocks is None:
            plan = executor.planner.plan(self._count(), shares[0])
            steps = release_totals(executor, plan, hold)
            units = float(steps[0][0]) * float(plan.noise.steps[0])
            slack = float(np.quantile(sample_noise(plan.noise)[:, 0], COUNT_LEVEL))
            blocks = choose_blocks(units, slack, executor.planner.loss(shares[1]))
        table = self.context.catalog.private[self.sampling.table]
        reading = BlockReading(table, self.sampling.columns, blocks)
        outputs = self.sampling.outputs
        sealed = executor.engine.run_blocks(reading, hold, self.function, outputs, entropy)
        return self.aggregate(sealed, shares[1], blocks)

    def aggregate(self, sealed: SealedBlocks, share: Share, blocks: int) -> dict[str, Any]:
        """Return the numbers released from the sealed results of the blocks.

        "quartiles" and "steps" are as in `Pooling`. "sums" has, for each number that the estimator
        returns, a noisy sum or, for the method "median", a median. "squares" has the sums of
        squares, if they are needed.
        """
        pooling = self._pooling(share, blocks)
        grids, entropy = pooling.grids, self.context.executor.entropy
        quartiles = [pooling.quartiles(sealed, index, grid) for index, grid in enumerate(grids)]
        steps = pooling.write_steps(grids, quartiles)
        found: dict[str, Any] = {"blocks": blocks, "quartiles": quartiles, "steps": steps}
        if self.sampling.method == "median":
            middle = [
                pooling.median(sealed, index, grid, quartiles[index])
                for index, grid in enumerate(grids)
            ]
            return {**found, "sums": middle}
        windows = pooling.windows(grids, quartiles)
        sums = add_blocks(sealed, grids, windows, pooling.sum_noise(windows), entropy)
        squares: list[int] = []
        if pooling.has_squares:
            noise = pooling.square_noise(windows)
            squares = add_blocks(sealed, grids, windows, noise, entropy, squared=True)
        return {**found, "sums": sums, "squares": squares}

    def read(self, shares: tuple[Share, Share], noisy: dict[str, Any]) -> tuple[Floats, Floats]:
        """Return the estimates, and their replicas, one per row, from the released numbers.

        Raises:
            UnsupportedQuery: the numbers were stored with a different noise grid.
        """
        pooling, outputs = self._pooling(shares[1], noisy["blocks"]), self.sampling.outputs
        quartiles = noisy["quartiles"]
        if any(bool(pair) != bool(pooling.part) for pair in quartiles):
            raise UnsupportedQuery(GRID_STEPS_CHANGED)
        if noisy.get("steps") != pooling.write_steps(pooling.grids, quartiles):
            raise UnsupportedQuery(GRID_STEPS_CHANGED)
        numbers, replicas = np.empty(outputs), np.empty((POINTS, outputs))
        for index in range(outputs):
            numbers[index], replicas[:, index] = pooling.read(index, noisy)
        return numbers, replicas


def choose_blocks(units: float, slack: float, granted: Loss) -> int:
    """Return the number of blocks for a noisy number of units.

    A block gets at least 20 and at least 2 n^(1/4) of n units, and more if a larger privacy loss is
    ``granted``. But there are at least 10 blocks. Larger blocks give results closer to those on all
    rows, but more blocks need less noise.

    Why: ``units`` is too high by more than ``slack`` once in 200 times. Otherwise,
         2 (units - slack) is at most twice the true number, and blocks have at least half the
         planned units. So few of them are empty. An empty block counts as the lower bounds, which
         hardly matters then.
    """
    loss = loss_for_noise(granted)
    parameter = loss.epsilon if isinstance(loss, PureLoss) else loss.mu
    factor = 2.0 * float(np.clip(float(parameter), 1.0, MAX_LOSS_FACTOR))
    cautious_units = max(min(units, 2.0 * (units - slack)), 1.0)
    block_units = max(MIN_BLOCK_ROWS, factor * cautious_units**0.25)
    return int(np.clip(round(cautious_units / block_units), MIN_BLOCKS, MAX_BLOCKS))


def _largest(block: Block) -> float:
    """Return the largest number in a block, or 0 without rows; a single unit can change it."""
    return float(max(np.ravel(next(iter(block.columns.values()))), default=0.0))


def _audit(table: Table) -> BlockArguments | None:
    """Return arguments for the largest value of the first numeric column in each block."""
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
        "``estimator`` is the owner's function, which maps a block of rows to one or more "
        "numbers, or the name of a registered estimator. ``bounds`` are pairs (low, high), one "
        'for each number; results are clipped to them. ``bounds="column"`` uses the declared '
        "bounds of ``columns``, one column for each number, which suits a mean, a median, a "
        "quantile, or a trimmed mean. If the function returns a different number of results, "
        "every block fails and counts as the lower bounds. ``blocks=None`` makes blocks of a "
        "few times n^(1/4) units. ``method`` is window, mean, or median. ``corrected=True`` "
        'removes bias of order 1 / rows; None does so if the bounds are "column".'
    ),
    remote_summary="the estimate of a registered estimator, by its name",
    audit=_audit,
    trial="the largest value of each block",
)
