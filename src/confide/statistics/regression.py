"""`fit`: linear, logistic, and Poisson regression.

`linear` and `glm` have the solvers, and `formula` parses formulas.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Final

from confide.declare import Bool, Float, Int, Table
from confide.errors import UnsupportedQuery
from confide.exact import Number, non_negative
from confide.statistics.arguments import NAME, Argument, JsonNumber, JsonText, TableName
from confide.statistics.estimate import Estimate, EstimateContext
from confide.statistics.formula import read_formula
from confide.statistics.glm import fit_generalised
from confide.statistics.linear import fit_linear
from confide.statistics.spec import StatisticSpec

__all__ = ["FIT", "FitArguments", "estimate_fit"]


@dataclass(frozen=True, slots=True)
class FitArguments:
    """The arguments of `fit`."""

    table: TableName
    formula: Annotated[str, Argument('a formula such as "cost ~ age + smoker"', (JsonText(2_000),))]
    _: KW_ONLY
    family: Annotated[str, Argument("linear, logistic, or poisson", (NAME,))] = "linear"
    ridge: Annotated[
        Number, Argument("ridge penalty on the slopes of a linear fit", (JsonNumber(0, 1e12),))
    ] = 0


def estimate_fit(context: EstimateContext, arguments: FitArguments) -> Estimate:
    """Return the coefficients of a regression; see `fit_linear` and `fit_generalised`."""
    table, family = arguments.table, arguments.family
    design = read_formula(context, table, arguments.formula)
    shrinking = float(non_negative("ridge", arguments.ridge))
    match family:
        case "linear":
            return fit_linear(context, table, design, shrinking)
        case "logistic" | "poisson" if shrinking:
            raise UnsupportedQuery(
                f"`ridge=` applies to linear regression only, and `family` is {family!r}. Omit it."
            )
        case "logistic" | "poisson":
            return fit_generalised(context, table, design, family)
        case _:
            raise UnsupportedQuery(
                f"Unknown family {family!r}. Choose one of linear, logistic, poisson."
            )


def _audit(table: Table) -> FitArguments | None:
    """Return arguments for a regression of the first numeric column on the first Boolean column."""
    numbers, flags = table.names_of(Int, Float), table.names_of(Bool)
    return FitArguments(table.name, f"{numbers[0]} ~ {flags[0]}") if numbers and flags else None


FIT: Final = StatisticSpec(
    name="fit",
    arguments=FitArguments,
    estimate=estimate_fit,
    summary='the coefficients of a regression such as ``"cost ~ age + smoker"``',
    details=(
        "``family`` is linear, logistic (the response is Bool or Int(0, 1)), or poisson (a count). "
        "``ridge`` is a penalty that shrinks the slopes of a linear regression."
    ),
    audit=_audit,
    trial="a regression with one slope",
)
