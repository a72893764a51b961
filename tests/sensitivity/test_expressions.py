"""Formulas from text, SymPy and traced functions; what cannot be followed is refused by name."""

import math

import numpy as np
import pytest
import sympy

import pellucid as pel
from pellucid.sensitivity.expressions import formula, named_formula

BOX = {"a": (1, 2), "b": (0.5, 3)}


def values(query, box=BOX, seed=0):
    asked = formula(query, box)
    rng = np.random.default_rng(seed)
    columns = [rng.uniform(*ends, 50) for ends in asked.box.values()]
    return asked.compiled()(*columns), columns


def test_text_symbols_and_functions_are_the_same_formula():
    a, b = sympy.symbols("a b")
    forms = ["a**2 + exp(2*b - a)", a**2 + sympy.exp(2 * b - a), lambda a, b: a**2 + np.exp(2 * b - a)]
    assert len({formula(form, BOX).text for form in forms}) == 1


def test_decimals_mean_what_they_say():
    assert formula("2.1*a", BOX).scalar == sympy.Rational(21, 10) * sympy.Symbol("a", real=True)
    assert formula("1_000*a", BOX).scalar.coeff(sympy.Symbol("a", real=True)) == 1000
    assert formula(lambda a: 0.1 * a, BOX).scalar.coeff(sympy.Symbol("a", real=True)) == sympy.Rational(0.1)


def network(x):
    weights = np.array([[0.5, -1.0], [2.0, 0.25]])
    hidden = np.maximum(x @ weights + np.array([0.1, -0.2]), 0)
    return np.tanh(hidden).sum() + np.clip(x[0], 0, 1.5) - np.mean(x) + np.dot(x, [1, 2])


def test_a_traced_network_computes_what_the_function_computes():
    (output,), columns = values(network)
    direct = [float(network(np.array(point))) for point in zip(*columns)]
    np.testing.assert_allclose(output, direct, rtol=1e-12)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: np.hypot(a, b) + np.log1p(a) - np.expm1(b) + np.square(a) / np.exp2(b),
        lambda a, b: np.logaddexp(a, b) * np.sqrt(a) + np.abs(a - b) + np.sin(a) * np.cos(b) + np.arctan(a),
        lambda a, b: np.minimum(a, b) ** 3 + np.reciprocal(a) + np.log10(b) + np.log2(a) + np.sinh(a) - np.cosh(b),
        lambda x: np.linalg.norm(x) + np.prod(x) + x.mean() + x.T[0] + x.reshape(2, 1).ravel()[1] + sum(x),
        lambda x: np.concatenate([x, x]).sum() + np.stack([x[0], x[1]]).dot(np.array([1.0, 2.0])) + len(x) + x.size + x.ndim,
    ],
)
def test_numpy_operations_are_followed(function):
    (output, *_), columns = values(function)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    for i, point in enumerate(zip(*columns)):
        direct = function(*point) if len(names) == 2 else function(np.array(point))
        assert float(output[i]) == pytest.approx(float(direct), rel=1e-12)


