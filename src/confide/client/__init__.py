"""The curator's methods over HTTP: for analysts, who never hold the data."""

from confide.client.answers import RemoteAnswer, RemoteReceipt
from confide.client.connection import Connection, connect

__all__ = ["Connection", "RemoteAnswer", "RemoteReceipt", "connect"]
