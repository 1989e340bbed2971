"""Fixtures for all tests, seed handling, and the rule that CI skips nothing."""

import os
import secrets
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from support.entropy import SeededEntropy
from support.environment import clear_environment
from support.guard import guard_on, turn_guard_off
from support.oracle import ask_oracle
from support.postgres import Postgres, run_postgres
from support.progress import Progress
from support.schedule import LongestFirst, scope_of
from support.spark import Spark, run_spark

SEED: Final = "confide"
PROGRAMS: Final = {"browser", "oracle", "spark"}
IN_CI: Final = os.environ.get("CI", "").lower() == "true"

# The time to generate an example depends on the machine and must not fail a test.
PATIENT: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", PATIENT, derandomize=True, database=None)
settings.register_profile("nightly", PATIENT, max_examples=1_000, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--nightly`` for fresh seeds, ``--progress``, and two options that select tests."""
    parser.addoption("--nightly", action="store_true", help="draw seeds from the system")
    parser.addoption("--progress", action="store_true", help="show the progress, no dots")
    parser.addoption("--seeded", action="store_true", help="run tests that use the seed only")
    parser.addoption("--properties", action="store_true", help="run property tests only")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed for the whole run; clear the settings of the shell and the spending guard."""
    clear_environment(os.environ)
    turn_guard_off()
    nightly = bool(config.getoption("--nightly"))
    settings.load_profile("nightly" if nightly else "fixed")
    chosen = secrets.token_hex(16) if nightly else SEED
    # Worker processes inherit this variable.
    config.stash[SEED_KEY] = seed = os.environ.setdefault("CONFIDE_TEST_SEED", chosen)
    if config.getoption("--progress") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(seed))


def pytest_report_header(config: pytest.Config) -> str:
    """Show the seed, so that any run can be repeated."""
    return f"CONFIDE_TEST_SEED={config.stash[SEED_KEY]}"


SEED_KEY: Final = pytest.StashKey[str]()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LongestFirst | None:
    """Keep each file in one process with ``--dist loadscope``, and run the longest files first."""
    return LongestFirst(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need other programs, and keep those that the options select."""
    for item in items:
        needed = PROGRAMS & {*getattr(item, "fixturenames", ()), scope_of(item.nodeid)}
        for name in needed:
            item.add_marker(name)
    select_items(config, items)


def select_items(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests selected by ``--seeded``, ``--properties``, or both."""
    selectors = {"--seeded": is_seeded, "--properties": is_property}
    chosen = [is_one for option, is_one in selectors.items() if config.getoption(option)]
    if not chosen:
        return
    is_kept = [any(is_one(item) for is_one in chosen) for item in items]
    others = [item for item, is_one in zip(items, is_kept, strict=True) if not is_one]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item, is_one in zip(items, is_kept, strict=True) if is_one]


def is_seeded(item: pytest.Item) -> bool:
    """Return whether a test depends on the run's seed."""
    return "entropy" in getattr(item, "fixturenames", ())


def is_property(item: pytest.Item) -> bool:
    """Return whether Hypothesis chooses a test's examples, independently of the run's seed."""
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


@pytest.fixture
def entropy(request: pytest.FixtureRequest) -> SeededEntropy:
    """Return bits that are determined by the run's seed and the test's name."""
    return SeededEntropy(request.config.stash[SEED_KEY], request.node.nodeid)


@pytest.fixture
def spending_guard() -> Iterator[None]:
    """Turn on the users' default for the largest share that a query costs unconfirmed."""
    with guard_on():
        yield


@pytest.fixture
def oracle() -> Callable[..., Any]:
    """Return a function that runs a program in the oracles' environment."""
    return ask_oracle


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Run one PostgreSQL server for the whole session; each test creates a database in it."""
    with run_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> Iterator[Spark]:
    """Run one Spark for the whole session, which takes about ten seconds to start."""
    with run_spark() as started:
        yield started


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failed one in CI, where every test must run."""
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {call.excinfo.value if call.excinfo else item.name}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a module that skips itself into a failure in CI."""
    report = yield
    if IN_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {collector.nodeid}"
    return report
