"""A registered statistic works in Python, over HTTP, and for agents, without further code.

The tests register the share of rows between two numbers.
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any, Final

import anyio
import numpy as np
import pyarrow as pa
import pytest
from tools.write_statistics import ROOT, write_files, write_method, write_remote_method, write_table

import confide as cf
from confide.audit.method_cases import method_cases
from confide.audit.query_cases import open_sides
from confide.audit.worlds import Person
from confide.client import connect
from confide.declare import Column, Table
from confide.exact import Number
from confide.mcp import make_tools
from confide.mechanisms import Neighbours
from confide.query import TableQuery, canonical, case, col, count
from confide.query import sum as total
from confide.server.agents import ServiceBackend
from confide.server.serialization import show_estimate
from confide.statistics.arguments import ENDS, Argument, ColumnName, TableName
from confide.statistics.estimate import (
    Estimate,
    EstimateContext,
    charge_and_release,
    make_estimate,
    read_sums,
    release_totals,
)
from confide.statistics.formula import number_column, read_within
from confide.statistics.registry import STATISTICS, register
from confide.statistics.replicas import sample_parts, thin
from confide.statistics.spec import StatisticSpec
from mcp import Client
from support.agents import call, caller_of, service_of, text_of, tools_of
from support.service import House, open_house, serving
from support.tree import run_python


@dataclass(frozen=True, slots=True)
class ShareArguments:
    """The arguments of `share_between`."""

    table: TableName
    column: ColumnName
    _: KW_ONLY
    between: Annotated[Sequence[Number], Argument("[low, high], both included", (ENDS,))]


def estimate_share(context: EstimateContext, arguments: ShareArguments) -> Estimate:
    """Return the share of rows whose value lies between two numbers.

    Law:     a noisy count of rows, and a noisy count of those between the two numbers.
    Claim:   costs the granted share.
    Why:     both counts are one release of totals, and the rest is post-processing.
    """
    name = number_column(context, arguments.table, arguments.column).name
    ends = read_within(arguments.between, "between") or (0.0, 0.0)
    inside = case(((col(name) >= ends[0]) & (col(name) <= ends[1]), 1), otherwise=0)
    rows = TableQuery(arguments.table).where(col(name).not_null())
    query = context.planner.read(rows.agg(rows=count(), inside=total(inside)))
    paid = charge_and_release(
        context,
        {"estimate": "share between", "query": canonical(query)},
        lambda share: context.plan(query, share),
        lambda plan, hold: {"steps": release_totals(context.executor, plan, hold)},
    )
    sums = read_sums(paid.prepared, paid.noisy["steps"])
    moved = sums.values[0] + thin(sums.noise)
    size = np.maximum(moved[:, :1], 1.0)
    replicas = sample_parts(np.clip(moved[:, 1:] / size, 0.0, 1.0), size)
    share = np.clip(sums.values[0, 1:] / max(sums.values[0, 0], 1.0), 0.0, 1.0)
    return make_estimate(f"share of {name}", ("share",), share, replicas, paid)


SHARE: Final = StatisticSpec(
    name="share_between",
    arguments=ShareArguments,
    estimate=estimate_share,
    summary="the share of rows whose value lies between two numbers",
    audit=lambda table: (
        ShareArguments(table.name, numbers[0], between=(0, 50))
        if (numbers := table.names_of(cf.Int, cf.Float))
        else None
    ),
    trial="from 0 to 50",
)
ASKED: Final = {"statistic": "share_between", "table": "visits", "column": "age"}
COST: Final[dict[str, Any]] = {"share": "1/100"}
BETWEEN: Final = {**ASKED, "between": [20, 59], **COST}


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """Register the statistic before any application or tool is created."""
    register(SHARE)
    try:
        yield
    finally:
        del STATISTICS[SHARE.name]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A running server."""
    with open_house(tmp_path) as opened:
        yield opened


@pytest.fixture
def curator() -> cf.Curator:
    """A curator of 1,000 rows, 40% of which are from 20 to 59."""
    rows = pa.table({"pid": range(1_000), "age": [n % 100 for n in range(1_000)]})
    table = cf.Table("visits", rows, unit="pid", columns={"age": cf.Int(0, 120)}, unique=True)
    return cf.Curator([table], budget=cf.Budget(10**10))


