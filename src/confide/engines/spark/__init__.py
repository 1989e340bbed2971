"""Spark: statements run on its own cluster."""
