"""Totals are rounded exactly, and releases survive a round trip through storage."""

import json
from datetime import date
from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from confide.ledger.chain import decode_payload, encode_payload
from confide.mechanisms.grid import saturate
from confide.release.noise import NoisyMeasurement, round_each, round_to_steps

WHOLE = st.integers(-(2**130), 2**130) | st.integers(-(2**63), 2**63) | st.integers(-99, 99)
SIZES = st.fractions(min_value=Fraction(1, 2**70), max_value=2**70).filter(bool)


@given(totals=st.lists(WHOLE, max_size=5), size=SIZES)
@example(totals=[0], size=Fraction(1, 2**70))
@example(totals=[-(2**61), 2**61 - 1], size=Fraction(2**61 - 1))
@example(totals=[2**61 - 1, 1 - 2**61], size=Fraction(1))
@example(totals=[-3, -1, 1, 3], size=Fraction(2))
def test_many_totals_are_rounded_as_each_alone(totals: list[int], size: Fraction) -> None:
    """Within 64 bits or beyond, each total is the nearest integer number of steps, ties upwards."""
    expected = [saturate(round_to_steps(total, size)) for total in totals]

    assert expected == round_each(totals, size).tolist()


def test_releases_survive_a_round_trip() -> None:
    """Keys of every type and numbers of every size are read back as stored."""
    groups = (("a", 1, None), (None, -7, date(2026, 1, 31)), ("ä", 0, date(1, 1, 1)))
    noisy = NoisyMeasurement(groups, ((1, -(2**61)), (0, 0), (2**61, 5)), (((0, -1, 9),),) * 3)

    assert noisy == NoisyMeasurement.from_json(noisy.to_json())
    assert noisy == NoisyMeasurement.from_json(decode_payload(encode_payload(noisy.to_json())))


def test_the_stored_json_is_that_of_lists() -> None:
    """The stored JSON is the same as if each group were a list."""
    noisy = NoisyMeasurement((("a", 1), ("b", 2)), ((3,), (4,)), (((0, -1, 9),), ((1, 0, 2),)))
    lists = {
        "groups": [["a", 1], ["b", 2]],
        "steps": [[3], [4]],
        "cells": [[[0, -1, 9]], [[1, 0, 2]]],
    }

    assert json.dumps(lists) == json.dumps(noisy.to_json())
    assert noisy == NoisyMeasurement.from_json(lists)
