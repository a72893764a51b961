"""Queries as formulas: text, SymPy expressions, or Python functions that are traced symbolically.

Text is parsed by Python's own grammar and only arithmetic and named functions are let through: it is never evaluated.
Decimals mean what they say (2.1 is 21/10); floats in traced functions mean the binary number they are.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any

import numpy as np
import sympy

from ..errors import PlanError
from ..public.schema import Category, Number, Schema, did_you_mean
from .tracing import FUNCTIONS, MAX_OPERATIONS, Traced, tree_size, variables_for

Box = Mapping[str, Any] | Schema

MAX_DEPTH, MAX_EXTREMES = 8, 6
"""Functions nested deeper, and maxima of more terms, are refused: nobody can wait for their derivatives."""

WIDEST = 1e100
"""Ranges must lie within this: beyond it squares overflow."""

REVIEWED = frozenset(
    {
        *(sympy.Add, sympy.Mul, sympy.Pow, sympy.exp, sympy.log, sympy.tanh, sympy.atan, sympy.erf, sympy.sin, sympy.cos),
        *(sympy.tan, sympy.sinh, sympy.cosh, sympy.Abs, sympy.Max, sympy.Min),
    }
)
"""What formulas may be made of, by identity: a function of the same name could compute anything, over all rows at once."""


def as_box(box: Box) -> dict[str, tuple[float, float]]:
    """Public ranges by name, from pairs, features or a whole schema."""
    if not isinstance(box, Mapping | Schema) or not len(box):
        raise PlanError("the box must give a range per attribute, for example {'age': (17, 90)}, or be a schema.")
    return {str(name): _range(str(name), box[name]) for name in box}


def _range(name: str, given: Any) -> tuple[float, float]:
    if isinstance(given, Number):
        given = (given.lo, given.hi)
    elif isinstance(given, Category):
        if not given.numeric:
            raise PlanError(f"{name!r} has text categories, which a formula cannot compute with; leave it out.")
        given = (min(given.values), max(given.values))
    try:
        lo, hi = (float(v) for v in given)
    except (TypeError, ValueError):
        raise PlanError(f"the range of {name!r} must be two numbers (lo, hi), got {given!r}.") from None
    if not (-WIDEST <= lo <= hi <= WIDEST):
        raise PlanError(f"the range of {name!r} must be finite with lo <= hi, within ±{WIDEST:g}; got ({lo:g}, {hi:g}).")
    return lo, hi


@dataclass(frozen=True)
class Formula:
    """Outputs as expressions of named variables, each with a public range.

    >>> formula("a**2 + exp(2*b - a)", {"a": (1, 2), "b": (0.5, 3)}).text
    'a**2 + exp(-a + 2*b)'
    """

    outputs: tuple[sympy.Expr, ...]
    box: Mapping[str, tuple[float, float]]

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(self.box)

    @property
    def text(self) -> str:
        return ", ".join(str(e) for e in self.outputs)

    @property
    def exact_text(self) -> str:
        """The outputs and variables without ambiguity: a column called E is not the number e."""
        return f"{', '.join(self.box)}: {', '.join(sympy.srepr(e) for e in self.outputs)}"

    @property
    def scalar(self) -> sympy.Expr:
        if len(self.outputs) != 1:
            raise PlanError(f"the formula has {len(self.outputs)} outputs; a supremum is taken of one expression.")
        return self.outputs[0]

    @cached_property
    def symbols(self) -> tuple[sympy.Symbol, ...]:
        return tuple(sympy.Symbol(name, real=True) for name in self.box)

    def over(self, box: Mapping[str, tuple[float, float]]) -> Formula:
        return replace(self, box=dict(box))

    def compiled(self) -> Callable[..., list[np.ndarray]]:
        """The outputs as one NumPy function of arrays, one per variable."""
        return compile_numpy(self.outputs, self.symbols)


def formula(query: Any, box: Box) -> Formula:
    """The formula of a query over a box; refuses what it cannot follow, naming it."""
    ranges = as_box(box)
    if isinstance(query, Formula):
        return query.over(ranges)
    try:
        outputs = _outputs(query, ranges)
        _check(outputs)
    except PlanError:
        raise
    except (OverflowError, ValueError, TypeError, ZeroDivisionError, RecursionError) as error:
        raise PlanError(f"the formula cannot be computed with: {type(error).__name__} ({str(error)[:120]}).") from None
    return Formula(tuple(outputs), ranges)


def _outputs(query: Any, ranges: Mapping[str, tuple[float, float]]) -> list[sympy.Expr]:
    if isinstance(query, str):
        return _from_text(query, ranges)
    if isinstance(query, sympy.Basic | int | float):
        return [_from_sympy(query, ranges)]
    if isinstance(query, Sequence | sympy.MatrixBase) and len(query):
        return [e for part in query for e in formula(part, ranges).outputs]
    if callable(query):
        return _traced(query, ranges)
    raise PlanError(f"cannot read a formula from {type(query).__name__}: give text, a SymPy expression or a function.")


def named_formula(query: Any) -> Formula:
    """The formula of a query whose names are columns, with ranges still to be given by `over`."""
    if isinstance(query, Formula):
        return query
    if isinstance(query, str):
        names = _names_in_text(query)
    elif isinstance(query, sympy.Basic):
        names = sorted(str(s) for s in query.free_symbols)
    elif isinstance(query, Sequence) and len(query):
        names = sorted({name for part in query for name in named_formula(part).variables})
    elif callable(query):
        names = list(inspect.signature(query).parameters)
    else:
        names = []
    if not names:
        raise PlanError(f"no formula of columns in {str(query)[:80]!r}; write for example 'kg / (cm/100)**2'.")
    return formula(query, dict.fromkeys(names, (0.0, 1.0)))


def _names_in_text(text: str) -> list[str]:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ["x"]  # reading it again says what is wrong
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return sorted({name for name in names if name not in called and name not in _CONSTANTS})


def _check(outputs: Sequence[sympy.Expr]) -> None:
    """Only reviewed operations, and not too many of them."""
    size = sum(tree_size(e) for e in outputs)
    if size > MAX_OPERATIONS:
        raise PlanError(f"the formula has {size} operations; at most {MAX_OPERATIONS} are supported. Split it up.")
    if any(function_depth(e) > MAX_DEPTH for e in outputs):
        raise PlanError(f"functions are nested more than {MAX_DEPTH} deep; split the formula up.")
    for node in {node for e in outputs for node in sympy.preorder_traversal(e)}:
        _check_node(node)


def _check_node(node: sympy.Basic) -> None:
    if not node.args:
        if not (node.is_Symbol or node.is_Rational or node in (sympy.pi, sympy.E)):
            raise PlanError(f"the constant {node} is not supported.")
    elif node.func not in REVIEWED:
        raise PlanError(f"the operation {node.func.__name__} is not supported in a formula.")
    elif isinstance(node, sympy.Max | sympy.Min) and len(node.args) > MAX_EXTREMES:
        raise PlanError(f"max and min of more than {MAX_EXTREMES} terms are not supported.")
    elif node.is_Pow and node.exp.is_Rational and abs(node.exp) >= 1000:
        raise PlanError(f"the power {node.exp} is too large; at most 999.")


def function_depth(expr: sympy.Basic, known: dict[sympy.Basic, int] | None = None) -> int:
    """How deep functions are nested in each other; sums, products and whole powers do not count."""
    known = {} if known is None else known
    if expr not in known:
        own = not (expr.is_Add or expr.is_Mul or (expr.is_Pow and expr.exp.is_Integer)) and bool(expr.args)
        known[expr] = own + max((function_depth(arg, known) for arg in expr.args), default=0)
    return known[expr]


def _from_sympy(expr: Any, box: Mapping[str, Any]) -> sympy.Expr:
    expr = sympy.sympify(expr)
    if not isinstance(expr, sympy.Expr):
        raise PlanError(f"{expr} is not an arithmetic expression.")
    for symbol in expr.free_symbols:
        if any(
            getattr(symbol, f"is_{fact}") for fact in ("positive", "negative", "zero", "integer", "nonnegative", "nonpositive")
        ):
            raise PlanError(f"the symbol {symbol} assumes more than its range says; make it with sympy.Symbol({str(symbol)!r}).")
    _known_names({str(s) for s in expr.free_symbols}, box)
    # Real symbols, so that derivatives of absolute values come out real.
    real = {s: sympy.Symbol(str(s), real=True) for s in expr.free_symbols}
    return expr.xreplace({f: sympy.Rational(f) for f in expr.atoms(sympy.Float)}).subs(real)


def _known_names(names: set[str], box: Mapping[str, Any]) -> None:
    for name in sorted(names - set(box)):
        raise PlanError(f"{name!r} has no declared range{did_you_mean(name, box)}.")


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}

_CONSTANTS = {"pi": sympy.pi}


def _from_text(text: str, box: Mapping[str, Any]) -> list[sympy.Expr]:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise PlanError(
            f"{text[:200]!r} is not a formula; write for example 'a**2 + exp(2*b - a)'. The names of columns in it are plain "
            "words: rename those that are not."
        ) from None
    parts = tree.elts if isinstance(tree, ast.Tuple | ast.List) else [tree]
    if not parts:
        raise PlanError("the formula is empty.")
    try:
        return [_read(part, text, box) for part in parts]
    except RecursionError:
        raise PlanError("the formula is nested too deeply; split it up.") from None


def _read(node: ast.expr, text: str, box: Mapping[str, Any]) -> sympy.Expr:
    match node:
        case ast.Constant(value=bool() | str() | bytes() | complex() | None):
            pass
        case ast.Constant(value=value) if isinstance(value, int | float):
            # The decimal as written, not the nearest binary float.
            return _number(value, (ast.get_source_segment(text.strip(), node) or repr(value)).replace("_", ""))
        case ast.Name(id=name):
            if name in box:
                return sympy.Symbol(name, real=True)
            if name in _CONSTANTS:
                return _CONSTANTS[name]
            raise PlanError(f"{name!r} has no declared range{did_you_mean(name, box)}.")
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            a, b = _read(left, text, box), _read(right, text, box)
            if isinstance(operator, ast.Pow):
                _check_power(a, b)
            if isinstance(operator, ast.Div) and b == 0:
                raise PlanError("the formula divides by zero.")
            return _OPERATORS[type(operator)](a, b)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_read(operand, text, box)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _read(operand, text, box)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return _call(name, [_read(arg, text, box) for arg in args])
        case ast.Call(func=ast.Name(id=name)):
            raise PlanError(f"the function {name!r} is not supported{did_you_mean(name, FUNCTIONS)}.")
    raise PlanError(
        f"{ast.unparse(node)[:80]!r} is not supported in a formula: use numbers, attributes, + - * / ** and "
        f"{', '.join(sorted(FUNCTIONS))}."
    )


def _number(value: int | float, written: str) -> sympy.Rational:
    """The number as it was written, unless it would fill the memory."""
    if isinstance(value, int) and value.bit_length() <= 1000:
        return sympy.Integer(value)
    exponent = written.lower().partition("e")[2] or "0"
    if isinstance(value, int) or len(written) > 60 or abs(int(exponent)) > 300:
        raise PlanError(f"the number {written[:40]} is too large or has too many digits.")
    return sympy.Rational(Fraction(written))


def _check_power(base: sympy.Expr, exponent: sympy.Expr) -> None:
    """Refuse powers whose exact value nobody wants to wait for."""
    if exponent.is_number and not abs(sympy.N(exponent)) < 1000:
        raise PlanError(f"the power {sympy.N(exponent, 6)} is too large; at most 999.")
    if base.is_Rational and exponent.is_number and max(base.p.bit_length(), base.q.bit_length()) * abs(sympy.N(exponent)) > 4096:
        raise PlanError("the formula has a constant of more than 4,096 bits: too large.")


def _call(name: str, args: list[sympy.Expr]) -> sympy.Expr:
    function, count = FUNCTIONS[name]
    if count is not None and len(args) != count:
        raise PlanError(f"{name}() takes {count} argument{'s' * (count != 1)}, got {len(args)}.")
    if not args:
        raise PlanError(f"{name}() needs at least one argument.")
    if function in (sympy.Max, sympy.Min) and len(args) > MAX_EXTREMES:
        raise PlanError(f"{name}() of more than {MAX_EXTREMES} terms is not supported.")
    # SymPy turns exp(n·log 2) into the integer 2^n, digit by digit.
    for term in (term for arg in args for term in sympy.Add.make_args(arg)):
        if term.has(sympy.log) and any(f.is_number and abs(sympy.N(f)) >= 1000 for f in sympy.Mul.make_args(term)):
            raise PlanError(f"{name}() of a large multiple of a logarithm is not supported.")
    if max(function_depth(arg) for arg in args) >= MAX_DEPTH:
        raise PlanError(f"functions are nested more than {MAX_DEPTH} deep; split the formula up.")
    return function(*args)


def _traced(function: Callable[..., Any], box: Mapping[str, Any]) -> list[sympy.Expr]:
    """Call the function once with symbols in place of numbers."""
    name = getattr(function, "__name__", "the function")
    try:
        result = function(**_arguments(function, box))
    except PlanError as error:
        raise PlanError(f"{name}: {error}") from None
    except Exception as error:
        raise PlanError(
            f"{name} could not be traced: {type(error).__name__} ({str(error)[:200]}). Use NumPy functions and arithmetic only."
        ) from None
    outputs = Traced.outputs_of(result)
    for output in outputs:
        _known_names({str(s) for s in output.free_symbols}, box)
    return outputs


def _arguments(function: Callable[..., Any], box: Mapping[str, Any]) -> dict[str, Any]:
    try:
        signature = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise PlanError("its arguments cannot be read; wrap it in a function with named arguments.") from None
    parameters = [p.name for p in signature if p.default is p.empty]
    for parameter in signature:
        if parameter.default is not parameter.empty and parameter.name in box:
            raise PlanError(f"its argument {parameter.name!r} is an attribute, so it cannot have a default.")
    if set(parameters) <= set(box):
        return {p: variables_for([p])[0] for p in parameters}
    if len(parameters) == 1:
        return {parameters[0]: variables_for(list(box))}
    unknown = next(p for p in parameters if p not in box)
    raise PlanError(
        f"its argument {unknown!r} has no declared range{did_you_mean(unknown, box)}; name the arguments after the "
        "attributes, or take one vector of all of them."
    )


def compile_numpy(expressions: Sequence[sympy.Expr], symbols: Sequence[sympy.Symbol]) -> Callable[..., list[np.ndarray]]:
    """Expressions as one NumPy function; parts they share are computed once."""
    names = [sympy.Dummy(f"v{i}") for i in range(len(symbols))]
    renamed = [e.xreplace(dict(zip(symbols, names))) for e in expressions]
    modules: list[Any] = [{"Heaviside": np.heaviside, "sign": np.sign, "Max": _largest, "Min": _smallest, "erf": _erf}, "numpy"]
    function = sympy.lambdify(names, renamed, modules=modules, cse=True)

    def evaluate(*columns: np.ndarray) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            return [np.asarray(value, dtype=float) for value in function(*columns)]

    return evaluate


def _largest(*values: Any) -> Any:
    return reduce(np.maximum, values)


def _smallest(*values: Any) -> Any:
    return reduce(np.minimum, values)


def _erf(value: Any) -> Any:
    from scipy.special import erf

    return erf(value)
