"""Recomputing a ledger from its records: chain, balance, running totals."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from confide.ledger.chain import Charge, Head, Record
from confide.ledger.refusals import RESTORE, LedgerDamaged
from confide.loss import UNITS, Filter

__all__ = ["check_records"]


def check_records(start: Head, opening: Filter, records: Iterable[Record], end: Head) -> None:
    """Follow the chain from its start and compare where it leads with the head.

    Claim:   a record that was changed, removed, added or moved is noticed, unless all later ones
             and the head were written anew; the anchor notices that.
    Why:     each digest covers the one before and everything that the record holds, so a record
             with the right digest is the one that was written, unless SHA-256 collides; balance
             and running totals are computed again from the charges.
    Source:  docs/ledger.md.
    Checked: tests/contracts/test_tampering.py.

    Raises:
        LedgerDamaged: the records do not lead to the head.
    """
    head, open_holds = start, set[int]()
    analysts: defaultdict[str, int] = defaultdict(int)
    purposes: defaultdict[str, int] = defaultdict(int)
    for record in records:
        if (record.number, record.before) != (head.records, head.digest):
            raise LedgerDamaged(
                f"ledger record {record.number} does not follow those before it; {RESTORE}"
            )
        if record.time < head.time:
            raise LedgerDamaged(
                f"ledger record {record.number} is older than those before it; {RESTORE}"
            )
        if isinstance(record, Charge):
            head = _follow_charge(head, record)
            open_holds.add(record.number)
            analysts[record.analyst] += record.units if record.analyst else 0
            purposes[record.purpose] += record.units if record.purpose else 0
            totals = (analysts[record.analyst], purposes[record.purpose])
            if totals != (record.analyst_spent, record.purpose_spent):
                raise LedgerDamaged(
                    f"ledger entry {record.number} adds up to another total; {RESTORE}"
                )
        elif record.entry in open_holds:
            open_holds.remove(record.entry)
            head = replace(head, records=head.records + 1, digest=record.digest, time=record.time)
        else:
            raise LedgerDamaged(f"ledger record {record.number} answers no open charge; {RESTORE}")
    if head.spent > UNITS or head.delta_spent > UNITS * bool(opening.delta_pot):
        raise LedgerDamaged(f"the ledger's charges add up to more than the budget; {RESTORE}")
    if head != end:
        raise LedgerDamaged(f"the ledger's balance is not the sum of its entries; {RESTORE}")


def _follow_charge(head: Head, charge: Charge) -> Head:
    spent, delta_spent = head.spent + charge.units, head.delta_spent + charge.delta_units
    adds_up = (spent, delta_spent) == (charge.spent, charge.delta_spent)
    if not adds_up or min(charge.units, charge.delta_units) < 0:
        raise LedgerDamaged(f"ledger entry {charge.number} adds up to another balance; {RESTORE}")
    return Head(head.records + 1, charge.digest, charge.time, spent, delta_spent)
