"""Release records: what a public registry of deployments of differential privacy asks for.

The sections and names under ``deployment`` are those of the registry of OpenDP and NIST. The part
``ledger`` holds only what an exported ledger proves, so that anyone can recompute it.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib import metadata
from typing import Any, Final

from confide.declare import Declaration, Row, Table
from confide.declare.record import RecordSettings
from confide.errors import BadDeclaration
from confide.exact import float_above
from confide.intake.signing import RecordMismatch, SigningKey, check_signature
from confide.ledger import Export
from confide.ledger.chain import (
    ACCOUNTINGS,
    LOST,
    AnchorRecord,
    Charge,
    Head,
    Record,
    describe_filter,
    first_head,
    grant_head,
)
from confide.loss import Filter
from confide.mechanisms import Neighbours

__all__ = ["FORMAT", "LedgerFacts", "check_export", "make_record", "read_record"]

FORMAT: Final = "confide-release-record-1"
TOLERANCE: Final = 1e-9
KINDS: Final = {
    "release": "batches",
    "choose": "choices",
    "watch": "watches",
    "estimate": "estimates",
    "holdout": "holdout sessions",
}
"""The kind of a charge that is not a single query, by a name that only its terms contain."""
ORDERED_SELECTION: Final = re.compile(r" ORDER BY COUNT\(\*\) DESC LIMIT \d+\Z")
AGGREGATE: Final = re.compile(r"\b(COUNT|SUM|AVG|MEDIAN|QUANTILE\w*|VAR\w*|STDDEV\w*)\(")
QUANTILE: Final = re.compile(r"\b(MEDIAN|QUANTILE\w*)\(")
CHOOSING_ESTIMATES: Final = ("quantiles", "blocks", "density")
COMPOSITION: Final = {
    "pure": "A privacy filter adds up the epsilons of adaptively chosen queries.",
    "gaussian": "A privacy filter adds up the squared Gaussian-DP parameters (mu) of adaptively "
    "chosen queries.",
    "renyi": "A privacy filter adds up Renyi divergences of one fixed order over adaptively chosen "
    "queries.",
}


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """The facts that the first records of an export prove."""

    export: Export
    records: Sequence[Record]

    @classmethod
    def of(cls, export: Export, count: int | None = None) -> "LedgerFacts":
        """Return the facts of the first ``count`` records, or of all.

        Raises:
            RecordMismatch: the export has fewer records.
        """
        if count is not None and not 0 <= count <= len(export.records):
            raise RecordMismatch(
                f"The record covers {count:,} ledger records, but the export has "
                f"{len(export.records):,}. Use an export that is not older than the record."
            )
        return cls(export, export.records[:count])

    @property
    def charges(self) -> list[Charge]:
        """The charges that cost something; the steps of sessions are free."""
        return [one for one in self.records if isinstance(one, Charge) and one.units]

    @property
    def state(self) -> Filter:
        """The filter after these records."""
        return grant_head(self.export.opening, self._head)

    @property
    def _head(self) -> Head:
        paid = [one for one in self.records if isinstance(one, Charge)]
        digest, time = first_head(self.export.ledger, self.export.opening).digest, 0
        if self.records:
            digest, time = self.records[-1].digest, self.records[-1].time
        spent, delta_spent = (paid[-1].spent, paid[-1].delta_spent) if paid else (0, 0)
        return Head(len(self.records), digest, time, spent, delta_spent)

    @property
    def accounting(self) -> str:
        """The accounting of the budget: pure, gaussian, or renyi."""
        return ACCOUNTINGS[type(self.export.opening).__name__]

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON values."""
        charges, state, head = self.charges, self.state, self._head
        numbers = {charge.number for charge in charges}
        answered = {getattr(one, "entry", None) for one in self.records} & numbers
        kinds = Counter(map(_kind, charges))
        mechanisms = {name for charge in charges for name in _mechanisms(charge, self.accounting)}
        anchors = [one for one in self.records if isinstance(one, AnchorRecord)]
        return {
            "identity": self.export.ledger,
            "records": head.records,
            "digest": head.digest,
            "terms": describe_filter(self.export.opening),
            "accounting": self.accounting,
            "charges": len(charges),
            "answered": len(answered),
            "releases": dict(sorted(kinds.items())),
            "mechanisms": sorted(mechanisms),
            "first": _day(charges[0].time) if charges else None,
            "last": _day(charges[-1].time) if charges else None,
            "spent": {
                "share": str(state.spent.fraction),
                "epsilon": state.epsilon_spent,
                "delta": float_above(state.delta),
            },
            "lost_anchors": sum(one.event == LOST for one in anchors),
        }


