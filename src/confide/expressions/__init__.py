"""Typed expressions over the values of one row, or over the keys and aggregates of one group."""
