"""Questions that suit a declaration: every statistic and every kind of key that it allows."""

# ruff: noqa: S608  # names are declared ones, and the text goes to the curator's own reader

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from confide.declare import Bool, Category, Column, Float, Int, Row, Table, Text

__all__ = ["Parts", "count_all", "key_column", "make_questions", "make_scores"]


@dataclass(frozen=True, slots=True)
class Parts:
    """The columns of a table by what can be asked about them; flags are true or false."""

    numbers: tuple[str, ...]
    keys: tuple[str, ...]
    texts: tuple[str, ...]
    flags: tuple[str, ...]

    @classmethod
    def of(cls, table: Table) -> "Parts":
        """Return the columns of a table, sorted."""

        def named(*kinds: type[Column]) -> tuple[str, ...]:
            columns = table.columns.items()
            return tuple(name for name, column in columns if isinstance(column, kinds))

        return cls(named(Int, Float), named(Category, Bool), named(Text), named(Bool))

    def quoted(self) -> "Parts":
        """Return the same names as SQL quotes them."""
        every = (self.numbers, self.keys, self.texts, self.flags)
        return Parts(*(tuple(f'"{name}"' for name in names) for names in every))


def make_questions(tables: Sequence[Table]) -> list[str]:
    """Return questions about all the private tables, alone and joined."""
    questions = [text for table in tables for text in _about(table)]
    joined = [table for table in tables if not isinstance(table.unit, Row)]
    for first, second in pairwise(joined):
        pair = (
            f'"{first.name}" AS a JOIN "{second.name}" AS b ON a."{first.unit}" = b."{second.unit}"'
        )
        questions.append(f"SELECT COUNT(*) AS n FROM {pair}")
    return questions


def _about(table: Table) -> Iterator[str]:
    parts, name = Parts.of(table).quoted(), f'"{table.name}"'
    yield count_all(table)
    for number in parts.numbers[:2]:
        yield f"SELECT SUM({number}) AS s FROM {name}"
        yield f"SELECT AVG({number}) AS m, COUNT({number}) AS n FROM {name}"
    for number in parts.numbers[:1]:
        yield f"SELECT VAR_SAMP({number}) AS v FROM {name}"
        yield f"SELECT SUM({number} * {number} + 1) AS s FROM {name} WHERE {number} IS NOT NULL"
        yield f"SELECT MEDIAN({number}) AS q FROM {name}"
        for level in ("0.1", "0.9"):
            yield f"SELECT QUANTILE_CONT({number}, {level}) AS q FROM {name}"
    for key in parts.keys[:2]:
        yield f"SELECT {key}, COUNT(*) AS n FROM {name} GROUP BY {key}"
    for key in parts.keys[:1]:
        yield f"SELECT {key} FROM {name} GROUP BY {key} ORDER BY COUNT(*) DESC LIMIT 1"
        for number in parts.numbers[:1]:
            yield f"SELECT {key}, SUM({number}) AS s, COUNT(*) AS n FROM {name} GROUP BY {key}"
            yield f"SELECT {key}, MEDIAN({number}) AS q FROM {name} GROUP BY {key}"
    for text in parts.texts[:1]:
        yield f"SELECT {text}, COUNT(*) AS n FROM {name} GROUP BY {text}"
    if not isinstance(table.unit, Row):
        yield from _about_units(table, parts)


def _about_units(table: Table, parts: Parts) -> Iterator[str]:
    name, unit = f'"{table.name}"', f'"{table.unit}"'
    for key in parts.keys[:1]:
        yield f"SELECT {key}, COUNT(DISTINCT {unit}) AS n FROM {name} GROUP BY {key}"
    for number in parts.numbers[:1]:
        inner = f"SELECT {unit}, SUM({number}) AS s FROM {name} GROUP BY {unit}"
        yield f"SELECT AVG(s) AS m FROM ({inner}) AS each_unit"


def make_scores(table: Table) -> dict[str, str]:
    """Return two counts, of about as many invented rows each, of which an outlier changes one."""
    everything = count_all(table)
    for name, column in table.columns.items():
        if isinstance(column, Int | Float):
            middle = float((column.low + column.high) / 2)
            return {
                "upper half": f'{everything} WHERE "{name}" >= {middle!r}',
                "lower half": f'{everything} WHERE "{name}" < {middle!r}',
            }
    return {"everybody": everything, "everybody once more": f"{everything} WHERE 1 = 1"}


def count_all(table: Table) -> str:
    """Return the question how many rows there are."""
    return f'SELECT COUNT(*) AS n FROM "{table.name}"'


def key_column(table: Table) -> tuple[str, tuple[str | int | None, ...]] | None:
    """Return the name of a column whose keys are declared, with the keys, if there is one."""
    for name, column in table.columns.items():
        if isinstance(column, Category):
            return name, column.values
        if isinstance(column, Bool):
            return name, (False, True)
    return None
