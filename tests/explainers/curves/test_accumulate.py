"""Intervals, factorisations and bars of accumulated effects."""

import numpy as np
import pytest

from pellucid.explainers.curves import accumulate
from pellucid.explainers.curves.accumulate import ErrorModel, curve, mean_effects
from pellucid.mechanisms import NoiseLaw


def test_intervals_divide_records_fairly():
    """Claim: ale-ties. Shares of a value add up to at most one, over at most two intervals."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        counts = np.maximum(rng.exponential(10, rng.integers(2, 60)) * (rng.random() < 0.8) - rng.exponential(5), 0)
        counts[rng.integers(len(counts))] += rng.choice([1, 1000])
        made = accumulate.rank_intervals(counts, int(rng.choice([3, 11, 33])))
        assert (made.share.sum(axis=0) <= 1 + 1e-9).all() and ((made.share > 0).sum(axis=0) <= 2).all()
        assert (made.upper > made.lower).all() and (made.mass >= 1).all()
        np.testing.assert_array_equal(made.upper[:-1], made.lower[1:])


def test_factorisations_keep_the_sensitivity_and_pay():
    """Columns stay within length one; the error of a centred curve shrinks as theory predicts (1.46, 1.88, 2.33)."""
    for size, gain in ((20, 1.44), (50, 1.86), (99, 2.30)):
        mass, weights = np.full(size, 100.0), np.full(size + 1, 1 / (size + 1))
        asked = accumulate.factorisation(mass, weights)
        assert np.sqrt((asked**2).sum(axis=0)).max() <= 1 + 1e-12
        curve = accumulate.curve_of_sums(mass, weights)
        error = [np.sqrt(((curve @ np.linalg.inv(a)) ** 2).sum()) for a in (np.eye(size), asked)]
        assert error[0] / error[1] > gain
    rng = np.random.default_rng(0)
    for _ in range(20):
        mass = rng.exponential(100, rng.integers(1, 30)) + 1
        weights = rng.dirichlet(np.ones(len(mass) + 1))
        asked, curve = accumulate.factorisation(mass, weights), accumulate.curve_of_sums(mass, weights)
        assert ((curve @ np.linalg.inv(asked)) ** 2).sum() <= (curve**2).sum() * (1 + 1e-9)


MASS = np.array([400.0, 60.0, 900.0, 25.0])


def bars_of_draws(cut: float, per_count: float, taken_for: float, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """(which of the bars hold, which counts were below zero): what was cut off lies where it moves each border most.

    People are counted without noise, so that noise of the sums and of the count of what was cut off is all there is.
    """
    size, law = len(MASS), NoiseLaw("laplace", 1.0, len(MASS) + 1)
    weights, hidden = np.full(size + 1, 1 / (size + 1)), 0.4
    sums = MASS * np.array([0.01, -0.02, 0.0, 0.03])
    plain = curve(mean_effects(sums, MASS, 5.0), weights)
    rng, held, below = np.random.default_rng(7), [], []
    for _ in range(draws):
        noise = rng.laplace(0, law.scale, size + 1)
        model = ErrorModel(
            sums=sums + noise[:size], mass=MASS, most=5.0, floor=1.0, weights=weights, asked=np.eye(size), sum_law=law,
            count_law=NoiseLaw("none", 0.0, size), cells=MASS, fixed_total=True, place=np.arange(size)[:, None],
            share=np.ones((size, 1)), on_grid=np.zeros(size), cut_off=cut + per_count * noise[size], per_count=taken_for,
            hidden=hidden,
        )  # fmt: skip
        moved = model._moved_by(np.array([cut]))[0]
        released = curve(mean_effects(model.sums, MASS, 5.0), weights)
        held.append(np.abs(released - plain - moved) <= model.half_widths(0.95))
        below.append(model.cut_off < 0)
    return np.array(held), np.array(below)


@pytest.mark.parametrize("cut", [0.0, 5.0, 60.0])
def test_counts_below_zero_are_left_as_they_were_released(cut):
    """Bars hold .95 wherever what was cut off lies: from nothing, where half of the counts are below zero, to where it saturates.

    Of 600 draws of a bar that holds .95 at least .923 hold, with a chance of .998. Why: docs/bars.md.
    """
    held, below = bars_of_draws(cut, 2.5, 2.5, 600)
    assert held.mean(axis=0).min() > 0.923
    assert cut > 0 or 0.4 < below.mean() < 0.6, "counts below zero are part of what is tested"


def test_noise_of_the_count_that_is_left_out_is_noticed():
    """Sabotage: the count of what was cut off taken for exact, whatever noise took from it."""
    held, _ = bars_of_draws(12.0, 2.5, 1e-9, 400)
    assert held.mean(axis=0).min() < 0.9
