"""confide.toml can declare everything, and all its problems are reported at once."""

import re
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest

from confide.declare import (
    ROW,
    Bool,
    Budget,
    Catalog,
    Category,
    Date,
    Declaration,
    Float,
    Int,
    Limit,
    Limits,
    PublicTable,
    Table,
    Text,
    read_toml,
)
from confide.declare.toml import (
    ANALYST,
    BUDGET,
    COLUMNS,
    LEDGER,
    PUBLIC_TABLE,
    TABLE,
    parse_toml,
)
from confide.errors import BadDeclaration
from confide.mechanisms import Neighbours
from support.tree import ROOT

FULL_TOML = """\
[budget]
epsilon = 2.0
delta = 1e-8
accounting = "renyi"
neighbours = "replace"
max_share_per_query = "5%"

[ledger]
url = "sqlite:///ledger.db"
anchor = "anchors/visits.log"
reuse = "all"

[limits]
month = "10%"

[tables.visits]
source = "data/visits.parquet"
unit = "patient_id"
max_rows_per_unit = 20
max_groups_per_unit = 5
version = 3

[tables.visits.columns]
age = { type = "int", low = 0, high = 120 }
cost = { type = "float", low = 0, high = 5_000, step = 0.01 }
ward = { type = "category", values = ["A", "B"], null = true }
grade = { type = "category", values = [1, 2, 3] }
diagnosis = { type = "text" }
smoker = { type = "bool" }
day = { type = "date", low = 2020-01-01, high = "2026-12-31" }

[tables.people]
source = "/elsewhere/people.csv"
unit = "ROW"

[tables.people.columns.income]
type = "int"
low = 0
high = 1_000_000

[public_tables.icd]
source = "icd.csv"
version = "2019"

[analysts.ana]
share = 0.25
max_share_per_query = 1

[analysts."bo@example.org"]
share = "10%"
week = 0.01

[purposes.planning]
share = "1/2"
"""
MIN_TOML = """\
[budget]
epsilon = 1

[tables.t]
source = "t.csv"
unit = "id"
columns = { x = { type = "bool" } }
"""

LOOSE = "1\nmax_share_per_query = 2\n"


def read(text: str, folder: str = "/home") -> Declaration:
    return parse_toml(text, name="confide.toml", folder=Path(folder))


def problems(text: str) -> list[str]:
    """Return the problems of a declaration, without the heading."""
    with pytest.raises(BadDeclaration) as caught:
        read(text)
    heading, *listed = str(caught.value).splitlines()
    count = int(re.findall(r"^`confide\.toml` has (\d+) problems?:$", heading)[0])
    assert count == len(listed)
    return [line.strip() for line in listed]


def test_a_file_declares_everything_that_python_can() -> None:
    """Each table of a file equals the one declared in Python."""
    found = read(FULL_TOML)
    visits = Table(
        "visits",
        "",
        unit="patient_id",
        columns={
            "age": Int(0, 120),
            "cost": Float(0, 5_000, step=0.01),
            "ward": Category(["A", "B", None]),
            "grade": Category([1, 2, 3]),
            "diagnosis": Text(),
            "smoker": Bool(),
            "day": Date(date(2020, 1, 1), date(2026, 12, 31)),
        },
        max_rows_per_unit=20,
        max_groups_per_unit=5,
        version="3",
    )
    people = Table("people", "", unit=ROW, columns={"income": Int(0, 10**6)})
    icd = PublicTable("icd", "", version="2019")

    assert (visits, people) == found.tables
    assert (icd,) == found.public_tables
    assert Catalog([visits, people, icd]).fingerprint() == (
        Catalog([*found.tables, *found.public_tables]).fingerprint()
    )
    budget = Budget(2, Fraction(1, 10**8), accounting="renyi", max_share_per_query="5%")
    assert budget == found.budget
    assert Neighbours.REPLACE is found.neighbours
    assert ("sqlite:////home/ledger.db", "/home/anchors/visits.log") == (found.ledger, found.anchor)
    assert found.limits == Limits(
        month="10%",
        analysts={
            "ana": Limit(0.25, max_share_per_query=1),
            "bo@example.org": Limit("10%", week=0.01),
        },
        purposes={"planning": "1/2"},
        reuse="all",
    )


def test_omitted_keys_have_their_defaults() -> None:
    """A minimal file is pure, add-remove, in memory, one row per unit, and without analysts."""
    found = read(MIN_TOML)

    assert (Budget(1), Neighbours.ADD_REMOVE, None) == (
        found.budget,
        found.neighbours,
        found.ledger,
    )
    assert Limits() == found.limits
    assert (1, False) == (found.tables[0].max_rows_per_unit, found.tables[0].unique)


