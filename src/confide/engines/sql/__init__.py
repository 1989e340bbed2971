"""The common part of all SQL engines; nothing here imports a driver."""
