"""Trees in which one object stands in several places are neither walked nor counted twice."""

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


def test_walking_meets_each_object_once_and_the_outermost_first() -> None:
    """A part comes where it is first met, and never again; an equal one of its own does."""
    shared = add(AGE, ONE)
    whole = add(shared, add(shared, Literal(1, Kind.INT)))

    assert [whole, shared, AGE, ONE, whole.arguments[1], ONE] == list(walk(whole))


def test_walking_takes_no_longer_for_parts_that_come_often() -> None:
    """A tree of 2^60 parts, made by sixty steps, is walked in as many."""
    whole: Expression = AGE
    for _ in range(60):
        whole = add(whole, whole)

    assert 61 == len(list(walk(whole)))


def test_equal_calls_hash_alike_wherever_they_come_from() -> None:
    """A call made again, copied or read back is the same key of a dictionary."""
    call = add(AGE, add(AGE, ONE))
    again = add(Column("t1", "age", Kind.INT), add(AGE, Literal(1, Kind.INT)))

    assert {call: "found"} == {again: "found"}
    assert {call} == {copy.deepcopy(call), pickle.loads(pickle.dumps(call))}  # ours
    assert call not in {add(add(AGE, ONE), AGE), Call(Function.SUBTRACT, (AGE, ONE), Kind.INT)}


def test_a_term_that_comes_twice_becomes_one_object() -> None:
    """What Python shares between two statistics the tree shares too."""
    shared = col("age") + 1
    query = TableQuery("visits").agg(a=total(shared), b=total(shared * 2)).build(NAMES)
    first, second = (output.expression for output in query.outputs)

    assert isinstance(first, AggregateCall)
    assert isinstance(second, AggregateCall)
    assert isinstance(second.argument, Call)
    assert second.argument.arguments[0] is first.argument