def test_python_runs_a_registered_statistic(curator: cf.Curator) -> None:
    """With negligible noise, it is the share of the rows, with the interval of 1,000 rows."""
    found = curator.estimate("share_between", "visits", column="age", between=(20, 59), epsilon=1e9)
    again = curator.estimate("share_between", "visits", column="age", between=(20, 59), epsilon=1e9)
    low, high = found.interval(0.95)

    assert 0.4 == pytest.approx(found.value, abs=1e-6)
    assert np.sqrt(0.4 * 0.6 / 1_000) == pytest.approx(found.standard_error, rel=0.02)
    assert 2 * 1.96 * np.sqrt(0.4 * 0.6 / 1_000) == pytest.approx(high - low, rel=0.02)
    assert (again.reused, found.value) == (True, again.value)
    assert 0.1 == pytest.approx(float(curator.budget.spent.share), rel=1e-6)


def test_http_runs_a_registered_statistic(house: House) -> None:
    """Its request is in the OpenAPI document, charged once, and validated field by field."""
    schemas = house.get("/openapi.json").json()["components"]["schemas"]
    first = house.post("/v1/statistics", BETWEEN).json()
    again = house.post("/v1/statistics", BETWEEN).json()
    refused = [
        house.post("/v1/statistics", {**ASKED, **COST}),
        house.post("/v1/statistics", {**BETWEEN, "between": [20]}),
        house.post("/v1/statistics", {**BETWEEN, "bins": 3}),
        house.post("/v1/statistics", {**BETWEEN, "statistic": "share_above"}),
    ]

    assert "between" in schemas["ShareBetweenStatisticRequest"]["required"]
    assert "[low, high]" in str(schemas["ShareBetweenStatisticRequest"]["properties"]["between"])
    assert 0 <= first["lows"][0] <= first["values"][0] <= first["highs"][0] <= 1
    assert (["share"], "one", None) == tuple(first[name] for name in ("names", "form", "p_value"))
    assert (first["values"], True) == (again["values"], again["reused"])
    assert [(422, "malformed-request")] * 4 == [
        (one.status_code, one.json()["error"]["code"]) for one in refused
    ]
    assert "1/100" == house.get("/v1/budget").json()["spent"]["share"]


def test_a_connection_runs_a_registered_statistic(tmp_path: Path) -> None:
    """`connect(...).estimate` sends its arguments by name, and fetches other levels."""
    with (
        open_house(tmp_path) as house,
        serving(house.app) as address,
        connect(address, house.ana) as ana,
    ):
        given: dict[str, Any] = {"column": "age", "between": (20, Fraction(59)), **COST}
        found = ana.estimate("share_between", "visits", **given, confidence=0.5)
        wide = found.interval(0.99)
        same = ana.estimate("mean", "visits", column="age", bounds=np.array([0, 100]), **COST)

        assert wide[0] <= found.interval(0.5)[0] <= found.value <= wide[1]
        assert same.value == ana.mean("visits", "age", bounds=(0, "100"), **COST).value
        assert "1/50" == str(ana.budget.spent.share)