@pytest.mark.parametrize(
    ("expected", "written"),
    [
        ("/home/t.csv", "t.csv"),
        ("/home/../t.csv", "../t.csv"),
        ("/abs/t.csv", "/abs/t.csv"),
        ("postgresql://host/db?table=t", "postgresql://host/db?table=t"),
    ],
)
def test_sources_are_relative_to_the_file(expected: str, written: str) -> None:
    """A relative path starts at the file's folder; addresses and absolute paths are kept."""
    assert expected == read(MIN_TOML.replace("t.csv", written)).tables[0].source


@pytest.mark.parametrize(
    ("expected", "written"),
    [
        ("sqlite:////home/ledger.db", "sqlite:///ledger.db"),
        ("sqlite:////abs/ledger.db", "sqlite:////abs/ledger.db"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("/home/ledger.db", "ledger.db"),
        ("postgresql://host/db", "postgresql://host/db"),
    ],
)
def test_the_ledger_is_relative_to_the_file(expected: str, written: str) -> None:
    """A relative path of a ledger starts at the file's folder."""
    assert expected == read(f'[ledger]\nurl = "{written}"\n{MIN_TOML}').ledger


def test_a_file_is_read_from_its_own_folder(tmp_path: Path) -> None:
    """read_toml resolves paths against the file's folder, not the working directory."""
    file = tmp_path / "confide.toml"
    file.write_text(MIN_TOML, encoding="utf-8")

    assert str(tmp_path / "t.csv") == read_toml(file).tables[0].source


BROKEN = """\
[budget]
epsilon = -2.0
delta = "much"
acounting = "auto"
neighbours = "remove"

[ledger]
uri = "x.db"

[tables.visits]
source = "visits.parquet"
max_rows_per_unit = "20"
unique = 1

[tables.visits.columns]
age = { type = "int", low = 120, high = 0 }
ward = { type = "category", values = [] }
cost = { type = "float", low = "x", hi = 3 }
"bad name " = { type = "txt" }
day = { type = "date", low = 2020-01-01, high = "soon" }
sex = "bool"

[tables.labs]
source = "l.csv"
unit = "AGE"
unique = true
max_rows_per_unit = 3
columns = { age = { type = "int", low = 0, high = 1.5 } }

[tables.none]
source = "n.csv"
unit = "id"

[public_tables.icd]
sorce = "icd.csv"

[analysts.ana]
share = 1.5

[analysts."b c"]

[extra]
"""


def test_every_problem_is_reported_at_once_with_its_line() -> None:
    """One error reports every problem, each with its line."""
    expected = [
        "line 2: budget: `epsilon` must be a finite number greater than 0",
        "line 3: budget: `delta` must be a number at least 0 and less than 1",
        "line 4: budget: Unknown key 'acounting'. Did you mean 'accounting'?",
        "line 5: budget: `neighbours` must be 'add-remove' or 'replace'",
        "line 7: ledger: `url` is missing",
        "line 8: ledger: Unknown key 'uri'. Did you mean 'url'?",
        "line 10: tables.visits: `unit` is missing",
        "line 12: tables.visits: `max_rows_per_unit` must be an integer",
        "line 13: tables.visits: `unique` must be true or false",
        "line 16: tables.visits.columns.age: `low` must be at most `high`; got low=120, high=0",
        "line 17: tables.visits.columns.ward: `values` must be a list of at least one value",
        "line 18: tables.visits.columns.cost: Unknown key 'hi'. Did you mean 'high'?",
        "line 18: tables.visits.columns.cost: `high` is missing",
        "line 18: tables.visits.columns.cost: `low` must be a finite number",
        "line 19: tables.visits.columns.bad name : `name` must be the name of a column",
        "line 19: tables.visits.columns.bad name : `type` must be one of int, float",
        "line 20: tables.visits.columns.day: `high` must be a date",
        "line 21: tables.visits.columns.sex: A column must have a type",
        "line 23: tables.labs: The unit 'AGE' is also declared as a column",
        "line 23: tables.labs: `unique=True` needs `max_rows_per_unit=1`",
        "line 28: tables.labs.columns.age: `high` must be an integer",
        "line 30: tables.none.columns: The section is missing",
        "line 34: public_tables.icd: `source` is missing",
        "line 35: public_tables.icd: Unknown key 'sorce'. Did you mean 'source'?",
        "line 38: analysts.ana: `share` must be at most 1",
        "line 40: analysts.b c: A name must have",
        "line 40: analysts.b c: `share` is missing",
        "line 42: Unknown key 'extra'",
    ]
    found = problems(BROKEN)

    assert len(expected) == len(found)
    for start, line in zip(expected, found, strict=True):
        assert line.startswith(start), line


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (
            "The section `[budget]` is missing",
            MIN_TOML[MIN_TOML.index("[tables") :],
        ),
        (
            "At least one private table is needed",
            MIN_TOML[: MIN_TOML.index("[tables")],
        ),
        (
            "Accounting 'renyi' needs a `delta`",
            MIN_TOML.replace("= 1", '= 1\naccounting = "renyi"'),
        ),
        ("t more than once", MIN_TOML + '[public_tables.T]\nsource = "t.csv"\n'),
        ("budget: This must be a section", MIN_TOML.replace("[budget]\nepsilon", "budget")),
        ("tables.t: This must be a section", "[budget]\nepsilon = 1\n[tables]\nt = 5\n"),
        (
            "columns: This must be a section",
            MIN_TOML.replace('{ x = { type = "bool" } }', "5"),
        ),
        ("At least one column", MIN_TOML.replace('{ x = { type = "bool" } }', "{}")),
        ("`unit` must be the name of a column", MIN_TOML.replace('"id"', '"my id "')),
        ("`source` must be a string", MIN_TOML.replace('"t.csv"', "5")),
        (
            "`step` must be at least",
            MIN_TOML.replace('"bool"', '"float", low=0, high=1, step=1e-30'),
        ),
        ("Unknown key 'low'", MIN_TOML.replace('"bool"', '"text", low = 0')),
        (
            "`reuse` must be 'own' or 'all'",
            f'[ledger]\nurl = "x.db"\nreuse = "no"\n{MIN_TOML}',
        ),
        ("limits: Unknown key 'hour'", f"[limits]\nhour = 0.1\n{MIN_TOML}"),
        ("budget: `max_share_per_query` must be at most 1", MIN_TOML.replace("1\n", LOOSE, 1)),
        (
            "purposes.p: Unknown key 'max_share_per_query'",
            f"[purposes.p]\nshare=1\nmax_share_per_query=1\n{MIN_TOML}",
        ),
        ("limits: `day` must be", f"[limits]\nday = 0\n{MIN_TOML}"),
        (
            "purposes.p: `month` must be at most 1",
            f"[purposes.p]\nshare=1\nmonth=2\n{MIN_TOML}",
        ),
        ("`unit=ROW` needs", MIN_TOML.replace('"id"', '"ROW"\nmax_rows_per_unit = 2')),
    ],
)
def test_each_problem_is_named(said: str, text: str) -> None:
    """A file with one mistake is refused for that mistake alone."""
    [problem] = problems(text)

    assert said in problem


