"""Draw docs/pictures/answer.svg: a query on a health survey, its answer, and the remaining budget.

The noise is the curator's own, so each run draws slightly different points.
"""

from html import escape

from tools.draw_pictures import PICTURES

from confide.curator import Curator
from confide.declare import Budget
from confide.examples import sample_table
from confide.release import CHART_WIDTH, draw_chart, figures_of, percent

QUESTION = (
    "SELECT CASE WHEN age < 20 THEN 'below 20' WHEN age < 40 THEN '20 to 39'",
    "            WHEN age < 60 THEN '40 to 59' ELSE '60 and above' END AS years,",
    "       AVG(systolic) AS systolic",
    "FROM people GROUP BY years",
)
EPSILON = "0.2"
LINE, MARGIN = 18, 24
INK, SOFT, BAR = "#222222", "#f2f4f7", "#4c78a8"


def main() -> None:
    """Write the chart."""
    curator = Curator([sample_table()], budget=Budget(2))
    answer = curator.sql("\n".join(QUESTION), epsilon=EPSILON)
    figures = figures_of(answer)
    chart = draw_chart("systolic", figures.labels(), figures.column("systolic"))
    left = curator.budget.left.share
    paid = (
        f"cost {percent(answer.cost.share)} of the budget, epsilon {EPSILON} of 2; "
        f"{percent(left, down=True)} left"
    )
    (PICTURES / "answer.svg").write_text(compose(chart, paid, float(left)), encoding="utf-8")


def compose(chart: str, paid: str, left: float) -> str:
    """Return an SVG with the query above the chart, and the budget as a bar below it."""
    head = LINE * len(QUESTION) + 2 * MARGIN
    drawn = int(chart.split('height="', 1)[1].split('"', 1)[0])
    foot = head + drawn + 8
    across = CHART_WIDTH - 2 * MARGIN
    lines = "".join(
        f'<text x="{2 * MARGIN}" y="{LINE * (place + 2)}" xml:space="preserve" '
        f'font-family="monospace" font-size="13">{escape(line)}</text>'
        for place, line in enumerate(QUESTION)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {CHART_WIDTH} {foot + 64}" '
        f'width="{CHART_WIDTH}" height="{foot + 64}" role="img" fill="{INK}" color="{INK}" '
        'font-family="sans-serif" font-size="13" aria-label="A question, its answer with 95% '
        'intervals, and the budget after it">'
        f'<rect width="{CHART_WIDTH}" height="{foot + 64}" fill="white"/>'
        f'<rect x="{MARGIN}" y="14" width="{across}" height="{head - 28}" rx="6" fill="{SOFT}"/>'
        f'{lines}<g transform="translate(0 {head})">{chart}</g>'
        f'<text x="{MARGIN}" y="{foot + 16}">{escape(paid)}</text>'
        f'<rect x="{MARGIN}" y="{foot + 28}" width="{across}" height="12" rx="6" fill="{SOFT}"/>'
        f'<rect x="{MARGIN}" y="{foot + 28}" width="{across * left:.1f}" height="12" rx="6" '
        f'fill="{BAR}"/></svg>\n'
    )


if __name__ == "__main__":
    main()
