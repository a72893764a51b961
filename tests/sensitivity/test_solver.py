"""Certified suprema: never below the truth, tight on the suite, honest when they do not converge; and tests that can fail."""

import time

import mpmath
import numpy as np
import pytest
from suite import SUITE

import pellucid as pel
from pellucid.sensitivity import intervals as iv
from pellucid.sensitivity import solver
from pellucid.sensitivity.expressions import formula
from pellucid.sensitivity.solver import supremum
from pellucid.sensitivity.tape import Tape, compile_tape


@pytest.mark.parametrize("known", SUITE, ids=lambda known: known.name)
def test_suite(known):
    """The upper end is never below the truth and within 1 %, and the lower end is a value that is really attained."""
    found = supremum(known.formula, known.box, tolerance=0.01, seconds=30)
    assert mpmath.mpf(found.upper) >= known.truth >= mpmath.mpf(found.lower)
    assert found.upper - float(known.truth) <= 0.0101 * abs(float(known.truth))
    assert found.converged and found.gap >= 0


def test_certified_supremum_is_attained():
    """The certified upper end meets the value at the maximum, to the tolerance asked for."""
    for name in ("camel", "two sines", "variance of eight", "arc tangent"):
        known = next(k for k in SUITE if k.name == name)
        found = supremum(known.formula, known.box, tolerance=1e-7)
        assert known.truth <= mpmath.mpf(found.upper) <= known.truth + mpmath.mpf(1.01e-7) * abs(known.truth)


def random_formula(rng, names, depth):
    if depth == 0 or rng.random() < 0.15:
        return str(rng.choice(names)) if rng.random() < 0.75 else f"{rng.uniform(-3, 3):.2f}"

    def part():
        return random_formula(rng, names, depth - 1)

    match rng.integers(0, 14):
        case 0:
            return f"({part()} + {part()})"
        case 1:
            return f"({part()} - {part()})"
        case 2 | 3:
            return f"({part()} * {part()})"
        case 4:
            return f"({part()})**{rng.integers(2, 5)}"
        case 5:
            return f"sin({part()})"
        case 6:
            return f"cos({part()})"
        case 7:
            return f"tanh({part()})"
        case 8:
            return f"exp(-({part()})**2)"
        case 9:
            return f"abs({part()})"
        case 10:
            return f"max({part()}, {part()})"
        case 11:
            return f"1/(1 + ({part()})**2)"
        case 12:
            return f"atan({part()}) - erf({part()})"
    return f"sqrt(1 + ({part()})**2) + log(2 + sin({part()}))"