def test_several_outputs():
    assert len(formula("[a, a*b, b**2]", BOX).outputs) == 3
    assert len(formula(lambda x: np.stack([x[0], x.sum()]), BOX).outputs) == 2
    assert len(formula(["a", sympy.Symbol("b")], BOX).outputs) == 2


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("__import__('os').system('true')", "not supported"),
        ("a.real", "not supported"),
        ("a if b else 1", "not supported"),
        ("a > 1", "not supported"),
        ("[x for x in (1, 2)]", "not supported"),
        ("floor(a)", "'floor' is not supported"),
        ("exp(a, b)", "takes 1 argument"),
        ("max()", "at least one argument"),
        ("a +", "not a formula"),
        ("", "not a formula"),
        ("[]", "empty"),
        ("a + age", "'age' has no declared range"),
        ("a**(10**9)", "too large"),
        ("9**9**9**9", "too large"),
        ("a/0", "divides by zero"),
        ("'text'", "not supported"),
        ("True", "not supported"),
        ("1j*a", "not supported"),
        ("(" * 2000 + "a" + ")" * 2000, "not a formula"),
        ("-" * 3000 + "a", "nested too deeply|not a formula"),
        (lambda a: math.exp(a), "np.exp, not math.exp"),
        (lambda a: a if a > 1 else 0, "comparison"),
        (lambda a: 1 if a else 0, "branch"),
        (lambda a: np.floor(a), "floor is not supported"),
        (lambda a: np.sort(np.stack([a, a])), "sort is not supported"),
        (lambda a: np.add.accumulate(np.stack([a, a])), "add.accumulate is not supported"),
        (lambda a: np.asarray(a), "plain array"),
        (lambda x: x[x[0]], "plain number|indexing"),
        (lambda a: a * float("nan"), "not a finite"),
        (lambda a, income: a + income, "'income' has no declared range"),
        (lambda a: 1 / 0, "could not be traced"),
        (lambda a: sympy.Symbol("q"), "'q' has no declared range"),
        (lambda v: v.sum(initial=100.0), "traced"),
        (lambda v: np.add.reduce(v, initial=100.0), "add.reduce is not supported"),
        (lambda v: np.sum(v, where=[True, False]), "traced"),
        (lambda a, b=2.0: a * b, "cannot have a default"),
        (sympy.sqrt(sympy.Symbol("a", positive=True) ** 2), "assumes more"),
        (sympy.Symbol("a") * sympy.zoo, "not supported|cannot be"),
        ("a + 0x10z", "not a formula"),
        ("max(a, sqrt(-1 - a**2))", "cannot be computed|not supported"),
        (None, "cannot read a formula"),
        (sympy.Symbol("zeta"), "'zeta' has no declared range"),
        (sympy.Eq(sympy.Symbol("a"), 1), "not an arithmetic expression"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(query, said):
    with pytest.raises(pel.PlanError, match=said):
        formula(query, BOX)


def test_unsupported_functions_are_named_when_they_are_bounded():
    assert pel.sensitivity.supremum("a*sinh(1) + tan(1)", BOX).upper == pytest.approx(2 * np.sinh(1) + np.tan(1))
    with pytest.raises(pel.PlanError, match="gamma is not supported"):
        pel.sensitivity.supremum(sympy.gamma(sympy.Symbol("a")), BOX)


@pytest.mark.parametrize(
    ("box", "said"),
    [
        ({}, "range per attribute"),
        ([1, 2], "range per attribute"),
        ({"a": (2, 1)}, "lo <= hi"),
        ({"a": (0, math.inf)}, "finite"),
        ({"a": "wide"}, "two numbers"),
        ({"a": (-1e308, 1.7e308)}, "within"),
        ({"a": pel.Category(["x", "y"])}, "text categories"),
    ],
)
def test_bad_boxes(box, said):
    with pytest.raises(pel.PlanError, match=said):
        formula("a", box)


def test_boxes_from_schemas():
    schema = pel.Schema({"a": pel.Number(1, 2), "b": pel.Boolean(), "c": pel.Category([1, 5, 3])})
    assert dict(formula("a + b*c", schema).box) == {"a": (1.0, 2.0), "b": (0.0, 1.0), "c": (1.0, 5.0)}


def test_names_of_columns():
    assert named_formula("kg / (cm/100)**2 + pi").variables == ("cm", "kg")
    assert named_formula(lambda kg, cm: kg / cm).variables == ("kg", "cm")
    assert named_formula([sympy.Symbol("u"), "v"]).variables == ("u", "v")
    for nothing in ("1 + 2", 7, None, []):
        with pytest.raises(pel.PlanError):
            named_formula(nothing)


def test_a_formula_too_large_is_refused(monkeypatch):
    from pellucid.sensitivity import expressions

    monkeypatch.setattr(expressions, "MAX_OPERATIONS", 10)
    with pytest.raises(pel.PlanError, match="operations"):
        formula("+".join(f"a**{i}" for i in range(2, 20)), BOX)
