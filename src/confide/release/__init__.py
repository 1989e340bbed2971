"""Addition of noise to sealed totals, and answers computed from noisy totals."""

from typing import TYPE_CHECKING, Final

from confide.exact import percent
from confide.lazy import import_late
from confide.release.answer import Answer, Cost, predict_errors, predict_group_errors
from confide.release.noise import NoisyMeasurement, add_noise
from confide.release.program.run import check_program

if TYPE_CHECKING:
    from confide.release.formatting import CHART_WIDTH, draw_chart, figures_of

__all__ = [
    "CHART_WIDTH",
    "Answer",
    "Cost",
    "NoisyMeasurement",
    "add_noise",
    "check_program",
    "draw_chart",
    "figures_of",
    "percent",
    "predict_errors",
    "predict_group_errors",
]

_HOMES: Final = {
    "CHART_WIDTH": "confide.release.formatting",
    "draw_chart": "confide.release.formatting",
    "figures_of": "confide.release.formatting",
}
__getattr__ = import_late(__name__, _HOMES)
