"""Demonstrations run by commands: the sample survey, the holdout experiment, the attacks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from confide.examples.sample import sample_table

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


def __getattr__(name: str) -> Any:
    """Import the experiments when first used: the sample survey needs none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'confide.examples' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
