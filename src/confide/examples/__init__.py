"""Demonstrations that commands run: the sample survey, the holdout experiment, the attacks."""

from confide.examples.sample import sample_table

__all__ = ["sample_table"]
