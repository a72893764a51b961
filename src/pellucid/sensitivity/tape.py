"""A formula as a straight line of operations that runs on intervals, forward for values and backward for slopes.

Common parts are computed once, so the two factors of a product that share them keep what they know of each other only
through the slopes; the solver (`solver.py`) makes use of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import flint
import numpy as np
import sympy

from ..errors import PlanError
from . import intervals as iv
from .intervals import Interval

WHOLE = (-np.inf, np.inf)


@dataclass(frozen=True)
class Step:
    """One operation on earlier results."""

    name: str
    args: tuple[int, ...] = ()
    value: Any = None


def _exp_slope(x: Interval, y: Interval) -> Interval:
    return y


def _log_slope(x: Interval, y: Interval) -> Interval:
    return iv.reciprocal(x)


def _one_plus_log(x: Interval, y: Interval) -> Interval:
    logarithm = iv.log(x)
    return iv.add((np.ones_like(logarithm[0]), np.ones_like(logarithm[0])), logarithm)


def _root_slope(x: Interval, y: Interval) -> Interval:
    return iv.reciprocal((2 * y[0], 2 * y[1]))


def _one_minus_square(x: Interval, y: Interval) -> Interval:
    square = iv.power(y, 2)
    return iv.add((np.ones_like(square[0]), np.ones_like(square[0])), iv.negative(square))


def _arctan_slope(x: Interval, y: Interval) -> Interval:
    square = iv.power(x, 2)
    return iv.reciprocal(iv.add((np.ones_like(square[0]), np.ones_like(square[0])), square))


def _erf_slope(x: Interval, y: Interval) -> Interval:
    factor = iv.constant(2 / flint.arb.pi().sqrt())
    return iv.multiply((np.array(factor[0]), np.array(factor[1])), iv.exp(iv.negative(iv.power(x, 2))))


def _no_slope_at_a_jump(x: Interval, y: Interval) -> Interval:
    jumps = (x[0] <= 0) & (x[1] >= 0)
    return np.where(jumps, -np.inf, 0.0), np.where(jumps, np.inf, 0.0)


Slope = Callable[[Interval, Interval], Interval]

UNARY: dict[str, tuple[Callable[[Interval], Interval], Slope]] = {
    "exp": (iv.exp, _exp_slope),
    "log": (iv.log, _log_slope),
    "sqrt": (iv.square_root, _root_slope),
    "tanh": (iv.tanh, _one_minus_square),
    "atan": (iv.arctan, _arctan_slope),
    "erf": (iv.erf, _erf_slope),
    "sin": (iv.sin, lambda x, y: iv.cos(x)),
    "cos": (iv.cos, lambda x, y: iv.negative(iv.sin(x))),
    "sinh": (iv.sinh, lambda x, y: iv.cosh(x)),
    "cosh": (iv.cosh, lambda x, y: iv.sinh(x)),
    "Abs": (iv.absolute, lambda x, y: iv.sign(x)),
    "sign": (iv.sign, _no_slope_at_a_jump),
    "Heaviside": (iv.step, _no_slope_at_a_jump),
    "times_its_log": (iv.times_its_log, _one_plus_log),
    "reciprocal": (iv.reciprocal, lambda x, y: iv.negative(iv.power(y, 2))),
}
"""What intervals can be pushed through: the value and the slope of every function of one argument."""


PARTIAL = ("log", "sqrt", "times_its_log", "reciprocal")
"""Functions that have no value everywhere."""


@dataclass
class Tape:
    """Operations in order; `outputs` are the positions of the results."""

    variables: tuple[str, ...]
    steps: list[Step] = field(default_factory=list)
    outputs: tuple[int, ...] = ()
    _places: dict[Any, int] = field(default_factory=dict)

    def put(self, name: str, *args: int, value: Any = None) -> int:
        """Append an operation, or find the same one done before."""
        step = Step(name, args, value)
        place = self._places.get(step)
        if place is None:
            place = self._places[step] = len(self.steps)
            self.steps.append(step)
        return place

    def forward(self, lo: np.ndarray, hi: np.ndarray) -> list[Interval]:
        """Enclosures of every step over boxes; `lo` and `hi` have one row per variable and one column per box."""
        values: list[Interval] = []
        with np.errstate(all="ignore"):
            for step in self.steps:
                values.append(self._value(step, values, lo, hi))
        return values

    def _value(self, step: Step, values: list[Interval], lo: np.ndarray, hi: np.ndarray) -> Interval:
        args = [values[i] for i in step.args]
        match step.name:
            case "variable":
                return lo[step.value], hi[step.value]
            case "constant":
                return np.broadcast_to(step.value[0], lo.shape[1:]), np.broadcast_to(step.value[1], lo.shape[1:])
            case "add":
                return iv.add(*args)
            case "multiply":
                return iv.multiply(*args)
            case "power":
                return iv.power(args[0], step.value)
            case "Max":
                return iv.maximum(*args)
            case "Min":
                return iv.minimum(*args)
            case "negative":
                return iv.negative(args[0])
        return UNARY[step.name][0](args[0])

    def undefined(self, values: list[Interval]) -> np.ndarray:
        """Where some step may have no value: a root or logarithm of a negative number, a division by zero."""
        found = np.zeros(values[0][0].shape, dtype=bool)
        for step in self.steps:
            if step.name in PARTIAL:
                lo, hi = values[step.args[0]]
                if step.name == "reciprocal":
                    found |= ((lo < 0) & (hi > 0)) | ((lo == 0) & (hi == 0))
                else:
                    found |= (lo < 0) | ((hi <= 0) if step.name == "log" else (hi < 0))
        return found

    def continuous(self, values: list[Interval]) -> np.ndarray:
        """Where no step can be undefined, infinite or jump: slopes say nothing about a function across a gap."""
        smooth = ~self.undefined(values)
        for step, (lo, hi) in zip(self.steps, values):
            smooth &= np.isfinite(lo) & np.isfinite(hi)
            if step.name in ("sign", "Heaviside"):
                smooth &= lo == hi
        return smooth

    def slopes(self, values: list[Interval], output: int = 0) -> Interval:
        """Enclosures of the derivatives of one output in every variable, from what `forward` gave."""
        boxes = values[0][0].shape
        zero, one = np.zeros(boxes), np.ones(boxes)
        slopes: list[Interval | None] = [None] * len(self.steps)
        slopes[self.outputs[output]] = (one, one)
        result = np.zeros((len(self.variables), *boxes)), np.zeros((len(self.variables), *boxes))
        with np.errstate(all="ignore"):
            for place in range(len(self.steps) - 1, -1, -1):
                slope, step = slopes[place], self.steps[place]
                if slope is None:
                    continue
                if step.name == "variable":
                    result[0][step.value], result[1][step.value] = slope
                    continue
                for arg, local in self._local(step, values, place):
                    more = iv.multiply(slope, local) if local is not None else slope
                    before = slopes[arg]
                    slopes[arg] = more if before is None else iv.add(before, more)
        return np.where(np.isnan(result[0]), -np.inf, result[0]) + zero, np.where(np.isnan(result[1]), np.inf, result[1]) + zero

    def _local(self, step: Step, values: list[Interval], place: int) -> list[tuple[int, Interval | None]]:
        args = [values[i] for i in step.args]
        match step.name:
            case "constant":
                return []
            case "add":
                return [(step.args[0], None), (step.args[1], None)]
            case "negative":
                minus = np.full_like(args[0][0], -1.0)
                return [(step.args[0], (minus, minus))]
            case "multiply":
                return [(step.args[0], args[1]), (step.args[1], args[0])]
            case "power":
                n = step.value
                inner = iv.power(args[0], n - 1)
                return [(step.args[0], iv.multiply((np.array(float(n)), np.array(float(n))), inner))]
            case "Max" | "Min":
                first, second = args if step.name == "Max" else (args[1], args[0])
                wins = iv.step((first[0] - second[1], first[1] - second[0]))
                loses = 1.0 - wins[1], 1.0 - wins[0]
                return list(zip(step.args, (wins, loses)))
        return [(step.args[0], UNARY[step.name][1](args[0], values[place]))]


def compile_tape(expressions: Sequence[sympy.Expr], variables: Sequence[str]) -> Tape:
    """The tape of some expressions, which share what they have in common."""
    tape = Tape(tuple(variables))
    known: dict[sympy.Basic, int] = {}
    tape.outputs = tuple(_place(tape, sympy.sympify(e), known) for e in expressions)
    return tape


def _place(tape: Tape, expr: Any, known: dict[sympy.Basic, int]) -> int:
    if expr not in known:
        known[expr] = _write(tape, expr, known)
    return known[expr]


def _write(tape: Tape, expr: Any, known: dict[sympy.Basic, int]) -> int:
    if expr.is_Symbol:
        if str(expr) not in tape.variables:
            raise PlanError(f"{expr} has no declared range; the box declares {', '.join(tape.variables)}.")
        return tape.put("variable", value=tape.variables.index(str(expr)))
    if not expr.free_symbols:
        return tape.put("constant", value=enclosed(expr))
    if expr.is_Add or expr.is_Mul or isinstance(expr, sympy.Max | sympy.Min):
        name = {"Add": "add", "Mul": "multiply", "Max": "Max", "Min": "Min"}[type(expr).__name__]
        return _fold(tape, name, expr.args, known)
    if expr.is_Pow:
        return _power(tape, expr.base, expr.exp, known)
    name = type(expr).__name__
    if name in UNARY and len(expr.args) >= 1:
        return tape.put(name, _place(tape, expr.args[0], known))
    if name == "tan":
        return _place(tape, sympy.sin(expr.args[0]) / sympy.cos(expr.args[0]), known)
    raise PlanError(
        f"the operation {name} is not supported: use + - * / **, exp, log, sqrt, tanh, sin, cos, atan, sinh, cosh, erf, "
        "abs, maximum and minimum."
    )


def _fold(tape: Tape, name: str, args: Sequence[Any], known: dict[sympy.Basic, int]) -> int:
    if name == "multiply" and args[0] == -1:
        return tape.put("negative", _fold(tape, name, args[1:], known))
    if name == "multiply":
        for arg in args:
            if isinstance(arg, sympy.log) and arg.args[0] in args:
                together = tape.put("times_its_log", _place(tape, arg.args[0], known))
                rest = [a for a in args if a != arg and a != arg.args[0]]
                return tape.put(name, together, _fold(tape, name, rest, known)) if rest else together
    place = _place(tape, args[0], known)
    for arg in args[1:]:
        place = tape.put(name, place, _place(tape, arg, known))
    return place


def _power(tape: Tape, base: Any, exponent: Any, known: dict[sympy.Basic, int]) -> int:
    if base == sympy.E:
        return tape.put("exp", _place(tape, exponent, known))
    if exponent.is_Rational and exponent.q in (1, 2) and abs(exponent.p) < 1000:
        place = _place(tape, base, known)
        if exponent.q == 2:
            place = tape.put("sqrt", place)
        if abs(exponent.p) != 1:
            place = tape.put("power", place, value=abs(int(exponent.p)))
        return place if exponent.p > 0 else tape.put("reciprocal", place)
    # b^e = exp(e log b), defined for positive b only.
    logarithm = tape.put("log", _place(tape, base, known))
    return tape.put("exp", tape.put("multiply", logarithm, _place(tape, exponent, known)))


def enclosed(expr: Any) -> tuple[float, float]:
    """Floats around a constant, exact ones on both sides where a float holds it."""
    if expr.is_Rational:
        nearest = float(expr)
        if sympy.Rational(nearest) == expr:
            return nearest, nearest
        return float(np.nextafter(nearest, -np.inf)), float(np.nextafter(nearest, np.inf))
    value = _constant(expr)
    if not value.is_finite():
        raise PlanError(f"the constant {expr} is not a finite real number.")
    return iv.constant(value)


def _constant(expr: Any) -> flint.arb:
    """A certified ball around a constant expression."""
    if expr.is_Rational:
        return flint.arb(flint.fmpq(int(expr.p), int(expr.q)))
    if expr.is_Float:
        return _constant(sympy.Rational(expr))
    if expr == sympy.pi:
        return flint.arb.pi()
    if expr == sympy.E:
        return flint.arb(1).exp()
    args = [_constant(arg) for arg in expr.args]
    if expr.is_Add:
        return sum(args, flint.arb(0))
    if expr.is_Mul:
        result = flint.arb(1)
        for arg in args:
            result *= arg
        return result
    if expr.is_Pow:
        if expr.exp.is_Integer:
            return args[0] ** flint.fmpz(int(expr.exp.p))
        return args[0] ** args[1]
    balls = ("exp", "log", "sin", "cos", "tan", "tanh", "atan", "erf", "sinh", "cosh")
    name = type(expr).__name__
    if name == "Abs":
        return abs(args[0])
    if name not in balls:
        raise PlanError(f"the constant {expr} uses {name}, which is not supported.")
    return getattr(args[0], name)()
