"""Demonstrations that commands run: the holdout experiment and the attacks."""
