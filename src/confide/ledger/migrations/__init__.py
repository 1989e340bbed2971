"""Migrations of the ledger's tables; a released migration never changes."""

__all__: list[str] = []
