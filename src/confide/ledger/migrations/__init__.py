"""How the tables of a ledger came to be, step by step; a step once released never changes."""

__all__: list[str] = []
