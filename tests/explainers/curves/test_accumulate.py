"""Intervals and factorisations of accumulated effects."""

import numpy as np

from pellucid.explainers.curves import accumulate


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
