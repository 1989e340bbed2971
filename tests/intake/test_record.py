"""Release records: what they state, who signed them, and what an exported ledger confirms."""

import json
import stat
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import confide as cf
from confide.declare import Declaration, RecordSettings
from confide.errors import BadDeclaration
from confide.intake.record import LedgerFacts, check_export, make_record, read_record
from confide.intake.signing import RecordMismatch, SigningKey, create_key, read_key
from confide.ledger import LedgerDamaged, read_export
from confide.loss import Share
from confide.mechanisms import Neighbours

TODAY: Final = date(2026, 11, 19)
SETTINGS: Final = RecordSettings(
    purpose="plan staff",
    contact="privacy@clinic.example",
    organization="Example Clinics",
    name="Visits",
    people="patients",
)
TOTAL: Final = "SELECT COUNT(*) AS n FROM visits"
TERMS: Final[dict[str, Any]] = {"queries": 10, "overfits": 2, "epsilon": "1/10"}


def declare(
    budget: cf.Budget, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> tuple[Declaration, cf.Curator]:
    rows = pa.table({"pid": [*range(300)], "age": [row % 90 for row in range(300)]})
    text = pa.array([f"w{row % 3}" for row in range(300)])
    table = cf.Table(
        "visits",
        rows.append_column("ward", text),
        unit="pid",
        columns={"age": cf.Int(0, 99), "ward": cf.Text()},
    )
    curator = cf.Curator([table], budget=budget, neighbours=neighbours)
    return Declaration((table,), (), budget, neighbours, "ledger.db"), curator


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    """A new signing key."""
    return create_key(tmp_path / "ledger.key")


def spend(curator: cf.Curator) -> None:
    """Pay for a release of every kind."""
    curator.sql(TOTAL, share="5%")
    curator.sql("SELECT MEDIAN(age) AS m FROM visits", share="5%")
    curator.sql("SELECT age FROM visits GROUP BY age ORDER BY COUNT(*) DESC LIMIT 1", share="5%")
    curator.release([TOTAL, "SELECT SUM(age) AS s FROM visits"], share="5%")
    curator.choose(["a", "b"], {"a": TOTAL, "b": TOTAL}, share="5%")
    watch = curator.durable_watch(10, share="5%")
    watch.ask(TOTAL)
    curator.mean("visits", "age", share="5%")


def record_of(
    declaration: Declaration, curator: cf.Curator, key: SigningKey
) -> tuple[dict[str, Any], list[str]]:
    """Return the record as others read it, and the lines of the export."""
    lines = list(curator.ledger.export())
    made = make_record(declaration, read_export(lines), SETTINGS, key, TODAY)
    return read_record(json.dumps(made, indent=2))[0], lines


@pytest.mark.parametrize(
    ("budget", "noise", "choice", "variant"),
    [
        (cf.Budget(2), "Laplace or K-norm noise", "permute-and-flip", "Pure DP"),
        (cf.Budget(2, 1e-6), "Gaussian noise", "exponential mechanism", "Approximate DP"),
        (
            cf.Budget(2, 1e-6, accounting="renyi"),
            "Gaussian noise",
            "exponential mechanism",
            "Approximate DP",
        ),
    ],
)
def test_a_record_states_what_the_ledger_proves(
    key: SigningKey, budget: cf.Budget, noise: str, choice: str, variant: str
) -> None:
    """Counts, mechanisms, dates, and spending come from the ledger; an export confirms them."""
    declaration, curator = declare(budget)
    spend(curator)
    document, lines = record_of(declaration, curator, key)
    ledger, loss = document["ledger"], document["deployment"]["privacy_loss"]
    expected = {"queries": 3, "batches": 1, "choices": 1, "watches": 1, "estimates": 1}
    facts = check_export(document, read_export(lines))

    assert expected == ledger["releases"]
    assert (7, 7, "7/20") == (ledger["charges"], ledger["answered"], ledger["spent"]["share"])
    assert {noise, choice, "sparse vector"} <= set(ledger["mechanisms"])
    assert 0 < ledger["spent"]["epsilon"] < 2
    assert ledger["first"] <= ledger["last"]
    assert 2.0 == loss["privacy_parameters"]["epsilon"]
    assert ("One pid", variant) == (
        loss["privacy_unit"],
        document["deployment"]["dp_variant"]["variant_name"],
    )
    assert "add-remove" in loss["privacy_unit_details"]
    assert Fraction(7, 20) == facts.state.spent.fraction == curator.budget.spent.share


def test_a_released_key_and_a_holdout_session_are_named(key: SigningKey) -> None:
    """Key selection counts only where it was paid for; a holdout session is a kind of its own."""
    declaration, curator = declare(cf.Budget(2, 1e-6), Neighbours.REPLACE)
    before = record_of(declaration, curator, key)[0]
    curator.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", share="5%")
    cf.Holdout(1_000, 1_000, curator=curator, confirm=True, **TERMS)
    document, lines = record_of(declaration, curator, key)
    unprotected = document["deployment"]["dp_variant"]["unprotected_quantities"]

    assert {} == before["ledger"]["releases"]
    assert 0 == before["ledger"]["spent"]["epsilon"]
    assert "first" not in before["deployment"]["basic"]
    assert {"queries": 1, "holdout sessions": 1} == document["ledger"]["releases"]
    assert "selection of group keys with a threshold" in document["ledger"]["mechanisms"]
    assert "the number of units" in unprotected
    check_export(document, read_export(lines))


def test_an_empty_part_is_left_out(key: SigningKey) -> None:
    """Fields that the owner did not fill in are absent; purpose and contact are required."""
    declaration, curator = declare(cf.Budget(2))
    document, _ = record_of(declaration, curator, key)
    basic = document["deployment"]["basic"]
    export = read_export(curator.ledger.export())

    assert ("plan staff", ["Example Clinics"]) == (basic["intended_use"], basic["data_curators"])
    assert "data_product_region" not in basic
    assert "administrative" not in document["deployment"]
    for settings in (RecordSettings(purpose="plan staff"), RecordSettings(contact="me")):
        with pytest.raises(BadDeclaration, match="contact"):
            make_record(declaration, export, settings, key, TODAY)


@pytest.mark.parametrize("part", ["contact", "created", "deployment", "ledger", "people"])
def test_a_changed_record_has_no_valid_signature(key: SigningKey, part: str) -> None:
    """Changing or removing any part makes the signature invalid."""
    declaration, curator = declare(cf.Budget(2))
    document, _ = record_of(declaration, curator, key)
    changed = (
        {**document, part: {**document[part], "more": 1}}
        if part
        in (
            "deployment",
            "ledger",
        )
        else {**document, part: f"{document[part]} "}
    )
    less = {name: value for name, value in document.items() if name != part}

    for one in (changed, less, {**document, "more": 1}):
        with pytest.raises(RecordMismatch, match="signature"):
            read_record(json.dumps(one))


@pytest.mark.parametrize("added", [{"note": "audited"}, {"algorithm": "RSA"}])
def test_a_signature_has_nothing_that_is_not_signed(key: SigningKey, added: dict[str, str]) -> None:
    """The signature itself is not signed, so it may contain only what is needed to verify it."""
    declaration, curator = declare(cf.Budget(2))
    document, _ = record_of(declaration, curator, key)

    with pytest.raises(RecordMismatch, match="signature"):
        read_record(json.dumps({**document, "signature": {**document["signature"], **added}}))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "no JSON", '{"format": "confide-release-record-1"}', "[" * 10_000]
)
def test_what_is_not_a_record_is_refused(text: str) -> None:
    """Anything but a signed record is refused without a traceback."""
    with pytest.raises(RecordMismatch):
        read_record(text)


