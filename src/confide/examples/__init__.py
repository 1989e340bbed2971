"""Demonstrations run by commands: the sample survey, the holdout experiment, the attacks."""

from typing import TYPE_CHECKING, Final

from confide.examples.sample import sample_table
from confide.lazy import import_late

if TYPE_CHECKING:
    from confide.examples.attacks import link_rows, reconstruct_bits, trace_members
    from confide.examples.holdout_experiment import run_experiment

__all__ = [
    "link_rows",
    "reconstruct_bits",
    "run_experiment",
    "sample_table",
    "trace_members",
]

_HOMES: Final = {
    "link_rows": "confide.examples.attacks",
    "reconstruct_bits": "confide.examples.attacks",
    "run_experiment": "confide.examples.holdout_experiment",
    "trace_members": "confide.examples.attacks",
}
__getattr__ = import_late(__name__, _HOMES)
