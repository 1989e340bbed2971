"""The methods of a `Curator` that open or resume watches (see execution/watch.py)."""

from typing import Unpack

from confide.declare import Catalog
from confide.declare.budget import CostArgs, show_keywords
from confide.errors import UnsupportedQuery, refusing
from confide.exact import Number
from confide.execution.executor import Executor, QueryOptions
from confide.execution.pricing import Price
from confide.execution.watch import (
    DurableWatch,
    Threshold,
    Watch,
    durable_watch,
    open_watch,
    resume_watch,
)
from confide.mechanisms import Neighbours

__all__ = ["WatchMethods"]


@show_keywords
class WatchMethods:
    """Methods that open sessions for comparing query values with a threshold."""

    catalog: Catalog
    neighbours: Neighbours

    _executor: Executor

    @refusing
    def watch(
        self,
        threshold: Number,
        above: int = 1,
        *,
        sensitivity: Number | None = None,
        signed: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> Watch:
        """Return a session that compares the values of queries with a threshold.

        Opening the session charges ``epsilon=`` or ``share=``, which pays for up to ``above``
        answers of "above". Answers of "below" are free, however many there are. Each query must be
        a single COUNT or SUM that a unit can change by at most ``sensitivity``. By default, that is
        the largest ``max_rows_per_unit`` of a private table. ``signed=True`` allows sums of
        negative values, with more noise.
        """
        checked = self._threshold(threshold, above, sensitivity, signed=signed)
        options = QueryOptions.of(key=key, confirm=confirm)
        return open_watch(self._executor, checked, Price.of(want), options)

    def durable_watch(
        self,
        threshold: Number,
        above: int = 1,
        *,
        sensitivity: Number | None = None,
        signed: bool = False,
        key: str | None = None,
        label: str = "",
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> DurableWatch:
        """Return a session like that of `watch`, with its state stored in the ledger.

        The session outlives the process. Other processes can resume it with the same ``key`` or
        with `resume_watch`. Each answer is a record in the ledger. The ``label`` is stored with the
        session, and shows whose it is if several agents share one analyst's name.
        """
        checked = self._threshold(threshold, above, sensitivity, signed=signed)
        price, options = Price.of(want), QueryOptions.of(key=key, confirm=confirm)
        return durable_watch(self._executor, checked, price, options, label)

    def resume_watch(self, entry: int) -> DurableWatch:
        """Return the session that `durable_watch` opened at this ledger entry; it costs nothing."""
        found = resume_watch(self._executor, entry)
        if found is None:
            raise UnsupportedQuery(
                f"Entry {entry} is not one of your watches under this declaration. Open one with "
                "`durable_watch`; its receipt has the entry."
            )
        return found

    def _threshold(
        self, level: Number, above: int, sensitivity: Number | None, *, signed: bool
    ) -> Threshold:
        limits = [table.max_rows_per_unit for table in self.catalog.private.values()]
        most = max(limits) if sensitivity is None else sensitivity
        return Threshold.of(level, above, most, self.neighbours, signed=signed)