def test_a_name_twice_is_refused(key: SigningKey) -> None:
    """A record in which a name appears twice is refused, because readers may take either."""
    declaration, curator = declare(cf.Budget(2))
    text = json.dumps(record_of(declaration, curator, key)[0])
    twice = text.replace('"contact":', '"contact": "other", "contact":', 1)

    with pytest.raises(RecordMismatch, match="not a release record"):
        read_record(twice)


def test_another_ledger_does_not_confirm_a_record(key: SigningKey) -> None:
    """An export with other charges, fewer charges, or of another ledger fails the comparison."""
    declaration, curator = declare(cf.Budget(2))
    early = list(curator.ledger.export())
    curator.sql(TOTAL, share="5%")
    document, lines = record_of(declaration, curator, key)
    other_declaration, other = declare(cf.Budget(2))
    other.sql(TOTAL, share="5%")
    curator.sql(TOTAL, share="1%", fresh=True)
    later = list(curator.ledger.export())

    check_export(document, read_export(later))
    with pytest.raises(RecordMismatch, match="not older"):
        check_export(document, read_export(early))
    with pytest.raises(RecordMismatch, match="identity"):
        check_export(document, read_export(other.ledger.export()))
    with pytest.raises(LedgerDamaged):
        read_export([lines[0], lines[1].replace('"units": ', '"units": 1')])
    assert other_declaration.budget == declaration.budget


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("ledger", "spent", "epsilon"), 0.01),
        (("ledger", "spent", "share"), "1/1000"),
        (("ledger", "charges"), 0),
        (("ledger", "releases"), {}),
        (("ledger", "mechanisms"), []),
        (("ledger", "first"), "2020-01-01"),
        (("ledger", "accounting"), "renyi"),
        (("ledger", "lost_anchors"), 1),
        (("ledger", "records"), True),
        (("ledger", "records"), -1),
        (("ledger", "extra"), 1),
        (("ledger",), None),
        (("deployment", "privacy_loss", "privacy_parameters", "epsilon"), 1.0),
        (("deployment", "privacy_loss"), []),
        (("deployment", "dp_variant", "variant_name"), "Approximate DP"),
        (("deployment", "basic", "publication_date"), "2020-01-01"),
        (("deployment", "implementation", "mechanisms"), "none"),
        (("deployment",), {}),
        (("deployment",), "none"),
    ],
)
def test_every_stated_fact_is_recomputed(
    key: SigningKey, path: tuple[str, ...], value: Any
) -> None:
    """An owner who signs a wrong fact about the ledger is found out by the export."""
    declaration, curator = declare(cf.Budget(2))
    curator.sql(TOTAL, share="5%")
    document, lines = record_of(declaration, curator, key)
    place: Any = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    forged = key.sign({name: part for name, part in document.items() if name != "signature"})
    read, _ = read_record(json.dumps(forged))

    with pytest.raises(RecordMismatch):
        check_export(read, read_export(lines))


