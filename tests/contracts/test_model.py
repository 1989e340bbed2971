"""Every ledger compared with a model of thirty lines, step by step."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from confide.declare import Limits
from confide.errors import BudgetExceeded
from confide.ledger import AnsweredAlready, Hold, KeyUsed, Ledger, QueryIdentity, StoredAnswer
from confide.loss import UNITS, Share
from support.ledgers import WHOLE, Home

STEPS: Final = int(os.environ.get("CONFIDE_MODEL_STEPS", "10000"))
EACH: Final = 50
LIMITS: Final = Limits(analysts={"ana": "3/4", "bob": "1/2"}, reuse="all")
MAX_UNITS: Final = {"ana": UNITS * 3 // 4, "bob": UNITS // 2}


class Model:
    """A model of a ledger, built only from lists and dictionaries."""

    def __init__(self) -> None:
        self.charges: list[tuple[str, str, int]] = []  # analyst, text, units
        self.answers: dict[int, int] = {}  # charge -> value
        self.keys: dict[tuple[str, str], int] = {}

    def spent(self, analyst: str | None = None) -> int:
        return sum(units for who, _, units in self.charges if analyst in (None, who))

    def reserve(self, analyst: str, text: str, units: int, key: str) -> str:
        if key and (analyst, key) in self.keys:
            return "key"
        if self.spent() + units > UNITS or self.spent(analyst) + units > MAX_UNITS[analyst]:
            return "budget"
        self.charges.append((analyst, text, units))
        if key:
            self.keys[analyst, key] = len(self.charges) - 1
        return "granted"

    def commit(self, charge: int, value: int) -> str:
        if charge in self.answers:
            return "answered"
        self.answers[charge] = value
        return "kept"

    def resume(self, analyst: str, text: str, key: str) -> object:
        charge = self.keys.get((analyst, key))
        if charge is None or self.charges[charge][1] != text:
            return None if charge is None else "key"
        return self.answers.get(charge, "held")

    def stored(self, text: str) -> int | None:
        found = [charge for charge in self.answers if self.charges[charge][1] == text]
        return self.answers[max(found)] if found else None


ANALYSTS: Final = st.sampled_from(["ana", "bob"])
TEXTS: Final = st.sampled_from(["SELECT 1", "SELECT 2"])
NAMES: Final = st.sampled_from(["", "", "j", "k"])


@contextmanager
def outcomes() -> Iterator[list[str]]:
    """Record the refusal that ended a block, if any."""
    result: list[str] = []
    try:
        yield result
    except KeyUsed:
        result[:] = ["key"]
    except BudgetExceeded:
        result[:] = ["budget"]
    except AnsweredAlready:
        result[:] = ["answered"]


class Comparison(RuleBasedStateMachine):
    """Runs each step on the ledger and on the model."""

    home: Home

    def __init__(self) -> None:
        super().__init__()
        self.model, self.holds = Model(), list[Hold]()
        self.ledger: Ledger = self.home.open(WHOLE, LIMITS)

    @rule(who=ANALYSTS, text=TEXTS, part=st.integers(1, 16), key=NAMES, of=st.integers(1, 60))
    def reserve(self, who: str, text: str, part: int, key: str, of: int) -> None:
        """Charge a fraction that is not an integer number of units."""
        units = UNITS * part // (of * 7 + 1) + 1
        with outcomes() as result:
            self.holds.append(
                self.ledger.reserve(QueryIdentity(text, "v", who), Share(units), key=key)
            )
            result[:] = ["granted"]
        assert [self.model.reserve(who, text, units, key)] == result

    @rule(place=st.integers(0, 10**6), value=st.integers())
    def commit(self, place: int, value: int) -> None:
        """Answer one of the charges, perhaps a second time."""
        if not self.holds:
            return
        charge = place % len(self.holds)
        with outcomes() as result:
            self.ledger.commit(self.holds[charge], {"value": value})
            result[:] = ["kept"]
        assert [self.model.commit(charge, value)] == result

    @rule(who=ANALYSTS, text=TEXTS, key=st.sampled_from(["j", "k"]))
    def resume(self, who: str, text: str, key: str) -> None:
        """Resume a key."""
        found: Any = None
        with outcomes() as result:
            found = self.ledger.resume(QueryIdentity(text, "v", who), key)
        if isinstance(found, StoredAnswer):
            found = found.noisy["value"]
        elif isinstance(found, Hold):
            found = "held"
        assert self.model.resume(who, text, key) == (result[0] if result else found)

    @rule(text=TEXTS, who=ANALYSTS)
    def find(self, text: str, who: str) -> None:
        """Look up the newest answer of any analyst."""
        found = self.ledger.stored(QueryIdentity(text, "v", who))
        assert self.model.stored(text) == (None if found is None else found.noisy["value"])

    @rule()
    def reopen(self) -> None:
        """Reopen the ledger as another process would, and verify it."""
        with suppress(AttributeError):
            self.ledger.close()  # type: ignore[attr-defined]
        self.ledger = self.home.again(WHOLE, LIMITS)
        self.ledger.verify()

    @invariant()
    def the_balance_is_exact(self) -> None:
        """The spent share is the sum of the grants, in total and per analyst."""
        assert self.model.spent() == self.ledger.filter.spent.units
        for who in ("ana", "bob"):
            assert self.model.spent(who) == self.ledger.allowance(who).spent.units

    def teardown(self) -> None:
        self.home.close()
        self.home.opened.clear()


SHARES: Final[dict[str, Callable[[], int]]] = {
    "memory": lambda: STEPS * 6 // 10,
    "sqlite": lambda: STEPS * 3 // 10,
    "postgresql": lambda: STEPS // 10,
}


@pytest.mark.slow
def test_a_ledger_matches_the_model(home: Home, tmp_path: Path) -> None:
    """Over 10,000 steps, divided among the kinds, no ledger differs from the model."""
    kind = type("Compared", (Comparison,), {"home": home})
    examples = max(1, SHARES[home.kind]() // EACH)
    run_state_machine_as_test(
        kind,
        settings=settings(
            max_examples=examples,
            stateful_step_count=EACH,
            deadline=None,
            phases=[Phase.generate],  # report a failure as found: shrinking takes minutes
        ),
    )