def make_record(
    declaration: Declaration, export: Export, settings: RecordSettings, key: SigningKey, today: date
) -> dict[str, Any]:
    """Return the signed record of a declaration and its ledger.

    # Privacy: a record contains declared facts and totals of the ledger: no query, no answer.

    Raises:
        BadDeclaration: the owner has not stated the purpose or the contact.
    """
    if not settings.purpose or not settings.contact:
        raise BadDeclaration(
            "A release record needs a purpose and a contact. Add `purpose` and `contact` to "
            "[record] in the declaration, or pass --purpose and --contact."
        )
    facts = LedgerFacts.of(export)
    document = {
        "format": FORMAT,
        "created": today.isoformat(),
        "contact": settings.contact,
        "people": settings.people,
        "deployment": _deployment(declaration, facts, settings),
        "ledger": facts.to_json(),
        "software": {"name": "confide", "version": metadata.version("confide")},
    }
    return key.sign({name: value for name, value in document.items() if value})


def _deployment(
    declaration: Declaration, facts: LedgerFacts, settings: RecordSettings
) -> dict[str, Any]:
    """Return the sections of the registry, without empty fields."""
    sections: dict[str, dict[str, Any]] = {
        "basic": {
            "name": settings.name,
            "data_curators": [settings.organization] if settings.organization else [],
            "intended_use": settings.purpose,
            "data_product_type": "Summary statistics",
            "data_product_region": settings.region,
            "data_product_sector": settings.sector,
            "description": settings.description,
        },
        "dp_variant": {
            "data_domain": _describe_domain(declaration.tables),
            "unprotected_quantities": _describe_unprotected(declaration),
        },
        "privacy_loss": {
            "privacy_unit": _describe_unit(declaration.tables),
            "privacy_unit_details": _describe_neighbors(declaration),
            "privacy_parameters_details": "The parameters bound the privacy loss of all answers "
            "together, however the queries are chosen. `ledger.spent` is the loss so far.",
        },
        "deployment_model": {
            "model_name": "Central",
            "actors": "The owner holds the data and runs confide. Analysts are not trusted: they "
            "may choose each query after seeing earlier answers, and may collude.",
            "release_type": "Many releases",
            "access_type": "Interactive",
            "access_type_details": "All analysts spend one budget. A query is refused if it does "
            "not fit into the rest of it.",
        },
        "accounting": {
            "post_processing": "Arithmetic, HAVING, ORDER BY, and LIMIT apply to noisy values.",
            "composition": COMPOSITION[facts.accounting],
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": "Values are clipped to declared bounds, and "
            "a keyed hash limits the rows of each unit. The declaration sets both, not the data.",
            "justification": settings.justification,
        },
        "administrative": {"sources": settings.sources},
    }
    for (section, name), value in _proved(facts).items():
        sections[section][name] = value
    filled = {
        section: {name: value for name, value in values.items() if value}
        for section, values in sections.items()
    }
    return {section: values for section, values in filled.items() if values}


def _proved(facts: LedgerFacts) -> dict[tuple[str, str], Any]:
    """Return the deployment's statements about the ledger, by section and name.

    The sentence about composition is not among them, because its wording may change. The part
    ``ledger`` has the accounting.
    """
    found, opening = facts.to_json(), facts.export.opening
    return {
        ("basic", "publication_date"): found["first"],
        ("dp_variant", "variant_name"): "Approximate DP" if opening.delta else "Pure DP",
        ("privacy_loss", "privacy_parameters"): _parameters(opening),
        ("implementation", "mechanisms"): "; ".join(found["mechanisms"]),
    }


def _parameters(opening: Filter) -> dict[str, float]:
    parameters = {"epsilon": float_above(opening.epsilon)}
    return {**parameters, "delta": float_above(opening.delta)} if opening.delta else parameters


def _describe_domain(tables: Iterable[Table]) -> str:
    lines = [f"{table.name} ({', '.join(table.columns)})" for table in tables]
    return "Tables with their columns: " + "; ".join(lines) + "."


def _describe_unprotected(declaration: Declaration) -> str:
    named = ["the declaration (names, types, bounds, and listed values)"]
    named.append("which queries were answered, when, and at what cost")
    if declaration.public_tables:
        public = ", ".join(table.name for table in declaration.public_tables)
        named.append(f"the public tables {public}")
    if declaration.neighbours is Neighbours.REPLACE:
        named.append("the number of units")
    return f"{'; '.join(named).capitalize()}."


def _describe_unit(tables: Iterable[Table]) -> str:
    units = {"row" if isinstance(table.unit, Row) else table.unit for table in tables}
    return f"One {' or '.join(sorted(units))}"


