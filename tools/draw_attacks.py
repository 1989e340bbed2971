"""Draw the charts of docs/attacks.md: attacks on exact answers and on noisy ones.

The attackers' choices use a fixed seed. The answers carry the curator's own noise, so each run
draws slightly different points near the same curves.
"""

# ruff: noqa: TID251  # an attacker's choices may be predictable

import json
from fractions import Fraction
from importlib.resources import files
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import vl_convert
from tools.draw_pictures import BLUE, CONFIG, GREY, INK, ORANGE, PICTURES, VEGA_LITE, Chart, Row

from confide.curator import Curator
from confide.declare import Bool, Budget, Column, Int, Table
from confide.examples import link_rows, reconstruct_bits, trace_members

PEOPLE, QUESTIONS = 60, 240
COLUMNS, MEMBERS, OTHERS = 400, 20, 400
EPSILONS = (1, 4, 16, 64, 256, 1_024, 4_096, 16_384)
RNG = np.random.default_rng(7)


def main() -> None:
    """Write every chart."""
    for name, chart in CHARTS.items():
        spec = json.dumps({"config": CONFIG, "padding": 12, **chart()})
        drawing = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
        (PICTURES / f"{name}.svg").write_text(drawing + "\n", encoding="utf-8")


def reconstruction() -> Chart:
    """Chart the fraction of secrets reconstructed, by the total cost of the answers."""
    bits, subsets = RNG.random(PEOPLE) < 0.5, RNG.random((QUESTIONS, PEOPLE)) < 0.5
    rows = pa.table({"who": range(PEOPLE), "code": range(PEOPLE), "ill": bits})
    columns: dict[str, Column] = {"code": Int(0, PEOPLE - 1), "ill": Bool()}
    table = Table("people", rows, unit="who", columns=columns, unique=True)
    texts = [
        f"SELECT COUNT(*) AS n FROM people WHERE ill AND code IN ({', '.join(map(str, chosen))})"
        for chosen in map(np.flatnonzero, subsets)
    ]
    points: list[Row] = []
    for epsilon in EPSILONS:
        curator = Curator([table], budget=Budget(epsilon))
        told = [curator.sql(text, share=Fraction(1, QUESTIONS)).rows[0]["n"] for text in texts]
        right = float(np.mean(reconstruct_bits(subsets, told) == bits))
        points.append({"epsilon": epsilon, "right": right, "answers": "confide"})
    exact = float(np.mean(reconstruct_bits(subsets, (subsets & bits).sum(axis=1)) == bits))
    points += [{"epsilon": e, "right": exact, "answers": "exact counts"} for e in EPSILONS]
    points += [{"epsilon": e, "right": 0.5, "answers": "a coin"} for e in EPSILONS]
    return _lines(points, "right", "share of secrets that come out right", "answers")


def tracing() -> Chart:
    """Chart the scores of members and non-members, from exact and from noisy sums."""
    chances = RNG.uniform(0.2, 0.8, COLUMNS)
    everyone = (RNG.random((MEMBERS + OTHERS, COLUMNS)) < chances).astype(np.float64)
    exact = everyone[:MEMBERS].sum(axis=0)
    names = [f"a{place}" for place in range(COLUMNS)]
    rows = {"who": range(MEMBERS), **dict(zip(names, everyone[:MEMBERS].T, strict=True))}
    columns = dict.fromkeys(names, Int(0, 1))
    table = Table("people", pa.table(rows), unit="who", columns=columns, unique=True)
    curator = Curator([table], budget=Budget(1, max_share_per_query=1))
    told: dict[str, Any] = {}
    for start in range(0, COLUMNS, 100):
        sums = ", ".join(f"SUM({name}) AS {name}" for name in names[start : start + 100])
        told |= curator.sql(f"SELECT {sums} FROM people", share="25%").rows[0]
    noisy = np.array([told[name] for name in names])
    charts = [
        _scores("exact means", everyone, exact / MEMBERS, chances),
        _scores("confide, epsilon 1 for all", everyone, noisy / MEMBERS, chances),
    ]
    return {"hconcat": charts, "spacing": 30}


def _scores(title: str, people: Any, means: Any, chances: Any) -> Chart:
    scores = trace_members(people, means, chances)
    scores = (scores - scores.mean()) / scores.std()
    rows = [
        {"score": round(float(score), 4), "who": "member" if place < MEMBERS else "somebody else"}
        for place, score in enumerate(scores)
    ]
    color = {"domain": ["member", "somebody else"], "range": [ORANGE, BLUE]}
    return {
        "title": {"text": title, "anchor": "start"},
        "width": 300,
        "height": 120,
        "data": {"values": rows},
        "mark": {"type": "tick", "thickness": 1.5, "size": 36},
        "encoding": {
            "x": {
                "field": "score",
                "type": "quantitative",
                "title": "score, in deviations",
                "scale": {"domain": [-4, 5]},
            },
            "y": {"field": "who", "title": None},
            "color": {"field": "who", "scale": color, "legend": None},
        },
    }


def linkage() -> Chart:
    """Chart the fraction of 8,366 people who are unique on what an outsider may know."""
    sample = pq.read_table(files("confide.examples") / "nhanes.parquet").to_pylist()
    known = ["sex", "age", "education", "height_cm", "weight_kg"]
    bars = []
    for count in range(1, len(known) + 1):
        traits = [tuple(row[name] for name in known[:count]) for row in sample]
        share = len(link_rows(traits, traits)) / len(sample)
        label = ("+ " if count > 1 else "") + known[count - 1].split("_")[0]
        text = f"{100 * share:.1f} %" if share else "nobody"
        bars.append({"known": label, "share": round(share, 4), "text": text, "order": count})
    place = {
        "y": {"field": "known", "sort": {"field": "order"}, "title": "what is known"},
        "x": {
            "field": "share",
            "type": "quantitative",
            "title": "share of people who are alone with it",
            "axis": {"format": "%", "tickCount": 5},
            "scale": {"domain": [0, 1]},
        },
    }
    label_mark = {"type": "text", "align": "left", "dx": 6, "fontSize": 12, "color": INK}
    return {
        "width": 420,
        "height": 200,
        "data": {"values": bars},
        "layer": [
            {"mark": {"type": "bar", "color": ORANGE}, "encoding": place},
            {"mark": label_mark, "encoding": {**place, "text": {"field": "text"}}},
        ],
    }


def _lines(rows: list[Row], field: str, title: str, by: str) -> Chart:
    kinds = list(dict.fromkeys(row[by] for row in rows))
    return {
        "width": 420,
        "height": 260,
        "data": {"values": [{**row, field: round(row[field], 4)} for row in rows]},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {
                "field": "epsilon",
                "type": "quantitative",
                "scale": {"type": "log", "nice": False},
                "axis": {"values": EPSILONS, "format": ",d"},
                "title": f"epsilon of all {QUESTIONS} answers together",
            },
            "y": {
                "field": field,
                "type": "quantitative",
                "title": title,
                "scale": {"domain": [0.3, 1]},
            },
            "color": {"field": by, "scale": {"domain": kinds, "range": [BLUE, ORANGE, GREY]}},
        },
    }


CHARTS = {
    "attack-reconstruction": reconstruction,
    "attack-tracing": tracing,
    "attack-linkage": linkage,
}


if __name__ == "__main__":
    main()
