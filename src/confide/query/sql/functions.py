"""Mapping from the parser's nodes to confide's functions, and advice for unsupported nodes."""

from typing import Final

from sqlglot import exp

from confide.expressions.functions import Function
from confide.expressions.shorthands import Shorthand

__all__ = [
    "CASTS",
    "CAST_ADVICE",
    "DIALECT_ARGUMENTS",
    "DIRECT_FUNCTIONS",
    "EXTRACTIONS",
    "OPERANDS",
    "PART_CALLS",
    "PART_NODES",
    "TRIM_FUNCTIONS",
    "explain_refusal",
]

F = Function
S = Shorthand
OPERANDS: Final = ("this", "expression")
DIRECT_FUNCTIONS: Final[dict[type[exp.Expr], tuple[Function | Shorthand, tuple[str, ...]]]] = {
    exp.Add: (F.ADD, OPERANDS),
    exp.Sub: (F.SUBTRACT, OPERANDS),
    exp.Mul: (F.MULTIPLY, OPERANDS),
    exp.Div: (F.DIVIDE, OPERANDS),
    exp.Mod: (F.MODULO, OPERANDS),
    exp.Neg: (F.NEGATE, ("this",)),
    exp.EQ: (F.EQUAL, OPERANDS),
    exp.NEQ: (F.UNEQUAL, OPERANDS),
    exp.LT: (F.LESS, OPERANDS),
    exp.LTE: (F.LESS_EQUAL, OPERANDS),
    exp.GT: (F.GREATER, OPERANDS),
    exp.GTE: (F.GREATER_EQUAL, OPERANDS),
    exp.Not: (F.NOT, ("this",)),
    exp.Coalesce: (F.COALESCE, ("this", "expressions")),
    exp.Abs: (F.ABS, ("this",)),
    exp.Floor: (F.FLOOR, ("this",)),
    exp.Ceil: (F.CEIL, ("this",)),
    exp.Round: (F.ROUND, ("this", "decimals")),
    exp.Least: (F.LEAST, ("this", "expressions")),
    exp.Greatest: (F.GREATEST, ("this", "expressions")),
    exp.Ln: (F.LN, ("this",)),
    exp.Exp: (F.EXP, ("this",)),
    exp.Sqrt: (F.SQRT, ("this",)),
    exp.Pow: (F.POWER, OPERANDS),
    exp.Log: (S.LOG, OPERANDS),
    exp.Sign: (F.SIGN, ("this",)),
    exp.Trunc: (S.TRUNC, ("this",)),
    exp.IntDiv: (S.INT_DIVIDE, OPERANDS),
    exp.Pi: (S.PI, ()),
    exp.Radians: (S.RADIANS, ("this",)),
    exp.Degrees: (S.DEGREES, ("this",)),
    exp.Sin: (F.SIN, ("this",)),
    exp.Cos: (F.COS, ("this",)),
    exp.Tan: (F.TAN, ("this",)),
    exp.Cot: (S.COT, ("this",)),
    exp.Asin: (F.ASIN, ("this",)),
    exp.Acos: (F.ACOS, ("this",)),
    exp.Atan: (F.ATAN, ("this",)),
    exp.Atan2: (F.ATAN2, OPERANDS),
    exp.Year: (F.YEAR, ("this",)),
    exp.Quarter: (F.QUARTER, ("this",)),
    exp.Month: (F.MONTH, ("this",)),
    exp.Day: (F.DAY, ("this",)),
    exp.DayOfMonth: (F.DAY, ("this",)),
    exp.DayOfWeek: (F.WEEKDAY, ("this",)),
    exp.Lower: (F.LOWER, ("this",)),
    exp.Upper: (F.UPPER, ("this",)),
    exp.Length: (F.LENGTH, ("this",)),
    exp.Week: (F.WEEK, ("this",)),
    exp.WeekOfYear: (F.WEEK, ("this",)),
    exp.DayOfYear: (F.DAY_OF_YEAR, ("this",)),
    exp.Date: (F.TO_DATE, ("this",)),
    exp.TimeToStr: (S.STRFTIME, ("this", "format")),
    exp.Dayname: (S.DAYNAME, ("this",)),
    exp.Monthname: (S.MONTHNAME, ("this",)),
    exp.LastDay: (S.LAST_DAY, ("this",)),
    exp.DateFromParts: (S.MAKE_DATE, ("year", "month", "day")),
    exp.Substring: (F.SUBSTR, ("this", "start", "length")),
    exp.DPipe: (S.JOIN, OPERANDS),
    exp.Concat: (S.CONCAT, ("expressions",)),
    exp.ConcatWs: (S.CONCAT_WS, ("expressions",)),
    exp.Left: (S.LEFT, OPERANDS),
    exp.Right: (S.RIGHT, OPERANDS),
    exp.StartsWith: (S.STARTS_WITH, OPERANDS),
    exp.EndsWith: (S.ENDS_WITH, OPERANDS),
    exp.Contains: (S.CONTAINS, OPERANDS),
    exp.Replace: (F.REPLACE, ("this", "expression", "replacement")),
    exp.SplitPart: (F.SPLIT_PART, ("this", "delimiter", "part_index")),
    exp.StrPosition: (F.STRPOS, ("this", "substr")),
}
# Arguments that the parser itself sets for this dialect, for example because LEAST skips NULL.
DIALECT_ARGUMENTS: Final[dict[type[exp.Expr], tuple[str, ...]]] = {
    exp.Div: ("typed", "safe"),
    exp.DPipe: ("safe",),
    exp.Concat: ("safe", "coalesce"),
    exp.ConcatWs: ("safe", "coalesce"),
    exp.Least: ("ignore_nulls",),
    exp.Greatest: ("ignore_nulls",),
}
TRIM_FUNCTIONS: Final = {"": F.TRIM, "BOTH": F.TRIM, "LEADING": F.LTRIM, "TRAILING": F.RTRIM}
CASTS: Final[dict[exp.DType, Function | Shorthand]] = {
    exp.DType.INT: F.TO_INT,
    exp.DType.BIGINT: F.TO_INT,
    exp.DType.DOUBLE: F.TO_FLOAT,
    exp.DType.FLOAT: F.TO_FLOAT,
    exp.DType.TEXT: F.TO_TEXT,
    exp.DType.VARCHAR: F.TO_TEXT,
    exp.DType.BOOLEAN: F.TO_BOOL,
    exp.DType.DATE: F.TO_DATE,
    exp.DType.TIMESTAMP: S.TO_TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: S.TO_TIMESTAMP,
}
CAST_ADVICE: Final = (
    "Values can be cast only to BIGINT, DOUBLE, DECIMAL, VARCHAR, BOOLEAN, DATE, or TIMESTAMP. For "
    "other numbers, use DOUBLE, or `ROUND(x, 2)` to round."
)
PART_NODES: Final[dict[type[exp.Expr], str]] = {
    exp.DayOfWeekIso: "isodow",
    exp.TimeToUnix: "epoch",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}
