"""Which neighbours the losses of a ledger are meant for: one relation for as long as it lives."""

from sqlalchemy import Connection, insert, select

from confide.ledger.refusals import refuse_relation
from confide.ledger.tables import META

__all__ = ["write_relation"]


def write_relation(connection: Connection, neighbours: str) -> None:
    """Write down the relation of neighbours at its first use; refuse another one.

    Raises:
        BadDeclaration: the ledger keeps losses for another relation.
    """
    asked = select(META.c.value).where(META.c.name == "neighbours")
    kept = connection.execute(asked).scalar()
    if kept is None:
        connection.execute(insert(META), {"name": "neighbours", "value": neighbours})
    else:
        refuse_relation(str(kept), neighbours)
