"""The same server with nothing behind it: one answer, given again and again.

What it serves a second is what HTTP, tokens and limits cost; the rest is engine and ledger.
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
    """A curator that reads and charges nothing."""

    def as_analyst(self, *_: Any, **__: Any) -> "Stub":
        """Return itself."""
        return self

    def sql(self, *_: Any, **__: Any) -> Any:
        """Return the answer that was asked for once."""
        return self.__dict__["answer"]


def open_stub() -> FastAPI:
    """Return the application; its tokens are those of the ledger's file."""
    rows = pa.table({"ward": ["A", "B"]})
    table = cf.Table("visits", rows, unit=cf.ROW, columns={"ward": cf.Category(["A", "B"])})
    stub = Stub([table], budget=cf.Budget(1))
    stub.__dict__["answer"] = cf.Curator.sql(stub, COUNT, share="1%")
    service = ServerSettings(requests_per_minute=1_000_000, questions_at_once=100)
    return make_app(stub, TokenStore(open_tables(os.environ["CONFIDE_LEDGER"])), service)
