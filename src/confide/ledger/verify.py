"""Verification and export of a ledger, and recount of an export.

A recount needs only the exported lines, so anyone can check an owner's accounting with it.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from confide.ledger.chain import (
    LAYOUT,
    LOST,
    NAMED,
    AnchorRecord,
    AnswerRecord,
    Charge,
    Head,
    Record,
    ShownAnswer,
    describe_filter,
    first_head,
    grant_head,
    read_filter,
)
from confide.ledger.protocol import RESTORE, LedgerDamaged, LostAnchor, Receipt
from confide.loss import UNITS, Filter

__all__ = ["Export", "Recount", "check_records", "read_export", "recount", "write_export"]


def check_records(start: Head, opening: Filter, records: Iterable[Record], end: Head) -> None:
    """Raise LedgerDamaged if the records do not form a chain from ``start`` to ``end``.

    ``start`` is the head of the empty ledger, and ``end`` the stored head.

    Claim:   a record that was changed, removed, added, or moved is detected, unless all later
             records and the head were rewritten too; the anchor detects a rewritten chain.
    Why:     each hash covers the previous hash and every field of its record. So a record with the
             correct hash is the one that was written, unless SHA-256 collides. The balance and the
             running totals are recomputed from the charges.
    Source:  docs/ledger.md.
    Checked: tests/contracts/test_tampering.py.

    Raises:
        LedgerDamaged: the records do not form such a chain, or exceed the budget.
    """
    head, open_holds, anchor = start, set[int](), ""
    analysts: defaultdict[str, int] = defaultdict(int)
    purposes: defaultdict[str, int] = defaultdict(int)
    for record in records:
        if (record.number, record.before) != (head.records, head.digest):
            raise LedgerDamaged(
                f"Ledger record {record.number} does not follow the records before it. {RESTORE}"
            )
        if record.time < head.time:
            raise LedgerDamaged(
                f"Ledger record {record.number} is older than the records before it. {RESTORE}"
            )
        if isinstance(record, Charge):
            head = _follow_charge(head, record)
            open_holds.add(record.number)
            analysts[record.analyst] += record.units if record.analyst else 0
            purposes[record.purpose] += record.units if record.purpose else 0
            totals = (analysts[record.analyst], purposes[record.purpose])
            if totals != (record.analyst_spent, record.purpose_spent):
                raise LedgerDamaged(
                    f"Ledger entry {record.number} adds up to another total. {RESTORE}"
                )
            continue
        if isinstance(record, AnchorRecord):
            anchor = _follow_anchor(anchor, record)
        elif record.entry in open_holds:
            open_holds.remove(record.entry)
        else:
            raise LedgerDamaged(f"Ledger record {record.number} answers no open charge. {RESTORE}")
        head = replace(head, records=head.records + 1, digest=record.digest, time=record.time)
    if head.spent > UNITS or head.delta_spent > UNITS * bool(opening.delta_pot):
        raise LedgerDamaged(f"The ledger's charges add up to more than the budget. {RESTORE}")
    if head != end:
        raise LedgerDamaged(f"The ledger's balance is not the sum of its entries. {RESTORE}")


def _follow_anchor(anchor: str, record: AnchorRecord) -> str:
    """Return the name of the ledger's anchor after an anchor record; ``anchor`` is the name before.

    # Privacy: another anchor replaces the previous one only by a recorded loss, never silently.
    """
    is_first = record.event == NAMED and not anchor and bool(record.anchor)
    if not is_first and not (record.event == LOST and anchor):
        raise LedgerDamaged(
            f"Ledger record {record.number} does not state how the anchor changed. {RESTORE}"
        )
    return record.anchor


def _follow_charge(head: Head, charge: Charge) -> Head:
    """Return the head after a charge; raise LedgerDamaged if its totals do not add up."""
    spent, delta_spent = head.spent + charge.units, head.delta_spent + charge.delta_units
    adds_up = (spent, delta_spent) == (charge.spent, charge.delta_spent)
    if not adds_up or min(charge.units, charge.delta_units) < 0:
        raise LedgerDamaged(f"Ledger entry {charge.number} adds up to another balance. {RESTORE}")
    return Head(head.records + 1, charge.digest, charge.time, spent, delta_spent)


@dataclass(frozen=True, slots=True)
class Recount:
    """The totals of an export.

    ``ledger`` is the identity of the ledger, and ``filter`` the filter after all charges.
    ``entries`` and ``answered`` count the charges and the answers. ``digest`` is the newest hash,
    and ``links`` maps the number of each charge to its hash.
    """

    ledger: str
    filter: Filter
    entries: int
    answered: int
    digest: str
    links: Mapping[int, str]
    lost_anchors: tuple[LostAnchor, ...] = ()

    def has(self, receipt: Receipt) -> bool:
        """Return whether a receipt is from this ledger."""
        return self.links.get(receipt.entry) == receipt.digest


def write_export(
    identity: str, opening: Filter, records: Iterable[Record], head: Head
) -> Iterator[str]:
    """Yield a header line, and then one line per record, oldest first.

    # Privacy: charges contain queries, but no data. Answers are exported as hashes, although their
    # values were released.
    """
    header = {"layout": LAYOUT, "ledger": identity, "terms": describe_filter(opening)}
    yield json.dumps({**header, "head": asdict(head)})
    for record in records:
        match record:
            case Charge():
                yield json.dumps({"charge": asdict(record), "digest": record.digest})
            case AnswerRecord():
                yield json.dumps({"answer": asdict(record.shown), "digest": record.digest})
            case ShownAnswer():
                yield json.dumps({"answer": asdict(record), "digest": record.digest})
            case AnchorRecord():
                yield json.dumps({"anchor": asdict(record), "digest": record.digest})


@dataclass(frozen=True, slots=True)
class Export:
    """An export whose hash chain was checked: its ledger, terms, and records, oldest first."""

    ledger: str
    opening: Filter
    records: tuple[Record, ...]
    head: Head


def recount(lines: Iterable[str]) -> Recount:
    """Return the totals of an export, after checking its chain from the first record to the last.

    Raises:
        LedgerDamaged: a line cannot be read, or the lines do not form a chain.
    """
    found = read_export(lines)
    anchors = [record for record in found.records if isinstance(record, AnchorRecord)]
    links = {record.number: record.digest for record in found.records if isinstance(record, Charge)}
    return Recount(
        ledger=found.ledger,
        filter=grant_head(found.opening, found.head),
        entries=len(links),
        answered=len(found.records) - len(anchors) - len(links),
        digest=found.head.digest,
        links=MappingProxyType(links),
        lost_anchors=tuple(record.loss() for record in anchors if record.event == LOST),
    )


def read_export(lines: Iterable[str]) -> Export:
    """Return the records of an export, after checking its chain from the first to the last.

    Raises:
        LedgerDamaged: a line cannot be read, or the lines do not form a chain.
    """
    listed = (line for line in lines if line.strip())
    try:
        header = json.loads(next(listed))
        if header["layout"] != LAYOUT:
            raise LedgerDamaged(
                f"This is not an export of layout {LAYOUT}. Export the ledger again with `confide "
                "ledger --export`."
            )
        opening, head = read_filter(header["terms"]), Head(**header["head"])
        records = [_parse_record(json.loads(line)) for line in listed]
        check_records(first_head(header["ledger"], opening), opening, records, head)
    except (ValueError, KeyError, TypeError, StopIteration):
        raise LedgerDamaged(
            "A line of the export cannot be read. Export the ledger again with `confide ledger "
            "--export`."
        ) from None
    return Export(header["ledger"], opening, tuple(records), head)


def _parse_record(line: dict[str, Any]) -> Record:
    record: Record
    if "charge" in line:
        record = Charge(**line["charge"])
    elif "anchor" in line:
        record = AnchorRecord(**line["anchor"])
    else:
        record = ShownAnswer(**line["answer"])
    if record.digest != line["digest"]:
        raise LedgerDamaged(
            f"Record {record.number} of the export differs from what was written. Export the "
            "ledger again with `confide ledger --export`."
        )
    return record