def test_each_kind_of_result_is_shown_in_a_row() -> None:
    """Densities have edges, tests have a p-value, and unknown values are null."""
    rng = np.random.default_rng(0)
    rows = {"pid": range(500), "age": rng.integers(0, 99, 500)}
    rows |= {name: rng.random(500) < 0.4 for name in ("smoker", "insured")}
    columns: dict[str, Column] = {"age": cf.Int(0, 99), "smoker": cf.Bool(), "insured": cf.Bool()}
    table = cf.Table("people", pa.table(rows), unit="pid", columns=columns, unique=True)
    curator = cf.Curator([table], budget=cf.Budget(100))
    density = curator.density("people", "age", bins=4, epsilon=1)
    means = curator.compare_means("people", "age", by="smoker", epsilon=1)
    joint = curator.independence("people", "smoker", "insured", epsilon=1)
    bins, difference, squares = (
        show_estimate("any", found, 0.9) for found in (density, means, joint)
    )

    assert ("bins", ["0", "1", "2", "3"]) == (bins.form, bins.names)
    assert (list(density.value), list(density.edges)) == (bins.values, bins.edges)
    assert (bins.lows, bins.highs) == tuple(list(ends) for ends in density.interval(0.9))
    assert list(density.standard_error) == bins.standard_errors
    assert ("one", ["False - True"]) == (difference.form, difference.names)
    assert (means.value, means.standard_error) == (
        difference.values[0],
        difference.standard_errors[0],
    )
    assert means.interval(0.9) == (difference.lows[0], difference.highs[0])
    assert (means.p_value, None) == (difference.p_value, bins.p_value)
    assert ("one", ["chi_square"], [joint.statistic]) == (
        squares.form,
        squares.names,
        squares.values,
    )
    assert [None] == squares.standard_errors == squares.lows == squares.highs
    assert joint.p_value == squares.p_value


def test_an_agent_runs_a_registered_statistic(house: House) -> None:
    """The tool's schema and description include it; unknown and missing arguments are refused."""
    tools = tools_of(house)

    async def listed() -> Any:
        async with Client(tools) as client:
            every = (await client.list_tools()).tools
            return next(tool for tool in every if tool.name == "estimate")

    tool = anyio.run(listed)
    answered, misspelled, short, other = call(
        tools,
        ("estimate", BETWEEN),
        ("estimate", {**BETWEEN, "betwen": [1, 2]}),
        ("estimate", {**ASKED, **COST}),
        ("estimate", {**BETWEEN, "bins": 3}),
    )

    assert "share_between (column, between): the share of rows" in tool.description
    assert "[low, high], both included" == tool.input_schema["properties"]["between"]["description"]
    assert "share_between" in tool.input_schema["properties"]["statistic"]["enum"]
    assert 0 <= answered.structured_content["values"][0] <= 1
    assert "unknown argument 'betwen' (did you mean `between`?)" in text_of(misspelled)
    assert "malformed-request: " in text_of(short)
    assert "malformed-request: " in text_of(other)
    assert "1/100" == house.get("/v1/budget").json()["spent"]["share"]


def test_a_registered_statistic_is_audited(tmp_path: Path) -> None:
    """The audit of a declaration runs it on both sides and gets numbers."""
    table = Table("visits", "nowhere.parquet", unit="pid", columns={"age": cf.Int(0, 120)})
    people = (None, Person.HIGH)
    sides = open_sides([table], cf.Budget(1), Neighbours.ADD_REMOVE, people, tmp_path)
    subject = "share_between: from 0 to 50"
    (case_of,) = (one for one in method_cases(sides, 16, epsilon=3) if one.subject == subject)
    finding = case_of.run(1e-9)

    assert finding.evidence is not None, finding.note


@pytest.mark.parametrize("path", write_files(), ids=lambda path: path.stem)
def test_generated_files_are_up_to_date(path: Path) -> None:
    """The checked-in methods and table equal the output of `make generate`."""
    assert write_files()[path] == (ROOT / path).read_text(encoding="utf-8")


def test_a_new_spec_changes_the_generated_files() -> None:
    """A spec generates its methods, with types and docstrings, and its row of the table."""
    method, remote = write_method(SHARE), write_remote_method(SHARE)

    assert (
        "def share_between(self, table: str, column: str, *, between: Sequence[Number], "
        "fresh: bool = False, key: str | None = None, confirm: bool = False, "
        "**want: Unpack[CostArgs]) -> "
        '"Estimate":' in method
    )
    assert "estimate_share(context, test_registry.ShareArguments(" in method
    assert "between: Sequence[Number], **want: Unpack[EstimateArgs]) -> RemoteEstimate:" in remote
    assert '"between": encode_numbers(between)}' in remote
    assert '"""Return the share of rows whose value lies between two numbers."""' in remote
    assert "| `share_between` | `column`, `between` | the share of rows" in write_table([SHARE])


