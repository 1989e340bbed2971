"""Every ledger against a model of thirty lines, step by step."""

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
MOST: Final = {"ana": UNITS * 3 // 4, "bob": UNITS // 2}


class Model:
    """What a ledger must do, with nothing but lists and dictionaries."""

    def __init__(self) -> None:
        self.charges: list[tuple[str, str, int]] = []  # analyst, text, units
        self.answers: dict[int, int] = {}  # charge -> value
        self.keys: dict[tuple[str, str], int] = {}

    def spent(self, analyst: str | None = None) -> int:
        return sum(units for who, _, units in self.charges if analyst in (None, who))

    def reserve(self, analyst: str, text: str, units: int, key: str) -> str:
        if key and (analyst, key) in self.keys:
            return "key"
        if self.spent() + units > UNITS or self.spent(analyst) + units > MOST[analyst]:
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
    """Note which refusal ended a block, if any."""
    said: list[str] = []
    try:
        yield said
    except KeyUsed:
        said[:] = ["key"]
    except BudgetExceeded:
        said[:] = ["budget"]
    except AnsweredAlready:
        said[:] = ["answered"]


class Comparison(RuleBasedStateMachine):
    """Takes each step with the ledger and with the model."""

    home: Home

    def __init__(self) -> None:
        super().__init__()
        self.model, self.holds = Model(), list[Hold]()
        self.ledger: Ledger = self.home.open(WHOLE, LIMITS)

    @rule(who=ANALYSTS, text=TEXTS, part=st.integers(1, 16), key=NAMES, of=st.integers(1, 60))
    def reserve(self, who: str, text: str, part: int, key: str, of: int) -> None:
        """Charge a fraction that is not a round number of units."""
        units = UNITS * part // (of * 7 + 1) + 1
        with outcomes() as said:
            self.holds.append(
                self.ledger.reserve(QueryIdentity(text, "v", who), Share(units), key=key)
            )
            said[:] = ["granted"]
        assert [self.model.reserve(who, text, units, key)] == said

    @rule(place=st.integers(0, 10**6), value=st.integers())
    def commit(self, place: int, value: int) -> None:
        """Answer one of the charges, perhaps again."""
        if not self.holds:
            return
        charge = place % len(self.holds)
        with outcomes() as said:
            self.ledger.commit(self.holds[charge], {"value": value})
            said[:] = ["kept"]
        assert [self.model.commit(charge, value)] == said

    @rule(who=ANALYSTS, text=TEXTS, key=st.sampled_from(["j", "k"]))
    def resume(self, who: str, text: str, key: str) -> None:
        """Ask what a key stands for."""
        found: Any = None
        with outcomes() as said:
            found = self.ledger.resume(QueryIdentity(text, "v", who), key)
        if isinstance(found, StoredAnswer):
            found = found.noisy["value"]
        elif isinstance(found, Hold):
            found = "held"
        assert self.model.resume(who, text, key) == (said[0] if said else found)

    @rule(text=TEXTS, who=ANALYSTS)
    def find(self, text: str, who: str) -> None:
        """Ask for the newest answer, whoever paid for it."""
        found = self.ledger.stored(QueryIdentity(text, "v", who))
        assert self.model.stored(text) == (None if found is None else found.noisy["value"])

    @rule()
    def reopen(self) -> None:
        """Go on with the ledger as another process finds it, after a check of the whole."""
        with suppress(AttributeError):
            self.ledger.close()  # type: ignore[attr-defined]
        self.ledger = self.home.again(WHOLE, LIMITS)
        self.ledger.verify()

    @invariant()
    def the_balance_is_exact(self) -> None:
        """What is spent is the sum of what was granted, of everyone and of each."""
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
def test_a_ledger_does_what_the_model_does(home: Home, tmp_path: Path) -> None:
    """Over 10,000 steps, shared out among the kinds, no ledger ever differs from the model."""
    kind = type("Compared", (Comparison,), {"home": home})
    examples = max(1, SHARES[home.kind]() // EACH)
    run_state_machine_as_test(
        kind,
        settings=settings(
            max_examples=examples,
            stateful_step_count=EACH,
            deadline=None,
            phases=[Phase.generate],  # a failure is told as it was found: shrinking takes minutes
        ),
    )
