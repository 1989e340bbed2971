"""An answer as CSV or JSON, for other programs."""

import csv
import io
import json
import math
from typing import Any, Final

from confide.release.display import write_value
from confide.release.figures import Tabular

__all__ = ["to_csv", "to_json"]

TRIGGERS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001


def to_csv(answer: Tabular, confidence: float = 0.95) -> str:
    """Return the answer as CSV: its columns, then both ends of each interval.

    Texts that a spreadsheet would take for a formula get an apostrophe in front; numbers are
    numbers and stay as they are.
    """
    ends = answer.interval_rows(confidence)
    names, sides = answer.columns, list(ends[0]) if ends else []
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([_guard(name) for name in (*names, *sides)])
    for row, end in zip(answer.rows, ends, strict=True):
        values = [row[name] for name in names] + [end[side] for side in sides]
        writer.writerow([_csv_value(value) for value in values])
    return file.getvalue()


def to_json(answer: Tabular, confidence: float = 0.95) -> str:
    """Return the answer as JSON, in the layout that the service uses."""
    content = {
        "columns": list(answer.columns),
        "rows": [_json_row(row) for row in answer.rows],
        "intervals": [_json_row(row) for row in answer.interval_rows(confidence)],
        "confidence": confidence,
        "cost": {"share": write_value(answer.cost.share), "epsilon": answer.cost.epsilon},
        "receipt": {"entry": answer.receipt.entry, "digest": answer.receipt.digest},
        "reused": answer.reused,
        "notes": list(answer.notes),
    }
    return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _csv_value(value: Any) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    return _guard(value) if isinstance(value, str) else value


def _guard(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula.

    >>> _guard("=1+1"), _guard(" @x"), _guard("north")
    ("'=1+1", "' @x", 'north')
    """
    is_formula = text.startswith(TRIGGERS) or text.lstrip().startswith(TRIGGERS)
    return f"'{text}" if is_formula else text


def _json_row(row: dict[str, Any]) -> dict[str, object]:
    return {name: write_value(value) for name, value in row.items()}
