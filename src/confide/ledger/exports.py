"""A ledger as lines of JSON, from which anyone recomputes what was spent, without the data."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from confide.ledger.chain import (
    LAYOUT,
    Answered,
    Charge,
    Head,
    Record,
    ShownAnswer,
    describe_filter,
    first_head,
    grant_head,
    read_filter,
)
from confide.ledger.checks import check_records
from confide.ledger.protocol import Receipt
from confide.ledger.refusals import LedgerDamaged
from confide.loss import Filter

__all__ = ["Recount", "recount", "write_export"]


@dataclass(frozen=True, slots=True)
class Recount:
    """What an export adds up to: the filter with all that was spent, and the link of each entry."""

    ledger: str
    filter: Filter
    entries: int
    answered: int
    digest: str
    links: Mapping[int, str]

    def has(self, receipt: Receipt) -> bool:
        """Tell whether a receipt is of this ledger."""
        return self.links.get(receipt.entry) == receipt.digest


def write_export(
    identity: str, opening: Filter, records: Iterable[Record], head: Head
) -> Iterator[str]:
    """Yield one line about the ledger and one for each record, oldest first.

    # Privacy: charges are about questions; of answers only their digests are shown, though even
    # their values were released.
    """
    about = {"layout": LAYOUT, "ledger": identity, "terms": describe_filter(opening)}
    yield json.dumps({**about, "head": asdict(head)})
    for record in records:
        match record:
            case Charge():
                yield json.dumps({"charge": asdict(record), "digest": record.digest})
            case Answered():
                yield json.dumps({"answer": asdict(record.shown), "digest": record.digest})
            case ShownAnswer():
                yield json.dumps({"answer": asdict(record), "digest": record.digest})


def recount(lines: Iterable[str]) -> Recount:
    """Return what an export adds up to, having followed its chain from the first link to the last.

    Raises:
        LedgerDamaged: a line cannot be read, or they do not follow from each other.
    """
    listed = (line for line in lines if line.strip())
    try:
        about = json.loads(next(listed))
        if about["layout"] != LAYOUT:
            raise LedgerDamaged(
                f"this is no export of layout {LAYOUT}; write one with confide ledger --export"
            )
        opening, head = read_filter(about["terms"]), Head(**about["head"])
        records = [_read(json.loads(line)) for line in listed]
        check_records(first_head(about["ledger"], opening), opening, records, head)
    except (ValueError, KeyError, TypeError, StopIteration):
        raise LedgerDamaged(
            "a line of the export cannot be read; write it anew with confide ledger --export"
        ) from None
    links = {record.number: record.digest for record in records if isinstance(record, Charge)}
    return Recount(
        ledger=about["ledger"],
        filter=grant_head(opening, head),
        entries=len(links),
        answered=len(records) - len(links),
        digest=head.digest,
        links=MappingProxyType(links),
    )


def _read(line: dict[str, Any]) -> Record:
    record: Record = Charge(**line["charge"]) if "charge" in line else ShownAnswer(**line["answer"])
    if record.digest != line["digest"]:
        raise LedgerDamaged(
            f"record {record.number} of the export is not what was written; write it anew with "
            "confide ledger --export"
        )
    return record
