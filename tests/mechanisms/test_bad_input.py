"""Bad arguments raise an error that names them, before any randomness is drawn."""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from confide.errors import BadDeclaration
from confide.mechanisms import (
    Box,
    Exponential,
    Gaussian,
    KeySelection,
    KNorm,
    Laplace,
    Neighbours,
    PermuteAndFlip,
    Polytope,
    RandomizedResponse,
    SparseVector,
    histogram_sensitivity,
    sum_sensitivity,
)
from support.scripted import ScriptedEntropy

SILENT = ScriptedEntropy([])
SECRET = 8_675_309
"""A stand-in for data, which no message may contain."""

Make = Callable[[Any], object]

NOT_POSITIVE = [0, -1, math.nan, math.inf, -math.inf, "nonsense", "1/0", "", True, None, [1], 1j,
                Decimal("NaN"), Decimal("Infinity"), np.float64("nan"), b"1", "-1e-9"]  # fmt: skip
NOT_PROBABILITY = [-0.1, 1, 1.5, math.nan, math.inf, "nonsense", True, [0.1]]
NOT_COUNT = [0, -1, 1.0, 1.5, math.nan, math.inf, "1", True, None, 10**90]

POSITIVE: list[tuple[str, Make]] = [
    ("epsilon", lambda bad: Laplace(1, bad)),
    ("sensitivity", lambda bad: Laplace(bad, 1)),
    ("epsilon", lambda bad: Exponential(1, bad)),
    ("sensitivity", lambda bad: Exponential(bad, 1)),
    ("epsilon", lambda bad: PermuteAndFlip(1, bad)),
    ("sensitivity", lambda bad: PermuteAndFlip(bad, 1)),
    ("sensitivity", lambda bad: Gaussian(bad, 1, 1e-6)),
    ("epsilon", RandomizedResponse),
    ("epsilon", lambda bad: SparseVector(1, epsilon=bad, entropy=SILENT)),
    ("epsilon", lambda bad: KNorm(Box([1]), bad)),
    ("half_widths", lambda bad: Box([1, bad])),
]
OPTIONAL: list[tuple[str, Make]] = [
    ("grid", lambda bad: Laplace(1, 1, grid=bad)),
    ("grid", lambda bad: Gaussian(1, mu=1, grid=bad)),
    ("grid", lambda bad: Exponential().choose_interval([0, 1], [0], grid=bad, entropy=SILENT)),
    ("epsilon", lambda bad: Gaussian(1, bad, 1e-6)),
    ("mu", lambda bad: Gaussian(1, mu=bad)),
    ("rho", lambda bad: Gaussian(1, rho=bad)),
    ("epsilon", lambda bad: KeySelection(1, bad, 0.1)),
    ("mu", lambda bad: KeySelection(1, delta=0.1, mu=bad)),
]
PROBABILITY: list[tuple[str, Make]] = [
    ("delta", lambda bad: Gaussian(1, 1, bad)),
    ("delta", lambda bad: KeySelection(1, 1, bad)),
    ("confidence", lambda bad: Laplace().interval(bad)),
    ("confidence", lambda bad: Gaussian(1, mu=1).interval(bad)),
    ("confidence", lambda bad: KNorm(Box([1])).interval(bad)),
    ("confidence", lambda bad: SparseVector(1).interval(bad)),
    ("confidence", lambda bad: Exponential().regret(3, bad)),
    ("answers", lambda bad: SparseVector(1, answers=bad, entropy=SILENT)),
]
COUNT: list[tuple[str, Make]] = [
    ("above", lambda bad: SparseVector(1, bad, entropy=SILENT)),
    ("sensitivity", lambda bad: SparseVector(1, sensitivity=bad, entropy=SILENT)),
    ("keys_per_unit", lambda bad: KeySelection(bad, 1, 0.1)),
    ("categories", lambda bad: RandomizedResponse(1, bad)),
    ("candidates", lambda bad: Exponential().regret(bad)),
    ("weights", lambda bad: Exponential().choose([1, 2], weights=[1, bad], entropy=SILENT)),
    ("cells", lambda bad: histogram_sensitivity("replace", cells=bad)),
    ("rows", lambda bad: histogram_sensitivity("replace", rows=bad)),
]
CELLS: list[tuple[str, Make]] = [
    ("cells", lambda bad: Laplace(1, 1, grid=1, cells=bad)),
    ("cells", lambda bad: Gaussian(1, mu=1, grid=1, cells=bad)),
]

