"""Counts of transcripts equal those of their trees, and code lengths satisfy Kraft's inequality."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.holdout.coding_bounds import (
    choose_cells,
    history_nats,
    log_answers,
    log_choose,
    log_ladder,
    log_nodes,
    outcome_nats,
    sampling_width,
    step_nats,
    value_nats,
)
from confide.holdout.intervals import hoeffding_width


def count_nodes(queries: int, overfits: int, cells: int) -> int:
    """Return the number of transcripts before all queries, by enumeration."""
    total, alive = 0, [0]
    for _ in range(queries):
        total += len(alive)
        accepted = alive
        over = [used + 1 for used in alive for _ in range(cells)]
        alive = [used for used in [*accepted, *over] if used < overfits]
    return total


@pytest.mark.parametrize(
    ("queries", "overfits", "cells"), list(itertools.product([1, 3, 5], [1, 2, 7], [1, 2, 4]))
)
def test_node_counts_are_exact(queries: int, overfits: int, cells: int) -> None:
    """The node count of a session that stops after B overfits is exact, and never rounded down."""
    count = count_nodes(queries, overfits, cells)

    assert math.log(count) <= log_nodes(queries, overfits, cells) + 1e-15
    assert pytest.approx(count, rel=1e-9) == math.exp(log_nodes(queries, overfits, cells))


def test_long_sessions_are_counted_from_above() -> None:
    """With too many terms to add, their number times the largest is an upper bound of the sum."""
    terms = [log_nodes(20_000, b, 3) for b in (4_096, 4_097, 19_999)]

    assert sorted(terms) == terms
    assert terms[1] <= terms[0] + math.log(4_097) + 10
    assert log_nodes(20_000, 20_000, 3) >= 20_000 * math.log(4) - math.log(3)


@pytest.mark.parametrize("total", [200, 10**6, 10**9, 10**12])
def test_numbers_of_choices_are_rounded_up(total: int) -> None:
    """Despite cancellation, the computed logarithm is never too small and hardly too large."""
    for part in range(60, 100):
        exact, found = math.log(math.comb(total, part)), log_choose(total, part)

        assert exact * (1 - 1e-13) <= found
        assert pytest.approx(exact, rel=1e-9, abs=0.2) == found


@pytest.mark.parametrize(("queries", "cells"), list(itertools.product([1, 2, 5], [1, 2, 5])))
def test_node_counts_without_guesses_are_exact(queries: int, cells: int) -> None:
    """The node count of rounding is the sum over queries of cells^(i - 1)."""
    count = sum(cells**i for i in range(queries))

    assert pytest.approx(count, rel=1e-9) == math.exp(log_answers(queries, cells))


@pytest.mark.parametrize(("queries", "levels"), list(itertools.product([1, 2, 4], [2, 3, 5])))
def test_node_counts_of_boards_are_exact(queries: int, levels: int) -> None:
    """The node count of the ladder is the number of sequences of levels that never decrease."""
    count = sum(
        all(a <= b for a, b in itertools.pairwise((0, *path)))
        for length in range(queries)
        for path in itertools.product(range(levels), repeat=length)
    )

    assert pytest.approx(count, rel=1e-9) == math.exp(log_ladder(queries, levels))


@pytest.mark.parametrize("length", [1, 4, 9])
def test_outcome_codes_sum_to_one(length: int) -> None:
    """The code's probabilities of all transcripts of one length sum to 1."""
    total = 0.0
    for path in itertools.product([False, True], repeat=length):
        nats, counts = 0.0, [0, 0]
        for is_overfit in path:
            nats += outcome_nats(*counts, is_overfit=is_overfit)
            counts[is_overfit] += 1
        assert pytest.approx(history_nats(*counts)) == nats
        total += math.exp(-nats)

    assert pytest.approx(1.0) == total


@given(st.integers(1, 400), st.integers(0, 399))
def test_value_codes_keep_krafts_inequality(cells: int, guess: int) -> None:
    """For every cell of the guess, the code's probabilities over all cells sum to at most 1."""
    own = guess % cells

    assert math.fsum(math.exp(-value_nats(cell - own, cells)) for cell in range(cells)) <= 1 + 1e-12


def test_steps_share_beta_out() -> None:
    """The levels of an unlimited session sum to at most beta."""
    assert math.fsum(math.exp(-step_nats(i, 0.05)) for i in range(1, 5_000)) <= 0.05


@given(st.integers(100, 10**6), st.floats(0.02, 0.4), st.integers(1, 10**5), st.integers(1, 40))
def test_chosen_cells_fit_and_fewer_do_not(
    rows: int, tau: float, queries: int, overfits: int
) -> None:
    """The chosen number of cells guarantees tau; one cell fewer does not."""
    found = choose_cells(rows, tau, 0.05, queries, overfits)
    if found is None:
        return
    cells, width = found

    assert width + 1 / (2 * cells) <= tau + 1e-9
    fewer = cells - 1
    if fewer:
        narrow = sampling_width(rows, log_nodes(queries, overfits, fewer), 0.05)
        assert narrow + 1 / (2 * fewer) > tau - 1e-9


def test_an_endless_session_is_as_narrow_as_it_should_be() -> None:
    """After 1,000 queries on 10,000 rows: 0.033 without overfits, 0.096 after 20, at most."""
    start = step_nats(1_000, 0.05) + math.log(2)
    none = hoeffding_width(10_000, start + history_nats(999, 0))
    some = hoeffding_width(10_000, start + history_nats(979, 20) + 20 * value_nats(2, 50))

    assert none <= 0.033
    assert some <= 0.096
