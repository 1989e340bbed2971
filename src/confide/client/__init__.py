"""The HTTP client: the curator's methods for analysts without access to the data."""

from confide.client.connection import Connection, connect
from confide.client.estimates import RemoteEstimate
from confide.client.results import (
    RemoteAnswer,
    RemoteChoice,
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
