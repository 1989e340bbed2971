"""Tools for owners: `init`, `convert` and `check`; never on the path of a query."""
