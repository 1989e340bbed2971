"""Attacks on the content of answers: differences, averages, reconstruction, tracing, and linkage.

Each attack succeeds on exact answers, or on noise without accounting, before it is tried on
confide. The attacker's randomness is seeded; that of answers is the system's.
"""

from fractions import Fraction
from importlib.resources import files
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import special

from confide.audit import Claim, weigh
from confide.curator import Curator
from confide.declare import Bool, Budget, Category, Column, Float, Int
from confide.errors import BadDeclaration, BudgetExceeded
from confide.examples.attacks import link_rows, reconstruct_bits, trace_members
from confide.mechanisms import Laplace
from support.entropy import SeededEntropy
from support.laws import ALPHA
from support.neighbours import open_one

PEOPLE: Final = 60


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return the attacker's random choices."""
    return np.random.default_rng(int(entropy.words(1)[0]))


def open_secrets(bits: np.ndarray, epsilon: float) -> Curator:
    """Return a curator over people with a public ``code`` and a secret ``ill``."""
    rows = [{"who": i, "code": i, "ill": bool(bit)} for i, bit in enumerate(bits)]
    columns: dict[str, Column] = {"code": Int(0, len(bits) - 1), "ill": Bool()}
    return open_one(rows, columns, budget=Budget(epsilon), unique=True)


@pytest.mark.statistical
def test_a_table_cannot_be_reconstructed(rng: np.random.Generator) -> None:
    """200 exact counts reveal all 60 secrets; at epsilon 1 for all, fewer than 55 are guessed.

    Random guessing is right about 55 or more of 60 bits with probability below 1e-10.
    """
    bits = rng.random(PEOPLE) < 0.5
    subsets = rng.random((200, PEOPLE)) < 0.5
    assert (reconstruct_bits(subsets, (subsets & bits).sum(axis=1)) == bits).all()

    curator = open_secrets(bits, epsilon=1)
    answers = [
        curator.sql(
            f"SELECT COUNT(*) AS n FROM p WHERE ill AND code IN ({', '.join(map(str, chosen))})",
            share=Fraction(1, len(subsets)),
        ).rows[0]["n"]
        for chosen in map(np.flatnonzero, subsets)
    ]
    found = reconstruct_bits(subsets, answers)

    assert (found == bits).sum() < 55
    assert special.bdtrc(54, PEOPLE, 0.5) < ALPHA


def test_reconstruction_needs_an_answer_for_each_subset() -> None:
    """Answers that do not match the queries in number are refused."""
    with pytest.raises(BadDeclaration, match="answers"):
        reconstruct_bits(np.ones((3, 2), dtype=bool), [1.0])


@pytest.mark.statistical
def test_members_cannot_be_traced(rng: np.random.Generator) -> None:
    """Exact means of 400 columns distinguish 20 members from 400 others; at epsilon 1 they do not.

    A score without any information ranks at 0.9 or more with probability below 1e-9.
    """
    columns, members, others = 400, 20, 400
    chances = rng.uniform(0.2, 0.8, columns)
    everybody = (rng.random((members + others, columns)) < chances).astype(np.float64)
    exact = everybody[:members].mean(axis=0)
    assert ranking(trace_members(everybody, exact, chances), members) > 0.99

    rows = [
        {"who": i, **{f"a{j}": int(x) for j, x in enumerate(row)}}
        for i, row in enumerate(everybody[:members])
    ]
    declared = {f"a{j}": Int(0, 1) for j in range(columns)}
    curator = open_one(rows, declared, budget=Budget(1), unique=True)
    told: dict[str, float] = {}
    for start in range(0, columns, 100):
        sums = ", ".join(f"SUM(a{j}) AS s{j}" for j in range(start, start + 100))
        told |= curator.sql(f"SELECT {sums} FROM p", share="25%").rows[0]
    noisy = [told[f"s{j}"] / members for j in range(columns)]

    assert ranking(trace_members(everybody, noisy, chances), members) < 0.9


def ranking(scores: np.ndarray, members: int) -> float:
    """Return the fraction of pairs in which a member's score is above a non-member's."""
    return float(np.mean(scores[:members, None] > scores[None, members:]))


