"""Conversion of the curator's results to response schemas."""

import math
from datetime import UTC, datetime

from confide.curator import BudgetState, Curator, Preview
from confide.declare import (
    Bool,
    Category,
    Column,
    Date,
    Float,
    Int,
    Kind,
    PublicTable,
    Row,
    Table,
    Text,
    Timestamp,
)
from confide.ledger import Entry, Receipt
from confide.release import Answer, Cost
from confide.release.display import write_value
from confide.server import responses
from confide.server.tokens import Token
from confide.statistics.estimate import EstimateResult

__all__ = [
    "show_answer",
    "show_budget",
    "show_cost",
    "show_entry",
    "show_estimate",
    "show_number",
    "show_preview",
    "show_receipt",
    "show_tables",
    "show_token",
]


def show_number(value: float) -> float | None:
    """Return a number, or None if it is not finite."""
    return float(value) if math.isfinite(value) else None


def show_cost(cost: Cost) -> responses.CostResponse:
    """Return a cost with its share as an exact fraction in a string."""
    return responses.CostResponse(share=str(cost.share), epsilon=cost.epsilon)


def show_receipt(receipt: Receipt) -> responses.ReceiptResponse:
    """Return a receipt."""
    return responses.ReceiptResponse(entry=receipt.entry, digest=receipt.digest)


def show_estimate(
    statistic: str, found: EstimateResult, confidence: float
) -> responses.EstimateResponse:
    """Return an estimate as flat lists of numbers."""
    ends = found.intervals(confidence)
    return responses.EstimateResponse(
        statistic=statistic,
        form=found.form,
        names=list(found.names),
        values=[show_number(value) for value in found.numbers],
        standard_errors=[show_number(error) for error in found.standard_errors],
        lows=[show_number(low) for low, _ in ends],
        highs=[show_number(high) for _, high in ends],
        edges=None if found.edges is None else [float(edge) for edge in found.edges],
        p_value=None if found.p_value is None else show_number(found.p_value),
        confidence=confidence,
        cost=show_cost(found.cost),
        receipt=show_receipt(found.receipt),
        reused=found.reused,
    )


def show_answer(answer: Answer, confidence: float) -> responses.AnswerResponse:
    """Return an answer with its intervals at the requested confidence level."""
    ends = answer.interval_rows(confidence)
    return responses.AnswerResponse(
        columns=list(answer.columns),
        rows=[{name: write_value(value) for name, value in row.items()} for row in answer.rows],
        intervals=[{name: show_number(value) for name, value in row.items()} for row in ends],
        confidence=confidence,
        cost=show_cost(answer.cost),
        receipt=show_receipt(answer.receipt),
        reused=answer.reused,
        notes=list(answer.notes),
    )


def show_preview(found: Preview) -> responses.PreviewResponse:
    """Return a preview."""
    return responses.PreviewResponse(
        cost=show_cost(found.cost),
        errors={
            name: None if width is None else show_number(width)
            for name, width in found.errors.items()
        },
        mechanisms=list(found.mechanisms),
        regret=found.regret,
        reused=found.reused,
        confidence=found.confidence,
        notes=list(found.notes),
    )


def show_budget(state: BudgetState) -> responses.BudgetResponse:
    """Return the total, spent, and remaining budget."""
    return responses.BudgetResponse(
        total=show_cost(state.total), spent=show_cost(state.spent), left=show_cost(state.left)
    )


def show_tables(curator: Curator) -> responses.TablesResponse:
    """Return the declared tables, without their data sources."""
    return responses.TablesResponse(
        tables=[_table(table, curator) for table in curator.catalog.tables],
        neighbours=str(curator.neighbours),
        epsilon=float(curator.terms.epsilon),
        delta=float(curator.terms.delta),
    )


def show_entry(entry: Entry) -> responses.EntryResponse:
    """Return one ledger entry."""
    return responses.EntryResponse(
        entry=entry.number,
        analyst=entry.question.analyst,
        question=entry.question.text,
        share=str(entry.share.fraction),
        state=entry.state,
        digest=entry.digest,
        at=_format_time(entry.time),
    )


def show_token(token: Token) -> responses.TokenResponse:
    """Return a token without its secret."""
    return responses.TokenResponse(
        id=token.id,
        name=token.name,
        label=token.label,
        role=token.role.value,
        made=token.made,
        expires=token.expires,
        revoked=token.revoked,
        limit=None if token.limit is None else str(token.limit.fraction),
        spent=str(token.spent.fraction),
        parent=token.parent,
        may_confirm=token.may_confirm,
    )


def _table(table: Table | PublicTable, curator: Curator) -> responses.TableResponse:
    if isinstance(table, PublicTable):
        kinds = curator.names.table(table.name).columns
        return responses.TableResponse(
            name=table.name,
            is_public=True,
            unit=None,
            max_rows_per_unit=None,
            max_groups_per_unit=None,
            columns=[
                responses.ColumnResponse(name=name, type=kind.value) for name, kind in kinds.items()
            ],
        )
    return responses.TableResponse(
        name=table.name,
        is_public=False,
        unit=None if isinstance(table.unit, Row) else table.unit,
        max_rows_per_unit=table.max_rows_per_unit,
        max_groups_per_unit=table.max_groups_per_unit,
        columns=[_column(name, column) for name, column in table.columns.items()],
    )


def _column(name: str, column: Column) -> responses.ColumnResponse:
    match column:
        case Int(low=low, high=high):
            return responses.ColumnResponse(name=name, type="int", low=low, high=high)
        case Float(low=low, high=high):
            return responses.ColumnResponse(
                name=name, type="float", low=float(low), high=float(high)
            )
        case Date(low=low, high=high):
            first, last = low.isoformat(), high.isoformat()
            return responses.ColumnResponse(name=name, type="date", low=first, high=last)
        case Timestamp(low=low, high=high):
            first, last = low.isoformat(" "), high.isoformat(" ")
            return responses.ColumnResponse(name=name, type="timestamp", low=first, high=last)
        case Category(values=values):
            return responses.ColumnResponse(name=name, type="category", values=list(values))
        case Text() | Bool():
            return responses.ColumnResponse(name=name, type=str(Kind(column.kind)))


def _format_time(microseconds: int) -> str | None:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat() if microseconds else None
