"""The sampler settles a draw in doubles only if no further digit can change it."""

import gc
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from numpy.typing import NDArray

from confide.noise import DiscreteLaplace, Entropy, Integers, Law, RoundedGaussian
from confide.noise.sampler import Integer, draw, draw_one, enclose
from support.entropy import SeededEntropy
from support.scripted import ScriptedEntropy
from support.tails import floor
from support.tree import ROOT

BITS = 63
DEPTH = 46
SCALES = [Fraction(1, 2), Fraction(3), Fraction(1000)]
LAWS: list[Law] = [
    *(DiscreteLaplace(scale) for scale in SCALES),
    *(RoundedGaussian(scale**2) for scale in SCALES),
]


def shown(law: Law) -> str:
    return f"{type(law).__name__}-{law.scale:g}"


each_law = pytest.mark.parametrize("law", LAWS, ids=shown)


def split_cells(law: Law) -> tuple[dict[int, int], dict[int, int]]:
    """Return the mass of the cells of U settled at each k, and of those in doubt from k on.

    Masses are counted in units of 2**-DEPTH. A cell in doubt is split until it is that small.
    """
    settled_mass: dict[int, int] = {}
    doubtful_mass: dict[int, int] = {}
    prefixes = np.zeros(1, dtype=np.int64)
    for bits in range(DEPTH + 1):
        settled, low = enclose(law, prefixes.astype(np.float64), bits)
        add_up(settled_mass, low[settled], 2 ** (DEPTH - bits))
        prefixes = prefixes[~settled]
        if bits < DEPTH:
            prefixes = np.concatenate([2 * prefixes, 2 * prefixes + 1])
        else:
            add_up(doubtful_mass, low[~settled], 1)
    return settled_mass, doubtful_mass


def add_up(masses: dict[int, int], values: NDArray[np.float64], mass: int) -> None:
    for value, count in zip(*np.unique(values, return_counts=True), strict=True):
        masses[int(value)] = masses.get(int(value), 0) + int(count) * mass


@each_law
def test_cells_add_up_to_the_law(law: Law) -> None:
    """Masses of settled cells never exceed the probabilities, and miss at most 1e-12."""
    settled, doubtful = split_cells(law)
    mass_above = 0
    with ctx.workprec(200):
        for value in sorted(settled.keys() | doubtful.keys(), reverse=True):
            # U below P(|Z| >= value + 1): all cells above, and some of those in doubt here.
            missing = law.tail(value + 1) - arb((mass_above, -DEPTH))
            assert arb(0) <= missing
            assert missing <= arb("1e-12")
            # Cells closer to U = 0 are so wide that they leave more than two integers in doubt.
            if mass_above > 8 * law.scale + 8:
                assert missing <= arb((doubtful.get(value, 0), -DEPTH))

            exact = law.tail(value) - law.tail(value + 1)
            short = exact - arb((settled.get(value, 0), -DEPTH))
            unsure = arb((doubtful.get(value, 0) + doubtful.get(value - 1, 0), -DEPTH))
            assert arb(0) <= short
            assert abs(short - unsure / 2) <= arb("1e-12")
            mass_above += settled.get(value, 0) + doubtful.get(value, 0)

    assert 2**DEPTH == mass_above


def assert_settled_correctly(law: Law, prefixes: list[int], bits: int) -> int:
    """Check every settled cell against the exact tail, and return the number of settled cells."""
    settled, low = enclose(law, np.array(prefixes, dtype=np.int64).astype(np.float64), bits)
    with ctx.workprec(200):
        for prefix, sure, value in zip(prefixes, settled.tolist(), low.tolist(), strict=True):
            if sure:
                assert arb((prefix + 1, -bits)) <= law.tail(int(value))
                assert arb((prefix, -bits)) >= law.tail(int(value) + 1)
    return int(settled.sum())


@each_law
def test_settled_cells_are_right_anywhere(law: Law, entropy: SeededEntropy) -> None:
    """A settled cell lies entirely between the tails of its integer, and nearly all are settled."""
    words = entropy.words(2_000).tolist()

    assert_settled_correctly(law, [word >> 57 for word in words], 7)
    assert_settled_correctly(law, [word >> 34 for word in words], 30)
    assert len(words) == assert_settled_correctly(law, [word >> 1 for word in words], BITS)


@each_law
def test_settled_cells_are_right_next_to_a_border(law: Law) -> None:
    """Near the border of each integer, from one cell away outward, no cell is settled wrongly."""
    steps = sorted({0, 1, 2} | {2**power for power in range(2, 60)})
    found = settled = 0
    for magnitude in [*range(1, 12), *range(20, 2_000, 97)]:
        with ctx.workprec(200):
            border = floor(law.tail(magnitude) * 2**BITS)
        near = [border + sign * step for step in steps for sign in (-1, 1)]
        inside = [prefix for prefix in near if 0 <= prefix < 2**BITS]
        settled += assert_settled_correctly(law, inside, BITS)
        found += len(inside)

    assert 0 < settled < found


@each_law
def test_eight_bits_settle_little(law: Law) -> None:
    """Doubles that use 8 bits (7 of U) settle no draw at scale 1000, and only some below."""
    settled, _ = enclose(law, np.arange(128.0), 7)

    assert settled.mean() <= {0.5: 0.95, 3.0: 0.7, 1000.0: 0.0}[law.scale]