def test_a_syntax_error_is_refused_with_its_line() -> None:
    """A syntax error is reported at the line where the parser found it."""
    with pytest.raises(BadDeclaration, match=r"not TOML.*Line 2"):
        read("[budget]\nepsilon = \n")


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("Replace LOW and HIGH with numbers", "age = { low = LOW, high = HIGH }"),
        ("Replace YYYY-MM-DD with dates", "day = { low = YYYY-MM-DD }"),
        ('write a value as in `unit = "person"`', "unit = person"),
        ("url", 'url = "postgresql://me:secret@db'),
    ],
)
def test_a_placeholder_is_reported(said: str, line: str) -> None:
    """The error shows the line of a placeholder with advice, but no part of an address."""
    with pytest.raises(BadDeclaration, match="Line 2") as caught:
        read(f"[budget]\n{line}\n")

    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_missing_or_binary_file_is_a_bad_declaration(tmp_path: Path) -> None:
    """A file that cannot be read raises BadDeclaration."""
    binary = tmp_path / "confide.toml"
    binary.write_bytes(b"\xff\xfe")

    with pytest.raises(BadDeclaration, match="confide init"):
        read_toml(tmp_path / "none.toml")
    with pytest.raises(BadDeclaration, match="UTF-8"):
        read_toml(binary)


def test_the_page_shows_a_file_that_is_accepted() -> None:
    """The example in docs/declaration.md declares what the page says, every key included."""
    page = (ROOT / "docs" / "declaration.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    found = read(example)
    shown = {key for section in (BUDGET, TABLE, PUBLIC_TABLE, ANALYST, LEDGER) for key in section}
    shown |= {key for _, fields in COLUMNS.values() for key in fields}

    assert ["visits", "people"] == [table.name for table in found.tables]
    assert set() == {key for key in shown if f"{key} =" not in page}