def _describe_neighbors(declaration: Declaration) -> str:
    change = (
        "are replaced by those of another unit"
        if declaration.neighbours is Neighbours.REPLACE
        else "are added or removed"
    )
    limits = [
        f"{table.name} (rows: {table.max_rows_per_unit:,}, groups: {table.max_groups_per_unit:,})"
        for table in declaration.tables
    ]
    return (
        f"Neighboring datasets differ in one unit, whose rows in all tables {change} "
        f"({declaration.neighbours.value}). Limits on what a unit contributes to one answer: "
        f"{', '.join(limits)}."
    )


def _kind(charge: Charge) -> str:
    """Return the kind of release that a charge paid for."""
    if not charge.text.startswith("{"):
        return "queries"
    terms = json.loads(charge.text)
    return next((kind for name, kind in KINDS.items() if name in terms), "other releases")


def _mechanisms(charge: Charge, accounting: str) -> set[str]:
    """Return the names of the mechanisms that a charge may have used, from its text alone."""
    is_pure = accounting == "pure"
    noise = "Laplace or K-norm noise" if is_pure else "Gaussian noise"
    choice = "permute-and-flip" if is_pure else "exponential mechanism"
    text = charge.text
    found = {"selection of group keys with a threshold"} if charge.delta_units else set()
    match _kind(charge):
        case "choices":
            found.add(choice)
        case "watches":
            found.add("sparse vector")
        case "holdout sessions":
            found.add("reusable holdout")
        case "queries" if ORDERED_SELECTION.search(text) and not AGGREGATE.search(_outputs(text)):
            found.add(choice)
        case kind:
            found.add(noise)
            chooses = kind == "estimates" and json.loads(text)["estimate"] in CHOOSING_ESTIMATES
            if chooses or QUANTILE.search(text):
                found.add("exponential mechanism")
    return found


def _outputs(text: str) -> str:
    return text.partition(" FROM ")[0]


def _day(time: int) -> str:
    return datetime.fromtimestamp(time / 1e6, UTC).date().isoformat()


def read_record(text: str) -> tuple[dict[str, Any], str]:
    """Return a record and the public key that signed it, after checking the signature.

    Raises:
        RecordMismatch: the text is not a record, or not what its owner signed.
    """
    try:
        document = json.loads(text, object_pairs_hook=_reject_duplicates)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise RecordMismatch(
            "The file is not a release record. Check a file that `confide record` wrote."
        )
    return document, check_signature(document)


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate name")
    return found


def check_export(document: dict[str, Any], export: Export) -> LedgerFacts:
    """Return the facts that a record states about an export, after recomputing all of them.

    The export may have more records than the release record covers.

    Claim:   a record that passes states the ledger's exact spending, and the epsilon of the
             exported charges up to a relative difference of `TOLERANCE`.
    Why:     every fact is computed again from the export, whose hash chain was checked. The release
             record states the newest hash that it covers, so other charges cannot be substituted.
    Source:  docs/ledger.md.
    Checked: tests/intake/test_record.py.

    Raises:
        RecordMismatch: a stated fact differs from the recomputed one.
    """
    stated = document.get("ledger")
    count = stated.get("records") if isinstance(stated, dict) else None
    if not isinstance(stated, dict) or type(count) is not int:
        raise RecordMismatch(
            "The record states nothing about a ledger. Get it from its owner again."
        )
    facts = LedgerFacts.of(export, count)
    recomputed = {name: value for name, value in facts.to_json().items() if value}
    differing = [name for name in stated if name not in recomputed and stated[name]]
    differing += [name for name in recomputed if not _is_same(stated.get(name), recomputed[name])]
    for (section, name), value in _proved(facts).items():
        if not _is_same(_find(document, "deployment", section, name), value or None):
            differing.append(name)
    if differing:
        raise RecordMismatch(
            f"The export does not confirm the record: {', '.join(differing)} differ. Ask the owner "
            "for a record and an export of the same ledger."
        )
    return facts


def _find(document: object, *path: str) -> object:
    """Return the value at a path of names, or None if there is none."""
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _is_same(stated: object, recomputed: object) -> bool:
    """Return whether two JSON values are equal, up to a relative `TOLERANCE` for floats."""
    if isinstance(stated, dict) and isinstance(recomputed, dict):
        return stated.keys() == recomputed.keys() and all(
            _is_same(stated[name], recomputed[name]) for name in stated
        )
    if isinstance(stated, float) and isinstance(recomputed, float):
        return math.isclose(stated, recomputed, rel_tol=TOLERANCE)
    return stated == recomputed and type(stated) is type(recomputed)
