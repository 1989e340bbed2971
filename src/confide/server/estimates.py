"""Estimates on behalf of a caller, whichever door they came through.

# Privacy: no request holds a function, a path or an address; what runs on rows is the owner's.
"""

import math
from typing import Any

from confide.curator import Curator
from confide.server import bodies
from confide.server.office import Caller, Office
from confide.server.shapes import show_cost, show_number, show_receipt

__all__ = ["estimate"]


def estimate(office: Office, caller: Caller, asked: bodies.Statistic) -> bodies.Estimated:
    """Return an estimate: what the curator's method of that name gives."""

    def ask(curator: Curator, want: dict[str, Any]) -> Any:
        places, named = asked.arguments()
        method = getattr(curator, asked.statistic)
        return method(asked.table, *places, **named, **want, fresh=asked.fresh, key=asked.key)

    found = office.pay(caller, asked.cost(), ask)
    return _show(asked.statistic, found, asked.confidence)


def _show(statistic: str, found: Any, confidence: float) -> bodies.Estimated:
    """Return an estimate as numbers in a row."""
    form, names, values, errors, ends, more = _flatten(found, confidence)
    return bodies.Estimated(
        statistic=statistic,
        form=form,
        names=names,
        values=[show_number(value) for value in values],
        standard_errors=[show_number(error) for error in errors],
        lows=[show_number(low) for low, _ in ends],
        highs=[show_number(high) for _, high in ends],
        confidence=confidence,
        cost=show_cost(found.cost),
        receipt=show_receipt(found.receipt),
        reused=found.reused,
        **more,
    )


def _flatten(found: Any, confidence: float) -> Any:
    """Return form, names, values, standard errors, intervals, and what only some estimates have."""
    from confide.statistics.density import Density
    from confide.statistics.estimate import Estimate
    from confide.statistics.hypothesis_tests import Comparison, Independence

    match found:
        case Estimate():
            spread, ends = found.standard_error, found.interval(confidence)
            if found.form == "one":
                spread, ends = [spread], [ends]
            elif found.form == "named":
                spread, ends = spread.values(), ends.values()
            return found.form, list(found.names), found.numbers, spread, ends, {}
        case Density():
            names = [str(place) for place in range(found.bins.count)]
            ends = list(zip(*found.interval(confidence), strict=True))
            edges = [float(edge) for edge in found.edges]
            return "bins", names, found.value, found.standard_error, ends, {"edges": edges}
        case Comparison():
            ends = [found.interval(confidence)]
            told = {"p_value": show_number(found.p_value)}
            name = " - ".join(found.groups)
            return "one", [name], [found.value], [found.standard_error], ends, told
        case Independence():
            told = {"p_value": show_number(found.p_value)}
            return (
                "one",
                ["chi_square"],
                [found.statistic],
                [math.inf],
                [(-math.inf, math.inf)],
                told,
            )
        case _:
            raise TypeError("an estimate of an unknown kind")
