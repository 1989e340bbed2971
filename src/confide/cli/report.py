"""The demo as one HTML page that needs nothing else: tables, charts, costs and the budget."""

from collections.abc import Sequence
from html import escape
from typing import Final

from confide.cli.demo import Outcome, describe_cost
from confide.cli.screen import percent
from confide.release.formatting import Figures, draw_charts

__all__ = ["write_report"]

STYLE: Final = """
:root { color-scheme: light dark; --edge: #8884; --soft: #8881; --bar: #4c78a8; }
body { font: 16px/1.5 sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin: 0 0 .5rem; }
section { border: 1px solid var(--edge); border-radius: .5rem; padding: 1rem; margin: 1.2rem 0; }
pre { background: var(--soft); padding: .6rem; border-radius: .3rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem; text-align: left; }
td.number, th.number { text-align: right; } thead th { border-bottom: 1px solid var(--edge); }
.interval, .note { opacity: .7; } .refused { border-left: 4px solid #e0a030; padding-left: .8rem; }
.cost { margin-top: .8rem; }
.budget { background: var(--soft); border-radius: .3rem; height: .7rem; margin-top: .3rem; }
.budget div { background: var(--bar); border-radius: .3rem; height: 100%; }
svg { max-width: 100%; height: auto; display: block; margin-top: .8rem; }
"""


def write_report(outcomes: Sequence[Outcome], epsilon: int) -> str:
    """Return the whole page."""
    sections = "".join(_section(place, outcome) for place, outcome in enumerate(outcomes, start=1))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>confide demo</title><style>{STYLE}</style></head><body>"
        "<h1>What a small privacy budget buys</h1>"
        "<p>8,366 people of the US National Health and Nutrition Examination Survey 2017-2018, "
        f"unweighted, asked {len(outcomes)} questions within epsilon {epsilon} for all of them "
        "together. Every figure carries noise; its interval covers the value without noise "
        "95 times in 100.</p>"
        f"{sections}</body></html>\n"
    )


def _section(place: int, outcome: Outcome) -> str:
    asked = outcome.asked
    parts = [f"<h2>{place}. {escape(asked.title)}</h2>", f"<pre>{escape(asked.sql)}</pre>"]
    if outcome.expected:
        expected = outcome.expected.replace("+-", "\N{PLUS-MINUS SIGN}")
        parts.append(f'<p class="note">{escape(expected)}</p>')
    if outcome.figures is not None:
        parts += [_table(outcome.figures), *draw_charts(outcome.figures)]
    else:
        parts.append(f'<pre class="refused">{escape(outcome.refusal)}</pre>')
    if asked.remark:
        parts.append(f"<p>{escape(asked.remark)}</p>")
    left = percent(outcome.left, down=True)
    parts.append(
        f'<div class="note cost">{describe_cost(outcome)}; {left} of the budget left</div>'
    )
    width = f"{float(outcome.left) * 100:.2f}%"
    parts.append(f'<div class="budget"><div style="width:{width}"></div></div>')
    return f"<section>{''.join(parts)}</section>"


def _table(figures: Figures) -> str:
    noisy = set(figures.noisy_columns())
    heads = "".join(
        f'<th class="number">{escape(name)}</th><th class="number">95 % interval</th>'
        if name in noisy
        else f"<th>{escape(name)}</th>"
        for name in figures.columns
    )
    rows = "".join(
        f"<tr>{_cells(figures, place, noisy)}</tr>" for place in range(len(figures.rows))
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def _cells(figures: Figures, place: int, noisy: set[str]) -> str:
    parts: list[str] = []
    for name, cell in zip(figures.columns, figures.rows[place], strict=True):
        if name not in noisy:
            parts.append(f"<td>{escape(cell.text)}</td>")
            continue
        parts.append(f'<td class="number">{escape(cell.text)}</td>')
        parts.append(f'<td class="number interval">{escape(cell.interval)}</td>')
    return "".join(parts)
