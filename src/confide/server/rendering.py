"""Data and charts for the templates; HTML is in templates/, CSS and scripts are in static/."""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from confide.ledger import Entry
from confide.release import Answer
from confide.release.formatting import draw_charts, figures_of, percent
from confide.server.service import Caller

__all__ = [
    "SERVER_FOLDER",
    "accepts_html",
    "draw_answer",
    "draw_burn_down",
    "draw_spending",
    "render",
]

SERVER_FOLDER: Final = Path(__file__).parent
MAX_LISTED_VALUES: Final = 12
MAX_CHART_ROWS: Final = 60
TIME_AXIS: Final = {
    "field": "time",
    "type": "temporal",
    "scale": {"type": "utc"},
    "title": None,
    "axis": {"format": "%d %b %H:%M:%S", "tickCount": 4},
}
NAVIGATION: Final = (("/", "Query"), ("/history", "History"), ("/budget", "Budget"))


def _format_time(microseconds: int) -> str:
    """Return a UTC time to the minute, or an empty string for 0."""
    if not microseconds:
        return ""
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%d %H:%M")


def _shorten(values: Sequence[str | int | None]) -> str:
    words = ["NULL" if value is None else str(value) for value in values]
    more = f" and {len(words) - MAX_LISTED_VALUES} more" if len(words) > MAX_LISTED_VALUES else ""
    return ", ".join(words[:MAX_LISTED_VALUES]) + more


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(SERVER_FOLDER / "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.globals.update(percent=percent, when=_format_time, shorten=_shorten)
    return environment


TEMPLATES: Final = _environment()
DEFAULT_VALUES: Final[dict[str, Any]] = {
    "caller": None,
    "refusal": None,
    "preview": None,
    "unconfirmed": None,
    "figures": None,
    "left_after": None,
    "key": None,
    "is_fragment": False,
}


def accepts_html(request: Request) -> bool:
    """Return whether a request accepts HTML, as browsers do."""
    return "text/html" in request.headers.get("accept", "")


def render(
    request: Request, template: str, caller: Caller | None = None, status: int = 200, **values: Any
) -> HTMLResponse:
    """Return a page; the template escapes every value."""
    pages = list(NAVIGATION)
    pages += [("/boards", "Boards")] if request.app.state.service.boards.names else []
    pages += [("/owner", "Owner")] if caller is not None and caller.is_owner else []
    given = {**DEFAULT_VALUES, **values, "caller": caller, "pages": pages, "here": request.url.path}
    return HTMLResponse(TEMPLATES.get_template(template).render(given), status)


def draw_answer(answer: Answer) -> dict[str, Any]:
    """Return an answer's table, its Vega chart, and SVG charts for pages without scripts.

    Without noisy columns, with one row, or with more than MAX_CHART_ROWS rows, there are no charts.
    """
    figures = figures_of(answer)
    noisy = figures.noisy_columns()
    is_drawn = bool(noisy) and len(figures.rows) > 1 and len(figures.rows) <= MAX_CHART_ROWS
    return {
        "answer": answer,
        "figures": figures,
        "noisy": set(noisy),
        "spec": json.dumps(_finite(answer.plot().spec)) if is_drawn else "",
        "drawings": draw_charts(figures) if is_drawn else [],
    }


def draw_burn_down(entries: Sequence[Entry], total: Fraction) -> str:
    """Return a Vega chart of the budget left after each charge, as JSON.

    ``entries`` are the charges, oldest first, and ``total`` is the share left before the first.
    Without charges, the result is an empty string.
    """
    if not entries:
        return ""
    left, rows = total, [{"time": entries[0].time // 1_000 - 1, "left": float(total), "who": ""}]
    for entry in entries:
        left -= entry.share.fraction
        who = entry.question.analyst or "owner"
        rows.append({"time": entry.time // 1_000, "left": float(left), "who": who})
    line = {"type": "line", "interpolate": "step-after", "point": len(rows) < MAX_CHART_ROWS}
    axis = {"title": "remaining budget", "axis": {"format": "%"}}
    rest = {"field": "left", "type": "quantitative", **axis}
    scale = {"domain": [0, float(total)]}
    return json.dumps(
        {
            "width": 560,
            "height": 220,
            "data": {"values": rows},
            "mark": line,
            "encoding": {"x": TIME_AXIS, "y": {**rest, "scale": scale}},
        }
    )


def draw_spending(entries: Sequence[Entry]) -> str:
    """Return a Vega chart of each analyst's spending over time, as JSON."""
    spent: defaultdict[str, Fraction] = defaultdict(Fraction)
    rows: list[dict[str, Any]] = []
    for entry in entries:
        who = entry.question.analyst or "owner"
        spent[who] += entry.share.fraction
        rows.append({"time": entry.time // 1_000, "spent": float(spent[who]), "who": who})
    spent_axis = {
        "field": "spent",
        "type": "quantitative",
        "title": "spent",
        "axis": {"format": "%"},
    }
    color = {"field": "who", "type": "nominal", "title": "analyst"}
    return json.dumps(
        {
            "width": 560,
            "height": 220,
            "data": {"values": rows},
            "mark": {"type": "line", "interpolate": "step-after", "point": True},
            "encoding": {"x": TIME_AXIS, "y": spent_axis, "color": color},
        }
    )


def _finite(value: Any) -> Any:
    """Return a chart with null for infinities and NaN, which JSON lacks; Vega skips nulls."""
    match value:
        case dict():
            return {name: _finite(part) for name, part in value.items()}
        case list():
            return [_finite(part) for part in value]
        case float() if not math.isfinite(value):
            return None
        case str() | int() | float() | bool() | None:
            return value
        case _:
            return str(value)
