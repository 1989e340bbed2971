"""Random blocks of units, and the results of the owner's estimator on them.

The block of a unit is a function of the unit and a key that is drawn for the query. If each row is
its own unit, a block is drawn for each row.
"""

import hashlib
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlglot import expressions as sql

from confide.declare import Kind, Row
from confide.engines.protocol import Block, Estimator, SealedBlocks
from confide.engines.sql.builders import (
    UNIT,
    column,
    is_known,
    label,
    nested,
    number,
    select,
    table,
    unit_column,
)
from confide.engines.sql.contribution_bounding import bound_contributions
from confide.engines.sql.row_hash import mixed_number, number_rows
from confide.noise import Entropy
from confide.plan import ContributionBounds
from confide.plan.selection import BlockReading

BLOCK: Final = "the block"  # no declared name begins with "the "
WORKERS: Final = 4


def write_blocks(
    reading: BlockReading, salt: str, key: str, unit_kind: Kind = Kind.TEXT
) -> sql.Select:
    """Return the statement that selects the rows without NULL, with the block of their unit.

    The blocks follow from ``key``, and contribution bounding follows from ``salt``. If each row is
    a unit, the statement selects no blocks.
    """
    declared, names = reading.table, list(reading.columns)
    has_unit = not isinstance(declared.unit, Row)
    unit = [unit_column()] if has_unit else []
    rows = sql.select(*unit, *map(column, names)).from_(table(declared.name), copy=False)
    rows = rows.where(*(is_known(column(name)) for name in names), copy=False)
    if not has_unit:
        return rows
    if not declared.unique:
        limits = ContributionBounds(
            declared.max_rows_per_unit, declared.max_rows_per_unit, needs_bounding=True
        )
        rows = bound_contributions(rows, limits, [], names, salt)
    # Privacy: a unit's block depends on that unit and the key alone.
    numbered = number_rows(rows, [UNIT], {UNIT: unit_kind}, key)
    block = sql.Mod(this=mixed_number(), expression=number(reading.blocks))
    return select([label(block, BLOCK), *map(column, names)], nested(numbered, "numbered"))


def compute_blocks(
    found: Mapping[str, Any],
    reading: BlockReading,
    estimator: Estimator,
    outputs: int,
    entropy: Entropy,
) -> SealedBlocks:
    """Return the estimator's results for all blocks, computed in threads.

    ``found`` is the result of `write_blocks`, as columns by name. ``outputs`` is the number of
    values that the estimator must return.

    # Privacy: a block whose estimator raises an error or returns another number of values gives
    # NaN, and nothing else about it leaves this function. Engines return rows in any order. The
    # order used here follows from the rows of the block alone, so a unit changes only the result of
    # its own block.
    """
    columns = {name: _unboxed(np.asarray(found[name])) for name in reading.columns}
    size = len(next(iter(columns.values())))
    if BLOCK in found:
        blocks = np.asarray(found[BLOCK]).astype(np.int32)
    else:
        blocks = (entropy.words(size) % np.uint64(reading.blocks)).astype(np.int32)
    order = np.lexsort([*map(_rank, columns.values()), blocks])
    ends = np.searchsorted(blocks, np.arange(reading.blocks + 1), sorter=order)
    rows = Block(columns)

    def compute(span: tuple[int, int]) -> list[float]:
        # Each block is copied only when it is computed, so that most rows are in memory only once.
        return _compute(estimator, _shuffled(rows.take(order[slice(*span)])), outputs)

    with ThreadPoolExecutor(WORKERS) as pool:
        results = list(pool.map(compute, pairwise(ends.tolist())))
    return SealedBlocks(np.array(results, dtype=np.float64).reshape(reading.blocks, outputs))


def _unboxed(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array of Python numbers, Booleans, or dates as a typed array.

    Strings stay objects.
    """
    if values.dtype.kind != "O" or not len(values) or isinstance(values[0], str):
        return values
    is_date = isinstance(values[0], date)
    return np.array(values.tolist(), dtype="datetime64[D]" if is_date else None)


def _rank(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array that sorts as the values do; 0.0 and -0.0 become equal."""
    if values.dtype.kind == "f":
        return values + 0.0
    return values if values.dtype.kind in "biu" else np.unique(values, return_inverse=True)[1]


def _shuffled(block: Block) -> Block:
    """Return the rows of a sorted block in a pseudorandom order that follows from the rows alone.

    Why: an estimator that splits its rows into halves would otherwise get the smaller and the
         larger rows. The order depends on a digest of the rows. If it depended only on their
         number, blocks of the same size would all be split at the same ranks, and the resulting
         bias would remain however many blocks there are.
    """
    start = np.frombuffer(_digest(block), dtype=np.uint64)[0]
    mixed = start + np.arange(1, len(block) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return block.take(np.argsort(mixed ^ (mixed >> np.uint64(31)), kind="stable"))


def _digest(block: Block) -> bytes:
    """Return an eight-byte digest of the values of a block.

    # Privacy: it depends on these values alone. Numbers are hashed as doubles and other values as
    # text, since the type or width of an array may depend on rows of other blocks.
    """
    digest = hashlib.blake2b(digest_size=8)
    for values in block.columns.values():
        if values.dtype.kind in "biuf":
            digest.update((values.astype(np.float64) + 0.0).tobytes())
        else:
            digest.update("\0".join(map(str, values.tolist())).encode("utf-8", "surrogatepass"))
    return digest.digest()


def _compute(estimator: Estimator, part: Block, outputs: int) -> list[float]:
    """Return the estimator's values for a block, NaN where it gives no finite number.

    All are NaN if the block is empty, or if the estimator fails or gives another number of values.
    """
    nothing = [math.nan] * outputs
    if not len(part):
        return nothing
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(estimator(part), dtype=np.float64).reshape(-1)
    except Exception:  # noqa: BLE001  # an analyst must not learn that, or how, a block failed
        return nothing
    if len(values) != outputs:
        return nothing
    return [float(value) if math.isfinite(value) else math.nan for value in values]
