"""A public board shows the best score so far, and boosting against it gains nothing."""

from pathlib import Path

import numpy as np
import pytest

from confide.errors import BadDeclaration, BudgetExceeded
from confide.holdout import Leaderboard
from support.entropy import SeededEntropy

N = 4_000


def labels_and_bits(
    entropy: SeededEntropy, k: int
) -> tuple[
    np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int, int], np.dtype[np.int64]]
]:
    rng = np.random.Generator(np.random.Philox(key=int(entropy.words(1)[0])))
    return rng.integers(0, 2, N), rng.integers(0, 2, (k, N))


def test_boosting_wins_nothing(entropy: SeededEntropy) -> None:
    """Votes of 400 random submissions exceed 0.55 on a naive board, but stay within tau here."""
    labels, tries = labels_and_bits(entropy, 400)
    board = Leaderboard(labels, submissions=500)
    tau = board.guarantee.tau
    assert tau is not None
    shown = [board.submit(bits) for bits in tries]
    # The vote that a board with every score would allow:
    good = tries[(tries == labels).mean(axis=1) > 0.5]
    naive = ((good.mean(axis=0) > 0.5) == labels).mean()
    helpful = [bits for bits, score in zip(tries, shown, strict=True) if score.is_better]
    vote = np.mean(helpful, axis=0) > 0.5

    assert naive > 0.55
    assert abs(board.submit(vote.astype(int)).value - 0.5) <= tau
    assert all(score.interval[0] <= 0.5 <= score.interval[1] for score in shown)
    assert len(helpful) <= 5


def test_a_truly_better_model_is_seen(entropy: SeededEntropy) -> None:
    """A submission with 90% of the labels right raises the board to about 0.9."""
    labels, _ = labels_and_bits(entropy, 1)
    board = Leaderboard(labels, submissions=100, tau=0.1)
    better = np.where(np.arange(N) % 10 == 0, 1 - labels, labels)

    score = board.submit(better)
    assert score.is_better
    assert abs(score.value - 0.9) <= 0.1
    assert not board.submit(1 - better).is_better
    assert 98 == board.left.queries


def test_losses_fall(entropy: SeededEntropy) -> None:
    """For a loss the best score is the smallest, and the board never increases."""
    labels, _ = labels_and_bits(entropy, 1)
    board = Leaderboard(labels, metric="zero-one-loss", submissions=10)
    shown = [
        board.submit(np.where(np.arange(N) % size == 0, 1 - labels, labels)).value
        for size in (2, 10, 3)
    ]

    assert shown[0] > shown[1] == shown[2]


def test_bad_submissions_change_nothing(entropy: SeededEntropy, tmp_path: Path) -> None:
    """Wrong lengths change nothing, and after the last submission, more are refused."""
    labels, tries = labels_and_bits(entropy, 1)
    board = Leaderboard(labels, submissions=1, ledger=tmp_path / "board.db")
    with pytest.raises(BadDeclaration):
        board.submit(tries[0][:-1])
    assert 1 == board.left.queries
    board.submit(tries[0])
    again = Leaderboard(labels, submissions=1, ledger=tmp_path / "board.db")
    with pytest.raises(BudgetExceeded):
        again.submit(tries[0])
    with pytest.raises(BadDeclaration):
        Leaderboard(tries, submissions=1)


def test_boards_of_pairs_are_refused_when_opened(entropy: SeededEntropy) -> None:
    """A board with auc is refused, because its tau assumes a value for every row."""
    labels, _ = labels_and_bits(entropy, 1)
    with pytest.raises(BadDeclaration, match="pairs rows"):
        Leaderboard(labels, metric="auc", submissions=10)
