"""Print the coefficients of noise/gaussian.py, and their maximum error.

With s = sqrt(-ln V) the two-sided normal quantile x(V) = -Phi^-1(V / 2) is smooth in s: close to
sqrt(pi / 2) s^2 at zero and to sqrt(2) s far out. So this program fits x / s^2 by a ratio of two
polynomials in s that agrees with it at the Chebyshev points of [0, 6.6875], an interval that covers
every V down to 2^-64. Run with the project's Python: ``.venv/bin/python
tools/fit_gaussian_quantile.py``.
"""

from flint import arb, arb_mat, ctx

REACH = arb(107) / 16
TOP, BOTTOM = 15, 15


def quantile(s: arb) -> arb:
    """Return an enclosure of the two-sided normal quantile at V = exp(-s^2)."""
    return arb(2).sqrt() * (-(s * s)).exp().erfcinv()


def fit() -> tuple[list[float], list[float]]:
    """Return the coefficients of the numerator and the denominator, lowest power first."""
    size = TOP + BOTTOM + 1
    points = [(1 - (arb(2 * i + 1) / (2 * size)).cos_pi()) / 2 * REACH for i in range(size)]
    system, wanted = arb_mat(size, size), arb_mat(size, 1)
    for row, s in enumerate(points):
        ratio = quantile(s) / (s * s)
        for power in range(TOP + 1):
            system[row, power] = s**power
        for power in range(1, BOTTOM + 1):
            system[row, TOP + power] = -ratio * s**power
        wanted[row, 0] = ratio
    solved = system.solve(wanted)
    values = [float(solved[row, 0].mid()) for row in range(size)]
    return values[: TOP + 1], [1.0, *values[TOP + 1 :]]


def worst_error(top: list[float], bottom: list[float], steps: int = 20_000) -> float:
    """Return the maximum error of the fit, with coefficients as doubles."""
    worst = 0.0
    for step in range(1, steps):
        s = REACH * step / steps
        upper = sum((arb(c) * s**i for i, c in enumerate(top)), arb(0))
        lower = sum((arb(c) * s**i for i, c in enumerate(bottom)), arb(0))
        worst = max(worst, abs(float((upper / lower * s * s - quantile(s)).mid())))
    return worst


if __name__ == "__main__":
    ctx.prec = 800
    numerator, denominator = fit()
    ctx.prec = 160
    print("NUMERATOR =", numerator)
    print("DENOMINATOR =", denominator)
    print(f"greatest error in exact arithmetic: {worst_error(numerator, denominator):.3g}")
