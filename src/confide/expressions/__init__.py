"""Typed expressions over one row, used by all layers above."""
