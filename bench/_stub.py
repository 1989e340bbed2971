"""The server without a curator: every query returns the same stored answer.

Its throughput shows the cost of HTTP, tokens, and limits; the rest is engine and ledger.
"""

import os
from typing import Any

import pyarrow as pa
from fastapi import FastAPI

import confide as cf
from confide.declare import ServerSettings
from confide.server import TokenStore, make_app, open_tables

COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


class Stub(cf.Curator):
    """A curator that reads no data and charges nothing."""

    def as_analyst(self, *_: Any, **__: Any) -> "Stub":
        """Return the stub itself."""
        return self

    def sql(self, *_: Any, **__: Any) -> Any:
        """Return the stored answer."""
        return self.__dict__["answer"]


def open_stub() -> FastAPI:
    """Return the application, with the tokens in the ledger's file."""
    rows = pa.table({"ward": ["A", "B"]})
    table = cf.Table("visits", rows, unit=cf.ROW, columns={"ward": cf.Category(["A", "B"])})
    stub = Stub([table], budget=cf.Budget(1))
    stub.__dict__["answer"] = cf.Curator.sql(stub, COUNT, share="1%")
    service = ServerSettings(requests_per_minute=1_000_000, max_concurrent_queries=100)
    return make_app(stub, TokenStore(open_tables(os.environ["CONFIDE_LEDGER"])), service)