"""Date functions with nodes of their own, and the name of the part that each extracts."""
PART_CALLS: Final = frozenset({"ISOYEAR", "WEEKDAY", "DECADE", "CENTURY", "MILLENNIUM", "YEARWEEK"})
"""Date functions that the parser does not know; each has the name of its part."""
EXTRACTIONS: Final = frozenset({"DATE_PART", "DATEPART"})
"""Functions whose first argument is the name of a part."""
TODAY_ADVICE: Final = (
    "The current date and time are not supported. Write a date, such as `DATE '2020-01-31'`."
)
NOW_FUNCTIONS: Final = ("NOW", "GET_CURRENT_TIMESTAMP", "TRANSACTION_TIMESTAMP")
ADVICE: Final[dict[type[exp.Expr], str]] = {
    **dict.fromkeys(
        (exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.CurrentDatetime), TODAY_ADVICE
    ),
    **dict.fromkeys((exp.Localtime, exp.Localtimestamp), TODAY_ADVICE),
    exp.Window: "Window functions are not supported. Use GROUP BY instead.",
    exp.Subquery: "Subqueries as values are not supported. Run the subquery separately.",
    exp.Exists: "EXISTS is not supported. Join the table, or use a per-unit subquery.",
    exp.Star: "Rows cannot be selected. Select an aggregate, such as `COUNT(*)`.",
    exp.Interval: "An interval is added to a date or subtracted, such as `day + INTERVAL 7 DAY`.",
    exp.Escape: "ESCAPE is not supported.",
    exp.Rand: "Random numbers are not supported. confide adds its own noise.",
    exp.Rollup: "ROLLUP is not supported. Run a query for each grouping.",
    exp.Cube: "CUBE is not supported. Run a query for each grouping.",
    exp.GroupingSets: "GROUPING SETS are not supported. Run a query for each grouping.",
    exp.Order: "ORDER BY inside an aggregate has no effect. Remove it.",
    exp.Distinct: "DISTINCT is supported only in `COUNT(DISTINCT unit)` and in `SELECT DISTINCT` "
    "with keys.",
}


def explain_refusal(node: exp.Expr) -> str:
    """Return the advice for a node that is not supported."""
    if isinstance(node, exp.Query):
        return ADVICE[exp.Subquery]
    if type(node) in ADVICE:
        return ADVICE[type(node)]
    if type(node) is exp.Anonymous and node.name.upper() in NOW_FUNCTIONS:
        return TODAY_ADVICE
    what = "This function" if isinstance(node, exp.Func) else "This"
    if type(node) is exp.Anonymous:  # for other nodes, the parser's name may differ from the text
        what = node.name.upper()
    return (
        f"{what} is not supported. Row expressions can use + - * / %, comparisons, AND OR NOT, IN, "
        "BETWEEN, LIKE, IS NULL, CASE, COALESCE, NULLIF, ABS, FLOOR, CEIL, ROUND, LEAST, GREATEST, "
        "LN, EXP, SQRT, POWER, LOG, SIGN, TRUNC, SIN, COS, TAN, EXTRACT, YEAR, QUARTER, MONTH, "
        "DAY, DAYOFWEEK, DATE_TRUNC, LOWER, UPPER, LENGTH, SUBSTR, LEFT, RIGHT, ||, CONCAT, TRIM, "
        "REPLACE, SPLIT_PART, STRPOS, STARTS_WITH, ILIKE, IF, and CAST."
    )
