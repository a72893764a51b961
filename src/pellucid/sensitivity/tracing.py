"""Symbols that behave like NumPy arrays, so that a Python function can be followed step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy

from ..errors import PlanError

FUNCTIONS: dict[str, tuple[Callable[..., Any], int | None]] = {
    "exp": (sympy.exp, 1),
    "log": (sympy.log, 1),
    "sqrt": (sympy.sqrt, 1),
    "tanh": (sympy.tanh, 1),
    "sin": (sympy.sin, 1),
    "cos": (sympy.cos, 1),
    "tan": (sympy.tan, 1),
    "arctan": (sympy.atan, 1),
    "atan": (sympy.atan, 1),
    "sinh": (sympy.sinh, 1),
    "cosh": (sympy.cosh, 1),
    "erf": (sympy.erf, 1),
    "abs": (sympy.Abs, 1),
    "sigmoid": (lambda x: 1 / (1 + sympy.exp(-x)), 1),
    "max": (sympy.Max, None),
    "min": (sympy.Min, None),
    "maximum": (sympy.Max, None),
    "minimum": (sympy.Min, None),
}
"""What formulas may call: the SymPy function, and its number of arguments (None: any)."""

_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "power": lambda a, b: a**b,
    "float_power": lambda a, b: a**b,
    "negative": lambda a: -a,
    "positive": lambda a: a,
    "square": lambda a: a**2,
    "reciprocal": lambda a: 1 / a,
    "absolute": sympy.Abs,
    "fabs": sympy.Abs,
    "exp2": lambda a: 2**a,
    "expm1": lambda a: sympy.exp(a) - 1,
    "log1p": lambda a: sympy.log(1 + a),
    "log2": lambda a: sympy.log(a) / sympy.log(2),
    "log10": lambda a: sympy.log(a) / sympy.log(10),
    "logaddexp": lambda a, b: sympy.log(sympy.exp(a) + sympy.exp(b)),
    "hypot": lambda a, b: sympy.sqrt(a**2 + b**2),
    "expit": lambda a: 1 / (1 + sympy.exp(-a)),
    **{name: FUNCTIONS[name][0] for name in ("exp", "log", "sqrt", "tanh", "sin", "cos", "tan", "arctan", "sinh", "cosh", "erf")},
    "maximum": sympy.Max,
    "minimum": sympy.Min,
    "fmax": sympy.Max,
    "fmin": sympy.Min,
}


MAX_OPERATIONS = 20_000
"""Formulas with more operations are refused, also while they are being traced."""


def tree_size(expr: sympy.Basic, known: dict[sympy.Basic, int] | None = None) -> int:
    """Operations when nothing is shared; counted once per different part, so that sharing cannot make the count endless."""
    known = {} if known is None else known
    if expr not in known:
        known[expr] = 1 + sum(tree_size(arg, known) for arg in expr.args)
    return known[expr]


def _exact(value: Any) -> Any:
    """A number as the rational it is; expressions as they are."""
    if isinstance(value, sympy.Basic):
        return value
    if isinstance(value, bool | np.bool_):
        return sympy.Integer(int(value))
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, int | float) and np.isfinite(number):
        return sympy.Rational(number)
    raise PlanError(f"the constant {value!r} is not a finite real number.")


def _cells(value: Any) -> np.ndarray:
    if isinstance(value, Traced):
        return value.cells
    array = np.asarray(value)
    cells = np.empty(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        inner = array[place]
        cells[place] = inner.cells[()] if isinstance(inner, Traced) else _exact(inner)
    return cells


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of symbolic numbers."""

    __array_priority__ = 1000

    def __init__(self, cells: Any):
        self.cells = np.asarray(cells, dtype=object)

    @staticmethod
    def outputs_of(result: Any) -> list[sympy.Expr]:
        """The expressions in what a traced function returned, in order."""
        return [sympy.sympify(cell) for cell in _cells(result).ravel()]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.cells.shape

    @property
    def ndim(self) -> int:
        return self.cells.ndim

    @property
    def size(self) -> int:
        return self.cells.size

    @property
    def T(self) -> Traced:
        return Traced(self.cells.T)

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, key: Any) -> Traced:
        if isinstance(key, Traced):
            raise PlanError("indexing by an attribute is not supported.")
        return Traced(self.cells[key])

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def reshape(self, *shape: Any) -> Traced:
        return Traced(self.cells.reshape(*shape))

    def ravel(self) -> Traced:
        return Traced(self.cells.ravel())

    def sum(self, axis: Any = None) -> Traced:
        return Traced(self.cells.sum(axis=axis))

    def mean(self, axis: Any = None) -> Traced:
        total = self.sum(axis)
        return total / (self.size // max(1, total.size))

    def dot(self, other: Any) -> Traced:
        return Traced(np.dot(self.cells, _cells(other)))

    def __bool__(self) -> bool:
        raise PlanError("a branch on an attribute cannot be followed; use np.maximum, np.minimum, np.abs or np.clip.")

    def _number(self, *_: Any) -> Any:
        raise PlanError("an attribute was turned into a plain number; use NumPy functions (np.exp, not math.exp).")

    __float__ = __int__ = __index__ = __complex__ = _number

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise PlanError("an attribute was turned into a plain array; use arithmetic and NumPy functions on it as it is.")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Traced:
        name = ufunc.__name__
        options = {key: value for key, value in options.items() if value is not None}
        if name == "matmul" and method == "__call__" and not options:
            return Traced(np.matmul(_cells(inputs[0]), _cells(inputs[1])))
        if name == "add" and method == "reduce" and set(options) <= {"axis"}:
            return Traced(_cells(inputs[0]).sum(axis=options.get("axis", 0)))
        if name in ("greater", "less", "greater_equal", "less_equal", "equal", "not_equal"):
            raise PlanError("a comparison cannot be followed; use np.maximum, np.minimum, np.abs or np.clip.")
        if name not in _UFUNCS or method != "__call__" or options:
            raise PlanError(f"the operation {name if method == '__call__' else f'{name}.{method}'} is not supported.")
        arrays = np.broadcast_arrays(*(_cells(value) for value in inputs))
        result = np.empty(arrays[0].shape, dtype=object)
        for place in np.ndindex(result.shape):
            result[place] = _UFUNCS[name](*(array[place] for array in arrays))
            if tree_size(result[place]) > MAX_OPERATIONS:
                raise PlanError(f"the formula has more than {MAX_OPERATIONS} operations when nothing is shared; split it up.")
        return Traced(result)

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        handler = _ARRAY_FUNCTIONS.get(function)
        if handler is None:
            raise PlanError(f"the operation {function.__name__} is not supported.")
        return handler(*args, **kwargs)


def _stack(function: Callable[..., np.ndarray]) -> Callable[..., Traced]:
    return lambda parts, axis=0: Traced(function([_cells(part) for part in parts], axis=axis))


def _clip(value: Any, lo: Any, hi: Any) -> Any:
    return np.minimum(np.maximum(value, lo), hi)


def _norm(value: Traced) -> Any:
    return np.sqrt((value * value).sum())


_ARRAY_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: lambda value, axis=None: Traced(_cells(value)).sum(axis),
    np.mean: lambda value, axis=None: Traced(_cells(value)).mean(axis),
    np.prod: lambda value, axis=None: Traced(np.prod(_cells(value), axis=axis)),
    np.dot: lambda a, b: Traced(np.dot(_cells(a), _cells(b))),
    np.stack: _stack(np.stack),
    np.concatenate: _stack(np.concatenate),
    np.clip: _clip,
    np.linalg.norm: _norm,
}


def variables_for(names: Sequence[str]) -> Traced:
    """A vector of real symbols."""
    cells = np.empty(len(names), dtype=object)
    cells[:] = [sympy.Symbol(name, real=True) for name in names]
    return Traced(cells)