BAD_INT = [1.5, float(SECRET), [0.5, 1.0], np.array([1.0]), math.nan, "nonsense", None, True,
             [True], 2**61 + 1, -(2**61) - 1, 2**63, 10**30, np.array([2**63], dtype=np.uint64),
             [[1], [1, 2]], 1j, [None], b"1", {1}, np.array(["1"]), [SECRET, 2**62]]  # fmt: skip
EMPTY = [[], np.array([]), np.zeros((0, 2), dtype=np.int64)]
BAD_REAL = [math.nan, math.inf, [0.0, -math.inf], 1e300, "nonsense", None, True, 1j,
            [[1.0], [1.0, 2.0]], np.array(["1.5"]), [SECRET * 1.5, math.nan], *EMPTY]  # fmt: skip
BAD_SCORES = [[math.nan, 1.0], [math.inf], [1.0, -math.inf], [2**62], [1e30], ["1"], [None], 3,
              [1j], [[1, 2]], None, [[1], [1, 2]], [True], "nonsense", [SECRET * 0.5, math.nan],
              *EMPTY]  # fmt: skip
DATA: list[tuple[str, list[Any], Make]] = [
    ("x", [*BAD_INT, *EMPTY], lambda bad: Laplace().release(bad, entropy=SILENT)),
    ("x", [*BAD_INT, *EMPTY], lambda bad: Gaussian(1, mu=1).release(bad, entropy=SILENT)),
    ("x", BAD_REAL, lambda bad: Laplace(grid=1, cells=2).release(bad, entropy=SILENT)),
    ("x", [math.nan, math.inf, [math.nan], "nonsense", [[1.0], [1.0, 2.0]]],
     lambda bad: Laplace(grid=1).release(bad, entropy=SILENT)),
    ("x", BAD_REAL, lambda bad: Gaussian(1, mu=1, grid=1, cells=2).release(bad, entropy=SILENT)),
    ("x", [*BAD_INT, *EMPTY, 1, [1], [1, 2, 3], [[[1, 2]]], [[1], [2]], SECRET],
     lambda bad: KNorm(Box([1, 1])).release(bad, entropy=SILENT)),
    ("x", [*BAD_INT, *EMPTY, -1, 2, [0, 1, SECRET]],
     lambda bad: RandomizedResponse().release(bad, entropy=SILENT)),
    ("reports", [*BAD_INT, *EMPTY, -1, 2, [0, SECRET]],
     lambda bad: RandomizedResponse().estimate(bad)),
    ("scores", BAD_SCORES, lambda bad: Exponential().choose(bad, entropy=SILENT)),
    ("scores", BAD_SCORES, lambda bad: PermuteAndFlip().choose(bad, entropy=SILENT)),
    ("scores", BAD_SCORES, lambda bad: Exponential().choose_interval([0, 1], bad, entropy=SILENT)),
    ("breaks", [*BAD_INT, *EMPTY, [0], [0, 1, 2], [1, 0], [0, 0], 5, [[0, 1]], [SECRET, 0]],
     lambda bad: Exponential().choose_interval(bad, [0], entropy=SILENT)),
    ("threshold", [*BAD_INT, *EMPTY, [1], [1, 2]], lambda bad: SparseVector(bad, entropy=SILENT)),
    ("counts", [0, -1, [1, 0], [-SECRET], *BAD_INT],
     lambda bad: KeySelection(1, 1, 0.1).release(bad, entropy=SILENT)),
    ("counts", [["a"], 5, None, {"a": 0}, {"a": 1.5}, {"a": -SECRET}],
     lambda bad: KeySelection(1, 1, 0.1).release_keys(bad, entropy=SILENT)),
]  # fmt: skip

OTHER: list[tuple[str, Make, list[Any]]] = [
    ("neighbours", Neighbours.of, ["add", "", None, 1, []]),
    ("neighbours", histogram_sensitivity, ["swap"]),
    ("neighbours", lambda bad: sum_sensitivity(bad, 0, 1), ["swap"]),
    ("neighbours", lambda bad: KeySelection(1, 1, 0.1, neighbours=bad), ["swap"]),
    ("low", lambda bad: sum_sensitivity("replace", bad, 1), [math.nan, "x", None, -math.inf, 2]),
    ("high", lambda bad: sum_sensitivity("replace", 0, bad), [math.nan, "x", None, math.inf, -1]),
    ("monotone", lambda bad: Exponential(monotone=bad), ["no", 0, 1, None]),
    ("monotone", lambda bad: SparseVector(1, monotone=bad, entropy=SILENT), ["no", 0, 1, None]),
    ("weights", lambda bad: Exponential().choose([1, 2], weights=bad, entropy=SILENT),
     [3, [1], [1] * 3]),
    ("half_widths", Box, [[], None, 3, "12", [[1]]]),
    ("corners", Polytope,
     [[], [[]], None, 3, [3], [[1, 0], [1]], [[math.nan]], [["x"]], [[1, 1]], [[0]]]),
    ("corners", lambda bad: Polytope([[i, bad, 1] for i in range(200)]), [1]),
    ("body", KNorm, [None, 3, [1, 1]]),
    ("grid", lambda bad: Laplace(1, 1, grid=bad), ["1e400", "1e-400"]),
    ("scale", lambda bad: Laplace(1, bad), [1e-16, "1e-300"]),
    ("scale", lambda bad: Laplace(bad, 1), [1e16, 2**63]),
    ("sigma", lambda bad: Gaussian(1, mu=bad), [1e-16]),
    ("half_widths", lambda bad: KNorm(Box([bad])), [1e16, "1e400"]),
    ("corners", lambda bad: KNorm(Polytope([[bad]])), [1e16, "1e400"]),
]  # fmt: skip