@pytest.mark.statistical
def test_a_difference_of_two_counts_hides_a_person() -> None:
    """Exact counts of everyone and of all but one reveal that person's secret; ours do not.

    The auditor finds no evidence against epsilon.
    """
    exact = [np.full(64, float(secret)) for secret in (0, 1)]
    assert weigh(exact[0], exact[1], Claim.epsilon(1)).is_disproof

    drawn = []
    for secret in (False, True):
        bits = np.array([True] * 10 + [secret])
        curator = open_secrets(bits, epsilon=1_000)
        told = []
        for _ in range(32):
            everybody = curator.sql(
                "SELECT COUNT(*) AS n FROM p WHERE ill", epsilon=0.5, fresh=True
            )
            others = curator.sql(
                "SELECT COUNT(*) AS n FROM p WHERE ill AND code < 10", epsilon=0.5, fresh=True
            )
            told.append(everybody.rows[0]["n"] - others.rows[0]["n"])
        drawn.append(np.array(told, dtype=np.float64))
    assert not weigh(drawn[0], drawn[1], Claim.epsilon(1), false_alarms=ALPHA).is_disproof


@pytest.mark.statistical
def test_asking_again_does_not_average_noise_away(entropy: SeededEntropy) -> None:
    """Free noise averages out; ours comes back the same, or costs its share.

    The naive mean of 20,000 answers is within 0.7 of the true value except with probability below
    1e-9.
    """
    naive = 30 + np.asarray(Laplace(1, 0.1).release(np.zeros(20_000, int), entropy=entropy))
    assert abs(naive.mean() - 30) < 0.7

    curator = open_secrets(np.array([True] * 30), epsilon=1)
    text = "SELECT COUNT(*) AS n FROM p WHERE ill"
    told = [curator.sql(text, share="10%") for _ in range(5)]
    spelled = curator.sql("select count(*) n from p where (ill)", share="10%")
    assert 1 == len({answer.rows[0]["n"] for answer in [*told, spelled]})
    assert Fraction(1, 10) == curator.budget.spent.share

    for _ in range(9):
        curator.sql(text, share="10%", fresh=True)
    with pytest.raises(BudgetExceeded):
        curator.sql(text, share="10%", fresh=True)
    one, ten = (curator.preview(text, share=share).errors["n"] for share in ("100%", "10%"))
    assert one is not None
    assert ten is not None
    assert ten > 5 * one  # the mean of ten answers at a tenth each is no better than one at all


def test_anonymous_rows_can_be_linked() -> None:
    """Of 8,366 anonymous people, most are identified by age, sex, weight, and height alone."""
    sample = pq.read_table(files("confide.examples") / "nhanes.parquet").to_pylist()
    traits = [(row["age"], row["sex"], row["weight_kg"], row["height_cm"]) for row in sample]
    found = link_rows(traits, traits)

    assert len(found) > 0.85 * len(sample)
    assert all(here == there for here, there in found)


@pytest.mark.statistical
def test_noisy_tables_cannot_be_linked() -> None:
    """In a noisy table, cells with one person look like empty cells: half of each are positive.

    At epsilon 1/10, one more person increases that probability by 0.05. The shares among 200 and
    among 7,900 cells differ by 0.3 with a probability below 1e-11.
    """
    rows: list[dict[str, Any]] = [
        {"who": i, "age": 20 + i % 50, "sex": "FM"[i % 2], "weight": float(50 + i % 7)}
        for i in range(200)
    ]
    columns: dict[str, Column] = {
        "age": Int(20, 69),
        "sex": Category(["F", "M"]),
        "weight": Float(40, 120),
    }
    curator = open_one(rows, columns, budget=Budget("0.1"), unique=True)
    text = "SELECT age, sex, FLOOR(weight) AS w, COUNT(*) AS n FROM p GROUP BY age, sex, w"
    taken = {(row["age"], row["sex"], int(row["weight"])) for row in rows}
    assert len(rows) == len(taken)
    told = curator.sql(text, share=1).rows
    above = {True: [0, 0], False: [0, 0]}
    for row in told:
        cell = above[(row["age"], row["sex"], row["w"]) in taken]
        cell[0], cell[1] = cell[0] + (row["n"] > 0), cell[1] + 1

    shares = {kind: seen / many for kind, (seen, many) in above.items()}
    assert abs(shares[True] - shares[False]) < 0.3
