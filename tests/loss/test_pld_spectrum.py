import numpy as np
import pytest
from numpy.typing import NDArray

from confide.loss.pld import Spectrum


def laws(size: int) -> list[NDArray[np.float64]]:
    """Return distributions that are smooth, peaked, random, and far from uniform."""
    generator = np.random.default_rng(size)
    place = np.arange(size)
    spikes = np.zeros(size)
    spikes[generator.integers(0, size, 3)] = 1 / 3
    raw = [
        np.exp(-(((place - size / 2) / (size / 30)) ** 2)),
        spikes,
        generator.random(size),
        generator.random(size) ** 40,
    ]
    return [law / law.sum() for law in raw]


@pytest.mark.parametrize("size", [1 << 4, 1 << 10, 1 << 14, 1 << 17])
def test_the_error_of_a_transform_is_covered(size: int) -> None:
    """Every coefficient is within its error bound of the one in extended precision."""
    for law in laws(size):
        exact = np.fft.rfft(law.astype(np.longdouble))
        found = Spectrum.of(law)

        assert (np.abs(exact - found.value) <= found.error).all()


@pytest.mark.parametrize("times", [1, 2, 3, 10, 300])
@pytest.mark.parametrize("size", [1 << 8, 1 << 14])
def test_the_error_of_a_power_is_covered(size: int, times: int) -> None:
    """Masses of a power are at least those in extended precision, and only slightly more."""
    for law in laws(size):
        power = np.ones(size // 2 + 1, dtype=np.clongdouble)
        for _ in range(times):
            power *= np.fft.rfft(law.astype(np.longdouble))
        exact = np.fft.irfft(power, size)
        found = Spectrum.of(law).power(times).law_above()

        assert (exact <= found).all()
        assert np.abs(found - exact).max() <= 1e-13 * times


def test_a_smaller_error_bound_fails() -> None:
    """A bound a thousand times smaller fails for the same distributions."""
    law = laws(1 << 14)[2]
    exact = np.fft.rfft(law.astype(np.longdouble))
    found = Spectrum.of(law)

    assert not (np.abs(exact - found.value) <= found.error / 1000).all()