def spread(table: list[tuple[str, Make]], bads: list[Any]) -> list[Any]:
    return [pytest.param(name, make, bad, id=f"{i}-{name}-{bad!r}"[:60])
            for i, (name, make) in enumerate(table) for bad in bads]  # fmt: skip


DECLARED = [
    *spread(POSITIVE, NOT_POSITIVE),
    *spread(OPTIONAL, [bad for bad in NOT_POSITIVE if bad is not None]),
    *spread(PROBABILITY, NOT_PROBABILITY),
    *spread(PROBABILITY[:7], [0]),
    *spread(COUNT, NOT_COUNT),
    *spread(CELLS, [bad for bad in NOT_COUNT if bad is not None]),
    *(param for name, make, bads in OTHER for param in spread([(name, make)], bads)),
]


@pytest.mark.parametrize(("name", "make", "bad"), DECLARED)
def test_a_bad_declaration_is_named_and_quoted(name: str, make: Make, bad: Any) -> None:
    """The message has the argument, the allowed and the received value; nothing is drawn."""
    with pytest.raises(BadDeclaration) as caught:
        make(bad)
    text = str(caught.value)

    assert name in text.partition(" must ")[0] or f"`{name}=`" in text
    assert " must " in text or " need " in text
    assert "; got " in text or "span all" in text


@pytest.mark.parametrize(
    ("name", "make", "bad"),
    [param for name, bads, make in DATA for param in spread([(name, make)], bads)],
)
def test_bad_data_are_named_and_not_quoted(name: str, make: Make, bad: Any) -> None:
    """The message about bad data names the argument and the allowed range, but no value."""
    with pytest.raises(BadDeclaration) as caught:
        make(bad)
    text = str(caught.value)

    assert text.startswith((f"`{name}` must ", "`scores` must "))
    assert str(SECRET) not in text
    assert "nonsense" not in text


@pytest.mark.parametrize("bad", [*BAD_INT, *EMPTY, [1], [1, 2]])
def test_a_bad_value_is_refused_by_an_open_session(bad: object) -> None:
    """A session refuses a bad value by name, without a draw and without using an answer."""
    session = SparseVector(0, entropy=ScriptedEntropy([2**63]))
    with pytest.raises(BadDeclaration, match=r"^`value` must "):
        session.ask(bad)  # type: ignore[arg-type]

    assert 1 == session.left


def test_real_arrays_need_cells() -> None:
    """With a grid, releasing several numbers without `cells` raises an error."""
    for mechanism in (Laplace(1, 1, grid=0.5), Gaussian(1, mu=1, grid=0.5)):
        with pytest.raises(BadDeclaration, match=r"needs `cells=`"):
            mechanism.release([0.5, 1.5], entropy=SILENT)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Gaussian(1),
        lambda: Gaussian(1, 1),
        lambda: Gaussian(1, delta=0.1),
        lambda: Gaussian(1, 1, 0.1, mu=1),
        lambda: Gaussian(1, mu=1, rho=1),
        lambda: Gaussian(1, delta=0.1, mu=1),
        lambda: KeySelection(1, delta=0.1),
        lambda: KeySelection(1, 1, 0.1, mu=1),
    ],
)
def test_the_loss_is_given_in_one_way(make: Callable[[], object]) -> None:
    """Noise that is set in no way, or in two ways at once, is refused."""
    with pytest.raises(BadDeclaration, match="epsilon"):
        make()


def test_the_silent_source_raises() -> None:
    """A draw from the source used above fails, so a passing test shows that none was made."""
    with pytest.raises(AssertionError, match="more words"):
        Laplace().release(1, entropy=SILENT)