def test_a_record_contains_no_query_and_no_analyst(key: SigningKey) -> None:
    """The record states totals only: no literal of a query, and no name of an analyst."""
    declaration, curator = declare(cf.Budget(2))
    curator.as_analyst("ana").sql("SELECT COUNT(*) AS n FROM visits WHERE age = 41", share="5%")
    written = json.dumps(record_of(declaration, curator, key)[0])

    assert "41" not in written.replace(key.public, "").split('"deployment"')[1].split('"ledger"')[0]
    assert "SELECT" not in written
    assert '"ana"' not in written


def test_the_facts_of_a_prefix_are_those_of_that_time() -> None:
    """The facts of the first records equal what they were when these were all."""
    _, curator = declare(cf.Budget(2, 1e-6))
    known = []
    for _ in range(4):
        export = read_export(curator.ledger.export())
        known.append((len(export.records), LedgerFacts.of(export).to_json()))
        curator.sql(TOTAL, share="1%", fresh=True)
    whole = read_export(curator.ledger.export())

    assert [facts for _, facts in known] == [
        LedgerFacts.of(whole, count).to_json() for count, _ in known
    ]


def test_a_key_is_private_and_never_overwritten(tmp_path: Path) -> None:
    """Only the owner can read the file; a key that others can read, or no key, is refused."""
    path = tmp_path / "ledger.key"
    made = create_key(path)

    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert made.public == read_key(path).public
    with pytest.raises(BadDeclaration, match="already exists"):
        create_key(path)
    path.chmod(0o640)
    with pytest.raises(BadDeclaration, match="chmod 600"):
        read_key(path)
    path.chmod(0o600)
    path.write_text("no key", encoding="utf-8")
    with pytest.raises(BadDeclaration, match="not an Ed25519 key"):
        read_key(path)
    with pytest.raises(BadDeclaration, match="--new-key"):
        read_key(tmp_path / "none.key")
    with pytest.raises(BadDeclaration, match="cannot be written"):
        create_key(tmp_path / "none" / "ledger.key")


def test_the_spent_epsilon_counts_failures_of_key_selection() -> None:
    """The epsilon spent leaves room in delta for released keys, and never exceeds the budget's."""
    opening = declare(cf.Budget(2, 1e-6))[1].ledger.opening
    spent = opening.grant(Share.floor("1/2"), opening.delta_pot)
    without = opening.grant(Share.floor("1/2"))
    whole = opening.grant(Share.floor(1), opening.delta_pot)

    assert 0 == opening.epsilon_spent
    assert without.epsilon_spent < spent.epsilon_spent < 2
    assert 1.999 < whole.epsilon_spent <= 2.0
