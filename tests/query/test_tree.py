"""Trees that share objects are walked and counted without repetition."""

import copy
import pickle

from confide.declare import Kind
from confide.expressions.functions import Function
from confide.expressions.tree import AggregateCall, Call, Column, Expression, Literal, walk
from confide.query import TableQuery, col
from confide.query import sum as total
from support.questions import NAMES

AGE = Column("t1", "age", Kind.INT)
ONE = Literal(1, Kind.INT)


def add(*parts: Expression) -> Call:
    return Call(Function.ADD, parts, Kind.INT)


def test_a_walk_yields_each_object_once_parents_first() -> None:
    """A walk yields each object once, parents first, and equal but separate objects too."""
    shared = add(AGE, ONE)
    whole = add(shared, add(shared, Literal(1, Kind.INT)))

    assert [whole, shared, AGE, ONE, whole.arguments[1], ONE] == list(walk(whole))


def test_a_walk_visits_shared_parts_once() -> None:
    """A tree of 2^60 parts, built in 60 steps, is walked in 60 steps."""
    whole: Expression = AGE
    for _ in range(60):
        whole = add(whole, whole)

    assert 61 == len(list(walk(whole)))


def test_equal_calls_have_equal_hashes() -> None:
    """Calls that are built again, copied, or unpickled are equal as dictionary keys."""
    call = add(AGE, add(AGE, ONE))
    again = add(Column("t1", "age", Kind.INT), add(AGE, Literal(1, Kind.INT)))

    assert {call: "found"} == {again: "found"}
    assert {call} == {copy.deepcopy(call), pickle.loads(pickle.dumps(call))}  # ours
    assert call not in {add(add(AGE, ONE), AGE), Call(Function.SUBTRACT, (AGE, ONE), Kind.INT)}


def test_a_shared_term_becomes_one_object() -> None:
    """A term used by two statistics becomes one object in the tree."""
    shared = col("age") + 1
    query = TableQuery("visits").agg(a=total(shared), b=total(shared * 2)).build(NAMES)
    first, second = (output.expression for output in query.outputs)

    assert isinstance(first, AggregateCall)
    assert isinstance(second, AggregateCall)
    assert isinstance(second.argument, Call)
    assert second.argument.arguments[0] is first.argument
