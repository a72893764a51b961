"""Certified constants of weight functions: reached, never exceeded, and refused where nothing can be certified."""

import math

import numpy as np
import pytest

from pellucid import PellucidError
from pellucid.explainers.local import weights
from pellucid.explainers.local.weights import CutOff, FormulaWeight, Gaussian, Stable, falling_supremum, weight_of

FAR = math.sqrt(14)
FALLING = [Stable(), Stable(0.5), Stable(2.0, c=1.5), Gaussian(), Gaussian(0.25), Gaussian(2.0), CutOff(0.5), CutOff(3.0)]


def halve_constant(patch):
    original = weights._falling_constant.__wrapped__
    patch.setattr(weights, "_falling_constant", lambda weight, far: original(weight, far) / 2)


def test_local_constant_is_attained():
    """2r(r+1)·exp(−r²) reaches 1.52707 at 0.85464, the certified constant is that over 1.5271; a cut-off has its edge."""
    assert Gaussian().constant(FAR) * 1.5271 >= 1.527073
    assert Gaussian().constant(FAR) <= 1
    r = 0.85464
    reached = float(Gaussian().at(np.array([r]))[0]) * 2 * r * (r + 1)
    assert reached <= Gaussian().constant(FAR) <= reached * (1 + 1e-6)
    assert CutOff(0.5).constant(FAR) == pytest.approx(1.5, rel=1e-6)


@pytest.mark.parametrize("weight", FALLING, ids=str)
def test_limits_are_never_exceeded_and_are_tight(weight):
    for far in (0.2, 1.0, FAR):
        r = np.append(np.linspace(0, far, 200_001), min(weight.bandwidth * getattr(weight, "near", 1.0), far))
        alpha = weight.at(r)
        for w in (0.25, 1.0, 3.0):
            limits = weight.limits(far, w)
            for bound, values in (
                (limits.joint, alpha * r * np.sqrt(r * r + w * w)),
                (limits.slope, alpha * r * (r + w)),
                (limits.label, w * np.sqrt(alpha)),
            ):
                assert values.max() <= bound <= values.max() * (1 + 1e-4)
        assert (2 * r * (r + 1) * alpha).max() <= weight.constant(far)


def test_the_papers_family():
    """Equation (5) is in F(c); exp(−r²) is not in F(1), divided by 1.5271 it is."""
    assert Stable().constant(1e3) == pytest.approx(1.0, rel=1e-9)
    assert Stable(c=1.5).constant(1e3) == pytest.approx(1.5, rel=1e-9)
    assert FormulaWeight("exp(-r**2)").constant(FAR) == pytest.approx(1.52707, abs=2e-5)
    assert Gaussian().constant(1e3) <= 1


@pytest.mark.parametrize("bandwidth", [1.0, 0.5])
def test_a_formula_gets_the_constants_of_the_weight_it_writes_out(bandwidth):
    formula, named = FormulaWeight("exp(-r**2)/1.5271", bandwidth), Gaussian(bandwidth)
    assert formula.constant(2.0) == pytest.approx(named.constant(2.0), rel=1e-5)
    found, wanted = formula.limits(2.0, 0.5), named.limits(2.0, 0.5)
    assert (found.joint, found.slope, found.label) == pytest.approx((wanted.joint, wanted.slope, wanted.label), rel=1e-5)
    r = np.linspace(0, 2, 50)
    assert formula.at(r) == pytest.approx(named.at(r))


@pytest.mark.parametrize("text", ["1/r", "1 - r", "x + r", "", "r + "])
def test_what_cannot_be_certified_is_refused(text):
    with pytest.raises(PellucidError):
        weight = FormulaWeight(text)
        weight.limits(2.0)
        weight.at(np.zeros(1))


@pytest.mark.parametrize("bandwidth", [0, -1, math.nan, math.inf, "1", True])
def test_bandwidths_are_checked(bandwidth):
    for name in ("stable", "gaussian", "cut-off", "exp(-r)"):
        with pytest.raises(PellucidError):
            weight_of(name, bandwidth)


def test_weights_by_name():
    assert weight_of("stable") == Stable() and weight_of("cut-off", 0.3) == CutOff(0.3)
    assert weight_of(Gaussian(2.0), 0.1) == Gaussian(2.0) and weight_of("exp(-r)") == FormulaWeight("exp(-r)")
    with pytest.raises(PellucidError):
        weight_of(3)


def test_the_search_is_above_a_function_it_cannot_resolve():
    """A product that is constant keeps every piece open: the bound stays valid, only looser."""
    found = falling_supremum(lambda r: 1 / (1 + r), lambda r: 1 + r, 1.0)
    assert 1 <= found <= 1.001


@pytest.mark.parametrize("weight", [Stable(), Stable(0.5), Gaussian(), Gaussian(0.5)], ids=str)
def test_drift_bounds_what_a_moved_record_changes(weight):
    """Also for an adversarial direction: the loss of one record changes by at most drift × distance."""
    rng = np.random.default_rng(3)
    d, radius = 3, 1.0
    bound = weight.drift(math.sqrt(d), radius)
    worst = 0.0
    for _ in range(400):
        x, z, phi = rng.random(d), rng.random(d), rng.normal(size=d)
        if rng.random() < 0.5:
            phi = z - x
        phi /= np.linalg.norm(phi)
        f = rng.choice([-1.0, 1.0])
        step = rng.normal(size=d) if rng.random() < 0.5 else x - z
        moved = z + 1e-4 * step / np.linalg.norm(step)
        loss = [float(weight.at(np.linalg.norm(x - c))) * (phi @ (x - c) - f) ** 2 for c in (z, moved)]
        worst = max(worst, abs(loss[1] - loss[0]) / 1e-4)
    assert 0.2 * bound <= worst <= bound
    assert CutOff().drift(1.0) == math.inf


@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("weight", [Stable(), Stable(0.4, 2.0), Gaussian(), Gaussian(0.5)])
def test_local_drift_is_attained(weight, radius):
    """The loss of one record changes at most as fast as |α′|(Rr + 1)² + 2Rα(Rr + 1); the bound takes both at their largest."""
    r = np.linspace(1e-4, 4.0, 400_001)
    alpha = weight.at(r)
    falls = np.abs(np.gradient(alpha, r)) * (radius * r + 1) ** 2
    flat = 2 * radius * alpha * (radius * r + 1)
    bound = weight.drift(4.0, radius)
    assert (falls + flat).max() <= bound * (1 + 1e-3)
    assert falls.max() + flat.max() >= bound * 0.98


def halve_drift(patch):
    for kind in (Stable, Gaussian):
        original = kind.drift
        patch.setattr(kind, "drift", lambda self, *arguments, original=original: original(self, *arguments) / 2)