@each_law
@pytest.mark.parametrize("bits", [8, 64])
def test_one_draw_equals_an_array_of_one(law: Law, bits: int, entropy: SeededEntropy) -> None:
    """draw_one and draw return the same integer for the same words."""
    words = entropy.words(500).tolist()
    extra = entropy.words(6).tolist()
    for word in [*words, 0, 1, 2, 3, 2**64 - 1, 2**64 - 2]:
        script = [word, *extra]
        one = draw_one(law, ScriptedEntropy(script), bits=bits)

        assert [one] == draw(law, 1, ScriptedEntropy(script), bits=bits).tolist()


@each_law
def test_an_array_is_its_words_one_by_one(law: Law, entropy: SeededEntropy) -> None:
    """Each word of an array gives its own draw, at its own index, across blocks and chunks."""
    words = entropy.words(70_001)
    places = [0, 1, 4095, 4096, 4097, 65_535, 65_536, 70_000]
    drawn = draw(law, len(words), ScriptedEntropy(words.tolist()))

    assert len(words) == len(drawn)
    for place in places:
        assert draw_one(law, ScriptedEntropy([int(words[place])])) == drawn[place]


@each_law
@pytest.mark.parametrize("count", [0, 1, 4095, 4097, 1_000_000])
def test_sizes(law: Law, count: int, entropy: SeededEntropy) -> None:
    """A draw has the requested number of 64-bit integers, each from its own word."""
    source = ScriptedEntropy([], entropy)
    drawn = draw(law, count, source)

    assert (count,) == drawn.shape
    assert np.int64 == drawn.dtype
    assert source.used in (count, count + 1, count + 2)  # more than two refined: below 1e-9


@each_law
def test_the_lowest_bit_is_the_sign_alone(law: Law, entropy: SeededEntropy) -> None:
    """Flipping the lowest bit of its word negates a draw."""
    words = entropy.words(10_000)
    flipped = words ^ np.uint64(1)
    here = draw(law, len(words), ScriptedEntropy(words.tolist()))
    there = draw(law, len(words), ScriptedEntropy(flipped.tolist()))

    assert (here == -there).all()


TOOL = runpy.run_path(str(ROOT / "tools" / "measure_slack.py"))


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_the_slack_is_four_times_the_error(name: str) -> None:
    """At 20,000 points the error of doubles is less than a quarter of the slack."""
    law, exact = TOOL[name.upper()], TOOL[f"exact_{name}"]
    error, _ = TOOL["worst"](law, exact, 20_000)

    assert 4 * error < law.slack


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_the_slack_covers_one_number_too(name: str) -> None:
    """The slack also covers single numbers, for which NumPy may use other code than for arrays."""
    law, exact = TOOL[name.upper()], TOOL[f"exact_{name}"]
    prefixes = TOOL["spread_prefixes"](3_000).tolist()
    with ctx.workprec(160):
        for prefix in prefixes:
            value = law.scale * law.magnitude((prefix + 0.5) * 2.0**-BITS) + law.shift
            error = abs(arb(float(value)) - exact(arb((2 * prefix + 1, -BITS - 1))))

            assert 4 * float(error.upper()) < law.slack * law.scale


def record_lines(run: Callable[[], object]) -> list[tuple[str, int]]:
    """Return every line of Python that ``run`` executes, in order.

    Garbage collection is off meanwhile: its timing and callbacks are not part of the run.
    """
    lines: list[tuple[str, int]] = []

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines.append((frame.f_code.co_name, frame.f_lineno))
        return trace

    before = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
        gc.enable()
    return lines


@each_law
def test_every_settled_draw_runs_the_same_lines(law: Law) -> None:
    """From the center to U = 2**-40, a draw executes the same lines for every result."""
    words = [2**64 - 2, 2**63 + 2**61, 2**62 + 2**55, 2**44 + 2**40, 2**24 + 2**20]
    paths = [record_lines(partial(draw_one, law, ScriptedEntropy([word]))) for word in words]
    blocks = [record_lines(partial(draw, law, 64, ScriptedEntropy([word] * 64))) for word in words]

    assert len({draw_one(law, ScriptedEntropy([word])) for word in words}) > 1
    assert paths == [paths[0]] * len(words)
    assert blocks == [blocks[0]] * len(words)


@dataclass(frozen=True)
class LooseLaw:
    """A distribution with so large a slack that refinements can be counted."""

    law: Law
    slack: float

    @property
    def scale(self) -> float:
        return self.law.scale

    @property
    def shift(self) -> float:
        return self.law.shift

    def magnitude(self, uniform: Any) -> Any:
        return self.law.magnitude(uniform)

    def tail(self, magnitude: int) -> arb:
        return self.law.tail(magnitude)

    def draw(self, count: int, entropy: Entropy) -> Integers:
        return draw(self, count, entropy)

    def draw_one(self, entropy: Entropy) -> Integer:
        return draw_one(self, entropy)


@pytest.mark.parametrize("law", [LAWS[2], LAWS[5]], ids=shown)
def test_refinement_does_not_depend_on_the_size(law: Law) -> None:
    """A slack t at scale 1000 refines a fraction 2000 t of draws, near U = 1 and at U = 2**-20."""
    loose = LooseLaw(law, 2.0**-12)
    for top in (BITS, BITS - 1, BITS - 10, BITS - 20):
        half = 2 ** (top - 1)
        prefixes = half + np.arange(200_000) * (half // 200_000)
        settled, _ = enclose(loose, prefixes.astype(np.float64), BITS)

        assert 2_000 * loose.slack == pytest.approx(1 - settled.mean(), rel=0.02)


def test_refinement_is_as_rare_as_stated() -> None:
    """At scale 1000 even a draw as rare as 2**-20 is refined with probability below 2e-9."""
    for law in (LAWS[2], LAWS[5]):
        assert 2 * law.scale * (law.slack + 2.0 ** (1 - BITS + 20)) < 2e-9
