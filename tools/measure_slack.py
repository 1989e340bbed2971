"""Print the rounding error of the doubles in noise/sampler.py, compared with the claimed slack.

For a prefix v, the sampler computes ``scale * magnitude(U) + shift`` in doubles at the center U =
(v + 1/2) / 2**63 of the cell. The reference value is the same expression in ball arithmetic, from
the exact U and the exact scale. Their distance, in units of the scale, must stay below ``slack``. A
third of the prefixes is spread evenly, a third by the logarithm of U down to 2**-64, and a third by
that of 1 - U. Run with the project's Python: ``.venv/bin/python tools/measure_slack.py [points]``.
"""

import math
import sys
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from confide.exact import ball
from confide.noise import DiscreteLaplace, Law, RoundedGaussian

BITS = 63
LAST = 2**BITS - 1
STRIDE = 0x9E3779B97F4A7C15  # odd, so that its multiples modulo 2**64 are spread evenly
Prefixes = NDArray[np.int64]
Watch = Callable[[list[Prefixes]], Iterable[Prefixes]]
"""A wrapper that yields the parts of the work one by one, and may show a progress bar."""

LAPLACE = DiscreteLaplace(Fraction(1000, 3))
GAUSSIAN = RoundedGaussian(Fraction(1_000_000, 3))


def spread_prefixes(points: int) -> Prefixes:
    """Return about ``points`` prefixes: evenly spread, dense near U = 0, and dense near U = 1."""
    third = max(points // 3, 2)
    even = [(index * STRIDE % 2**64) >> 1 for index in range(third)]
    steps = [min(int(2 ** (BITS * index / (third - 1))), LAST) for index in range(third)]
    return np.array([0, *even, *steps, *(LAST - step for step in steps), LAST], dtype=np.int64)


def exact_laplace(uniform: arb) -> arb:
    """Return an enclosure of b * (ln(2 / (1 + q)) - ln U)."""
    scale = ball(LAPLACE.exact_scale)
    return scale * ((2 / (1 + (-1 / scale).exp())).log() - uniform.log())


def exact_gaussian(uniform: arb) -> arb:
    """Return an enclosure of sigma * x(U) + 1/2."""
    return (2 * ball(GAUSSIAN.sigma_squared)).sqrt() * uniform.erfcinv() + arb(0.5)


def errors(law: Law, exact: Callable[[arb], arb], prefixes: Prefixes) -> NDArray[np.float64]:
    """Return an upper bound on the error at each prefix, in units of the scale."""
    values = law.scale * law.magnitude((prefixes + 0.5) * 2.0**-BITS) + law.shift
    with ctx.workprec(160):
        gaps = (
            abs(arb(value) - exact(arb((2 * prefix + 1, -BITS - 1))))
            for value, prefix in zip(values.tolist(), prefixes.tolist(), strict=True)
        )
        return np.array([float(gap.upper()) for gap in gaps]) / law.scale


def worst(
    law: Law, exact: Callable[[arb], arb], points: int, watch: Watch = iter
) -> tuple[float, int]:
    """Return the maximum error among ``points`` prefixes, and the prefix where it occurs."""
    prefixes = spread_prefixes(points)
    greatest, place = 0.0, 0
    for part in watch(np.array_split(prefixes, max(1, len(prefixes) // 4096))):
        found = errors(law, exact, part)
        if found.max() > greatest:
            greatest, place = float(found.max()), int(part[found.argmax()])
    return greatest, place


def main(points: int) -> None:
    """Measure both distributions and print a table."""
    table = Table("law", "points", "greatest error", "at U", "slack", "slack / error")
    for law, exact in ((LAPLACE, exact_laplace), (GAUSSIAN, exact_gaussian)):
        name = type(law).__name__
        found, place = worst(law, exact, points, partial(track, description=name))
        table.add_row(
            name,
            f"{points:,}",
            f"{found:.3g} = 2^{math.log2(found):.2f}",
            f"{(place + 0.5) * 2.0**-BITS:.6g}",
            f"{law.slack:.3g} = 2^{math.log2(law.slack):.0f}",
            f"{law.slack / found:.1f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