def check_random_formulas(seeds):
    """No point of the box lies above the upper end, on formulas nobody chose.

    Without the local search: what it finds is never above the upper end by construction, so it would hide mistakes.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver._Search, "_local_search", lambda self: None)
        _check_random_formulas(seeds)


def _check_random_formulas(seeds):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        names = [f"x{i}" for i in range(rng.integers(1, 4))]
        box = {name: tuple(np.sort(np.round(rng.uniform(-3, 3, 2), 2)) + np.array([0, 0.01])) for name in names}
        asked = formula(random_formula(rng, names, 4), box)
        found = supremum(asked, box, tolerance=1e-4, seconds=1)
        points = [np.concatenate([rng.uniform(*ends, 20_000), rng.choice(ends, 500)]) for ends in box.values()]
        best = np.nanmax(np.broadcast_to(asked.compiled()(*points)[0], 20_500))
        assert best <= found.upper + 1e-12 * abs(found.upper), (asked.text, box)
        assert found.lower <= found.upper
        assert formula_at(asked, found.at) == pytest.approx(found.lower, rel=1e-9, abs=1e-9)


def formula_at(asked, at):
    return float(np.ravel(asked.compiled()(*(np.array([at[name]]) for name in asked.variables))[0])[0])


def test_no_point_lies_above_the_upper_end():
    check_random_formulas(range(80))


def test_slopes_enclose_derivatives():
    rng = np.random.default_rng(8)
    for seed in range(40):
        inner = np.random.default_rng(seed)
        box = {"x0": (-2.0, 1.0), "x1": (0.5, 2.0)}
        asked = formula(random_formula(inner, list(box), 3), box)
        tape = compile_tape(asked.outputs, asked.variables)
        lo = np.array([[-1.5], [0.7]]) + 0.1 * rng.random((2, 30))
        hi = lo + rng.random((2, 30)) * 0.7
        low, high = tape.slopes(tape.forward(lo, hi))
        evaluate = asked.compiled()
        for share in rng.random((20, 2, 1)):
            x, h = lo + share * (hi - lo), 1e-6
            for j in range(2):
                step = np.zeros((2, 1))
                step[j] = h
                up, down = (np.broadcast_to(evaluate(*(x + s))[0], 30) for s in (step, -step))
                slope = (up - down) / (2 * h)
                slack = 1e-4 * (1 + np.abs(slope))
                # A difference across a kink averages two slopes, both enclosed.
                assert (low[j] - slack <= slope).all() and (slope <= high[j] + slack).all(), asked.text


def lose_the_top(patch):
    """An enclosure whose upper end is cut by a tenth of its width."""
    forward = Tape.forward

    def cut(self, lo, hi):
        values = forward(self, lo, hi)
        place = self.outputs[0]
        low, high = values[place]
        values[place] = (low, high - 0.1 * np.where(np.isfinite(high - low), high - low, 0.0))
        return values

    patch.setattr(Tape, "forward", cut)


def lose_slopes(patch):
    """Slopes of half their size: mean-value forms become too tight."""
    slopes = Tape.slopes
    patch.setattr(Tape, "slopes", lambda self, *args: tuple(0.5 * s for s in slopes(self, *args)))


def forget_crests(patch):
    """Sines and cosines from their ends alone."""

    def ends_only(function):
        def wave(a):
            lo1, hi1 = iv._at_ends(function, a[0].ravel(), a[0].ravel())
            lo2, hi2 = iv._at_ends(function, a[1].ravel(), a[1].ravel())
            return np.minimum(lo1, lo2).reshape(a[0].shape), np.maximum(hi1, hi2).reshape(a[0].shape)

        return wave

    from flint import arb

    from pellucid.sensitivity import tape

    for name in ("sin", "cos"):
        patch.setitem(tape.UNARY, name, (ends_only(getattr(arb, name)), tape.UNARY[name][1]))


def push_too_far(patch):
    """Boxes are moved to the end they *almost* rise to."""
    push = solver._Search._push

    def careless(self, lo, hi, slopes):
        width = slopes[1] - slopes[0]
        return push(self, lo, hi, (slopes[0] + 0.4 * np.where(np.isfinite(width), width, 0.0), slopes[1]))

    patch.setattr(solver._Search, "_push", careless)


def always_convex(patch):
    patch.setattr(solver._Search, "_convex", lambda self, lo, hi: np.ones(lo.shape, dtype=bool))


@pytest.mark.parametrize("sabotage", [lose_the_top, lose_slopes, forget_crests, push_too_far, always_convex])
def test_a_broken_solver_is_noticed(sabotage):
    with pytest.MonkeyPatch.context() as patch:
        sabotage(patch)
        with pytest.raises(AssertionError):
            check_random_formulas(range(80))


def test_says_when_it_did_not_converge():
    known = next(k for k in SUITE if k.name == "Goldstein and Price")
    found = supremum(known.formula, known.box, tolerance=1e-9, splits=20)
    assert not found.converged and "NOT CONVERGED" in found.text
    assert found.lower <= float(known.truth) <= found.upper


def test_what_is_undefined_or_unbounded_has_no_finite_bound():
    for text in ("log(x)", "sqrt(x)", "1/x", "-1/x", "x + 1/x", "log(x)/x", "sqrt(x - 1)*x", "x/(x - 1)", "1/x**2 - x"):
        found = supremum(text, {"x": (-1, 2)}, seconds=1, splits=200)
        assert found.upper == np.inf and not found.converged and "undefined" in found.text


def test_a_bounded_function_does_not_hide_what_is_undefined_inside():
    """tanh(1/x) falls wherever it is differentiable, and still rises by 2 across zero; 0·(1/0) is not 0."""
    for text in (
        "tanh(1/x) - x/100",
        "tanh(1/x)*(2 + x/100)",
        "atan(1/x) + x/50",
        "tanh(log(x))",
        "sin(log(x))*x",
    ):
        assert supremum(text, {"x": (-1, 2)}, seconds=2, splits=2000).upper == np.inf, text
    cancelled = "x*(1/x - 9029.81 + 0.52*(y - z)) + 0.19*(y - z)*(y + z)"
    assert supremum(cancelled, {"x": (0, 1), "y": (0, 1), "z": (0, 1)}, seconds=2).upper >= 1.19


@pytest.mark.parametrize(
    ("text", "box", "truth"),
    [
        ("-(x**y)", {"x": (-2, -2), "y": (3, 3)}, 8),
        ("-min(x**y, 5)", {"x": (-2, -1), "y": (1, 3)}, 8),
        ("-2*a**a", {"a": (-1, 0)}, 2),
        ("-((-1)**a)", {"a": (1, 3)}, 1),
    ],
)
def test_powers_of_negative_numbers_are_never_bounded_from_below_by_zero(text, box, truth):
    found = supremum(text, box, seconds=1, splits=500)
    assert found.upper >= truth and not (found.converged and found.upper < truth)


def test_endless_formulas_do_not_hang():
    """Multiplying out, second derivatives and constants are only tried where they end."""
    started = time.monotonic()
    box = dict.fromkeys("abcdef", (0.1, 0.9))
    supremum("(a+b+c+d+e+f)**60", box, seconds=1)
    supremum("(sin(a)+cos(b)+exp(c)+a*b)**60", box, seconds=1)
    supremum("tanh(a+tanh(a+tanh(a+tanh(a+tanh(a+tanh(a+tanh(a)))))))", box, seconds=1)
    for text in (
        "a + 1e999999999",
        "a*(((2**999)**999)**999)",
        "a*2**1000000000000.5",
        "a*exp(1e12*log(2))",
        "a*1e400",
        "max(" + ", ".join(f"{i}*a - b*{i}**2" for i in range(19)) + ")",
        "abs(" * 30 + "a" + " - b)" * 30,
        "sin(" * 150 + "a" + ")" * 150,
        "(a**91)**11",
    ):
        with pytest.raises(pel.PlanError):
            supremum(text, box, seconds=1)

    def doubled(a):
        for _ in range(30):
            a = a * a - a
        return a

    with pytest.raises(pel.PlanError):
        supremum(doubled, box, seconds=1)
    assert time.monotonic() - started < 30


def test_limits_at_the_edge_of_the_domain():
    assert supremum("-x*log(x)", {"x": (0, 1)}).upper == pytest.approx(1 / np.e, rel=1e-5)
    assert supremum("log(x)", {"x": (0, 2)}).upper == pytest.approx(np.log(2))
    assert supremum("sqrt(x**2 + y**2)", {"x": (0, 3), "y": (-4, 4)}).upper == pytest.approx(5)


def test_constants_and_points():
    assert supremum("2", {"x": (0, 1)}).upper == 2
    assert supremum("pi", {"x": (0, 1)}).upper == pytest.approx(np.pi)
    assert supremum("x**2", {"x": (3, 3)}).upper == pytest.approx(9)
    lower, upper = supremum("sqrt(2)*x", {"x": (0, 1)})
    assert lower <= np.sqrt(2) <= upper and float(supremum("x", {"x": (0, 1)})) == 1


def test_other_powers():
    assert supremum("x**1.5", {"x": (0, 4)}).upper == pytest.approx(8)
    assert supremum("x**(1/3)", {"x": (1, 8)}).upper == pytest.approx(2)
    assert supremum("2**x", {"x": (-1, 3)}).upper == pytest.approx(8)
    assert supremum("x**y", {"x": (1, 2), "y": (0, 3)}).upper == pytest.approx(8)
    assert supremum("tan(x)", {"x": (-1, 1)}).upper == pytest.approx(np.tan(1))
    assert supremum("x**(-2)", {"x": (0.5, 3)}).upper == pytest.approx(4)


@pytest.mark.parametrize("options", [{"tolerance": 0}, {"tolerance": 1}, {"seconds": 0}, {"splits": -1}])
def test_bad_limits(options):
    with pytest.raises(pel.PlanError):
        supremum("x", {"x": (0, 1)}, **options)


def test_several_outputs_have_no_single_supremum():
    with pytest.raises(pel.PlanError, match="outputs"):
        supremum("[x, x]", {"x": (0, 1)})
