"""Typed expressions over one row, shared by all layers above."""
