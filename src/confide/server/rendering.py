"""Template data and drawings of the pages; HTML is in templates/, CSS and scripts in static/."""

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

__all__ = ["HOME", "draw_answer", "draw_burn_down", "draw_spending", "render"]

HOME: Final = Path(__file__).parent
SHOWN: Final = 12
DRAWN: Final = 60
TIME: Final = {
    "field": "time",
    "type": "temporal",
    "scale": {"type": "utc"},
    "title": None,
    "axis": {"format": "%d %b %H:%M:%S", "tickCount": 4},
}
PAGES: Final = (("/", "Ask"), ("/history", "History"), ("/budget", "Budget"))


def _when(microseconds: int) -> str:
    """Return a time for people, to the minute, in UTC."""
    if not microseconds:
        return ""
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%d %H:%M")


def _shorten(values: Sequence[str | int | None]) -> str:
    words = ["NULL" if value is None else str(value) for value in values]
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + more


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HOME / "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    made.globals.update(percent=percent, when=_when, shorten=_shorten)
    return made


TEMPLATES: Final = _environment()
EMPTY: Final[dict[str, Any]] = {
    "caller": None,
    "refusal": None,
    "preview": None,
    "figures": None,
    "left_after": None,
    "key": None,
    "is_fragment": False,
}


def render(
    request: Request, template: str, caller: Caller | None = None, status: int = 200, **values: Any
) -> HTMLResponse:
    """Return a page; every value is escaped by the template."""
    pages = list(PAGES)
    pages += [("/boards", "Boards")] if request.app.state.service.boards.names else []
    pages += [("/owner", "Owner")] if caller is not None and caller.is_owner else []
    given = {**EMPTY, **values, "caller": caller, "pages": pages, "here": request.url.path}
    return HTMLResponse(TEMPLATES.get_template(template).render(given), status)


def draw_answer(answer: Answer) -> dict[str, Any]:
    """Return an answer's table, its chart for Vega, and its charts for pages without scripts."""
    figures = figures_of(answer)
    noisy = figures.noisy_columns()
    is_drawn = bool(noisy) and len(figures.rows) > 1 and len(figures.rows) <= DRAWN
    return {
        "answer": answer,
        "figures": figures,
        "noisy": set(noisy),
        "spec": json.dumps(_finite(answer.plot().spec)) if is_drawn else "",
        "drawings": draw_charts(figures) if is_drawn else [],
    }


def draw_burn_down(entries: Sequence[Entry], total: Fraction) -> str:
    """Return what was left after each charge, as a chart for Vega; nothing without charges."""
    if not entries:
        return ""
    left, rows = total, [{"time": entries[0].time // 1_000 - 1, "left": float(total), "who": ""}]
    for entry in entries:
        left -= entry.share.fraction
        who = entry.question.analyst or "owner"
        rows.append({"time": entry.time // 1_000, "left": float(left), "who": who})
    line = {"type": "line", "interpolate": "step-after", "point": len(rows) < DRAWN}
    rest = {"field": "left", "type": "quantitative", "title": "left", "axis": {"format": "%"}}
    scale = {"domain": [0, float(total)]}
    return json.dumps(
        {
            "width": 560,
            "height": 220,
            "data": {"values": rows},
            "mark": line,
            "encoding": {"x": TIME, "y": {**rest, "scale": scale}},
        }
    )


def draw_spending(entries: Sequence[Entry]) -> str:
    """Return what each analyst has spent over time, as a chart for Vega."""
    spent: defaultdict[str, Fraction] = defaultdict(Fraction)
    rows: list[dict[str, Any]] = []
    for entry in entries:
        who = entry.question.analyst or "owner"
        spent[who] += entry.share.fraction
        rows.append({"time": entry.time // 1_000, "spent": float(spent[who]), "who": who})
    height = {"field": "spent", "type": "quantitative", "title": "spent", "axis": {"format": "%"}}
    colour = {"field": "who", "type": "nominal", "title": "analyst"}
    return json.dumps(
        {
            "width": 560,
            "height": 220,
            "data": {"values": rows},
            "mark": {"type": "line", "interpolate": "step-after", "point": True},
            "encoding": {"x": TIME, "y": height, "color": colour},
        }
    )


def _finite(value: Any) -> Any:
    """Return a chart without infinities, which JSON lacks; Vega leaves out what is null."""
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