def test_all_interfaces_have_the_same_arguments(house: House) -> None:
    """Methods, requests, and the tool take the declared arguments; functions only in Python."""
    schemas = house.get("/openapi.json").json()["components"]["schemas"]
    added = {"statistic", "epsilon", "share", "confidence", "fresh", "key", "confirm"}
    costs = {"self", "epsilon", "share", "fresh", "key", "confirm"}
    for name, spec in STATISTICS.items():
        own, remote = ({one.name for one in some} for some in (spec.fields, spec.remote_fields))
        fields = schemas[f"{name.title().replace('_', '')}StatisticRequest"]["properties"]

        assert remote | added == set(fields)
        if name == SHARE.name:
            continue
        local, away = (
            getattr(kind, name) for kind in (cf.Curator, type(connect("http://localhost", "t")))
        )
        assert isinstance(local, FunctionType)
        assert own | costs == set(inspect.signature(local).parameters)
        assert remote | costs | {"confidence"} == set(inspect.signature(away).parameters)
    assert {"columns", "bounds", "method", "corrected"} == {
        one.name for one in STATISTICS["sample_and_aggregate"].fields if not one.is_remote
    }


def test_a_wrong_call_by_name_is_refused(curator: cf.Curator) -> None:
    """Unknown names of statistics and arguments are refused before a charge."""
    with pytest.raises(cf.Refusal, match=r"Unknown statistic 'midrange'\. Choose one of density,"):
        curator.estimate("midrange", "visits", column="age", epsilon=1)
    with pytest.raises(
        cf.Refusal, match=r"Wrong arguments for `mean`: .*'bins'.*takes table, column, bounds"
    ):
        curator.estimate("mean", "visits", column="age", bins=3, epsilon=1)
    with pytest.raises(cf.Refusal, match=r"Wrong arguments for `mean`: missing .*'column'"):
        curator.estimate("mean", "visits", epsilon=1)
    with pytest.raises(cf.Refusal, match="exactly one of `epsilon=`"):
        curator.estimate("mean", "visits", column="age")
    with pytest.raises(cf.Refusal, match="Pass `epsilon=` or `share="):
        curator.estimate("mean", "visits", column="age", error=1)
    assert 0 == curator.budget.spent.share


@dataclass(frozen=True, slots=True)
class _Priced:
    table: TableName
    share: ColumnName


@dataclass(frozen=True, slots=True)
class _Bare:
    table: TableName
    column: str


def test_a_spec_is_checked_when_it_is_made() -> None:
    """A duplicate name, a reserved argument, or an argument without help is refused."""
    with pytest.raises(ValueError, match="'share_between' already exists"):
        register(SHARE)
    priced: Any = _Priced
    bare: Any = _Bare
    with pytest.raises(ValueError, match="not include any of confidence"):
        replace(SHARE, arguments=priced)
    with pytest.raises(TypeError, match=r"`_Bare\.column` must be annotated"):
        replace(SHARE, arguments=bare)
    with pytest.raises(ValueError, match="must be an identifier"):
        replace(SHARE, name="share between")


def test_tools_take_the_statistics_registered_at_creation(house: House) -> None:
    """Tools created before a statistic was registered refuse it; those created later accept it."""
    del STATISTICS[SHARE.name]
    try:
        early = make_tools(lambda _: ServiceBackend(service_of(house), caller_of(house, house.ana)))
    finally:
        register(SHARE)
    (refused,), (answered,) = (
        call(early, ("estimate", BETWEEN)),
        call(tools_of(house), ("estimate", BETWEEN)),
    )

    assert "malformed-request: " in text_of(refused)
    assert not answered.is_error


def test_the_registry_needs_no_scipy() -> None:
    """The curator imports no statistics, and the registry imports neither SciPy nor pydantic."""
    program = "import sys, {0}; print(*sorted({{'scipy', 'pydantic', {1!r}}} & set(sys.modules)))"
    moments, registry = "confide.statistics.moments", "confide.statistics.registry"

    assert "" == run_python("-c", program.format("confide.curator", moments)).strip()
    assert registry == run_python("-c", program.format(registry, registry)).strip()
