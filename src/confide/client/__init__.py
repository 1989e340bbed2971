"""The curator's methods over HTTP: for analysts, who never hold the data."""

from confide.client.connection import Connection, connect
from confide.client.results import (
    RemoteAnswer,
    RemoteChoice,
    RemoteEstimate,
    RemoteReceipt,
    RemoteWatch,
)

__all__ = [
    "Connection",
    "RemoteAnswer",
    "RemoteChoice",
    "RemoteEstimate",
    "RemoteReceipt",
    "RemoteWatch",
    "connect",
]
