"""Tools for owners: `init`, `convert`, and `check`; queries never use them."""
