"""How sensitive a query is, under which relation, and which attribute drives it.

For a query Σ f(x) or its mean over records, with f a formula of attributes with public ranges:

    metric        sup ‖∇f‖        one record moves by at most 1 in feature space (metric privacy, nothing else)
    add_remove    sup ‖f‖         one record is added or removed
    replace       sup ‖f − f'‖    one record takes any other values

They are three different numbers, and none is ever taken for another. *Partial sensitivity* tells which attribute drives the
first: `share` is the part of the gradient that points along it, `gradient` is how the norm of the gradient grows along it.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import sympy

from ..errors import NotPrivate, PlanError
from ..public.schema import did_you_mean
from . import partial_plots
from .expressions import Box, Formula, compile_numpy, formula
from .individual import IndividualLoss, individual_loss
from .solver import Limits, Supremum, continuous, extreme

Norm = Literal["l1", "l2", "linf"]
Change = Literal["metric", "add-remove", "replace"]

VALID_FOR = {
    "metric": "neighbours in which one record moves by at most 1 in Euclidean distance of its attributes (metric privacy); "
    "NOT for adding, removing or replacing a record",
    "add-remove": "neighbours in which one record is added or removed",
    "replace": "neighbours in which one record takes any other values of the box, the number of records being public",
}


class Certified(float):
    """A certified upper bound of a sensitivity: a number that knows which neighbours it is valid for."""

    lower: float
    relation: Change
    norm: Norm
    converged: bool
    at: Mapping[str, float]

    def __new__(
        cls, upper: float, lower: float, relation: Change, norm: Norm, converged: bool, at: Mapping[str, float]
    ) -> Certified:
        self = super().__new__(cls, upper)
        self.lower, self.relation, self.norm, self.converged, self.at = lower, relation, norm, converged, at
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return float(self), self.lower, self.relation, self.norm, self.converged, self.at

    @property
    def upper(self) -> float:
        return float(self)

    @property
    def text(self) -> str:
        """The bound in words, with the relation it is valid for."""
        open_ = "" if self.converged else f" (NOT CONVERGED: the largest found is {self.lower:.6g})"
        return f"at most {float(self):.8g} in {self.norm.upper()}{open_}, for {VALID_FOR[self.relation]}"


@dataclass(frozen=True)
class Partial:
    """Sensitivities of a query and the share of each attribute; made by `partial`. Nothing here touches data."""

    formula: Formula
    mean_of: int | None = None
    tolerance: float = 1e-6
    seconds: float = 10.0

    @property
    def attributes(self) -> tuple[str, ...]:
        return self.formula.variables

    @cached_property
    def metric(self) -> Certified:
        """sup of the norm of the gradient (for several outputs, of the Jacobian in Frobenius norm, which bounds it)."""
        if not all(continuous(e, self.formula.box) for e in self.formula.outputs):
            # The slope is no bound across a jump.
            at = {name: lo / 2 + hi / 2 for name, (lo, hi) in self.formula.box.items()}
            return Certified(math.inf, 0.0, "metric", "l2", False, at)
        squares = sympy.Add(*(sympy.Pow(entry, 2) for row in self._jacobian for entry in row))
        return self._rooted(self._largest(squares), "metric", "l2")

    @property
    def add_remove(self) -> Certified:
        """sup |f|; for several outputs the largest L2 norm."""
        return self.sensitivity("add-remove")

    @property
    def replace(self) -> Certified:
        """sup f − inf f; for several outputs the largest L2 distance."""
        return self.sensitivity("replace")

    def sensitivity(self, relation: Change, norm: Norm = "l2") -> Certified:
        """The certified sensitivity under a relation and, for several outputs, in a norm."""
        if relation not in VALID_FOR:
            raise PlanError(f"relation={relation!r}: use 'metric', 'add-remove' or 'replace'.")
        if norm not in get_args(Norm):
            raise PlanError(f"norm={norm!r}: use 'l1', 'l2' or 'linf'.")
        if relation == "metric":
            if norm != "l2":
                raise PlanError("the metric sensitivity is Euclidean; norm must be 'l2'.")
            return self.metric
        if (relation, norm) not in self._found:
            self._found[relation, norm] = self._size(norm) if relation == "add-remove" else self._distance(norm)
        return self._found[relation, norm]

    @functools.cached_property
    def _found(self) -> dict[tuple[str, str], Certified]:
        """Certified sensitivities, each searched once: they are public, and a search takes seconds."""
        return {}

    def _size(self, norm: Norm) -> Certified:
        outputs = self.formula.outputs
        if norm == "linf" or len(outputs) == 1:
            ends = [end for e in outputs for end in self._ends(e)]
            largest = max(ends, key=lambda end: end.upper)
            return self._certified(largest.upper, max(end.lower for end in ends), "add-remove", norm, ends, largest.at)
        if norm == "l1":
            total = self._largest(sympy.Add(*(sympy.Abs(e) for e in outputs)))
            return self._certified(total.upper, total.lower, "add-remove", norm, [total], total.at)
        return self._rooted(self._largest(sympy.Add(*(sympy.Pow(e, 2) for e in outputs))), "add-remove", norm)

    def _distance(self, norm: Norm) -> Certified:
        outputs = self.formula.outputs
        both = [self._ends(e) for e in outputs]
        widths = np.array([[up.upper + down.upper, up.lower + down.lower] for up, down in both])
        slack = 1 + 4 * len(widths) * float(np.finfo(float).eps)  # more than the roundings here and below
        if norm == "linf" or len(outputs) == 1:
            widest = int(np.argmax(widths[:, 0]))
            ends = [end for pair in both for end in pair]
            upper, lower = float(widths[widest, 0]) * slack, float(widths[:, 1].max())
            return self._certified(upper, lower, "replace", norm, ends, both[widest][0].at)
        # Two records at once: all attributes twice. Where that is too much, the ranges of the outputs still bound it.
        pair = self._pair(norm)
        aside = float(np.sum(widths[:, 0]) if norm == "l1" else math.hypot(*widths[:, 0])) * slack
        upper = min(pair.upper if norm == "l1" else math.sqrt(max(pair.upper, 0.0)) * slack, aside)
        lower = pair.lower if norm == "l1" else math.sqrt(max(pair.lower, 0.0))
        found = replace(pair, lower=lower, upper=upper)
        return self._certified(upper, lower, "replace", norm, [found], {name: pair.at[name] for name in self.attributes})

    def _pair(self, norm: Norm) -> Supremum:
        """sup of Σ|f_i(x) − f_i(y)| (L1) or of Σ(f_i(x) − f_i(y))² (L2) over two points of the box."""
        suffix = "_other"
        while any(f"{name}{suffix}" in self.formula.box for name in self.formula.box):
            suffix += "_"
        other = {s: sympy.Symbol(f"{s}{suffix}", real=True) for s in self.formula.symbols}
        apart = [e - e.xreplace(other) for e in self.formula.outputs]
        terms = [sympy.Abs(d) if norm == "l1" else sympy.Pow(d, 2) for d in apart]
        box = {**self.formula.box, **{f"{name}{suffix}": ends for name, ends in self.formula.box.items()}}
        return extreme(sympy.Add(*terms), box, 1, self._limits())

    def _ends(self, expr: sympy.Expr) -> tuple[Supremum, Supremum]:
        """(sup f, sup −f), found once per output."""
        if expr not in self._kept:
            self._kept[expr] = (self._largest(expr), self._largest(expr, -1))
        return self._kept[expr]

    @functools.cached_property
    def _kept(self) -> dict[sympy.Expr, tuple[Supremum, Supremum]]:
        return {}

    def range(self, output: int = 0) -> tuple[float, float]:
        """Certified [inf, sup] of one output over the box, before any mean."""
        up, down = self._ends(self.formula.outputs[output])
        return -down.upper, up.upper

    def _largest(self, expr: sympy.Expr, sign: int = 1) -> Supremum:
        return extreme(expr, self.formula.box, sign, self._limits())

    def _limits(self) -> Limits:
        return Limits(self.tolerance, time.monotonic() + self.seconds, 10_000_000)

    def _rooted(self, squared: Supremum, relation: Change, norm: Norm) -> Certified:
        upper = float(np.nextafter(math.sqrt(max(squared.upper, 0.0)), math.inf))
        lower = math.sqrt(max(squared.lower, 0.0))
        return self._certified(upper, lower, relation, norm, [squared], squared.at)

    def _certified(
        self, upper: float, lower: float, relation: Change, norm: Norm, ends: Sequence[Supremum], at: Mapping[str, float]
    ) -> Certified:
        m = self.mean_of or 1
        if m > 1:
            upper, lower = float(np.nextafter(upper / m, math.inf)), lower / m
        # Ends near zero need not be close in relative terms when their sum is.
        close = upper - lower <= 2 * self.tolerance * abs(upper) and math.isfinite(upper)
        return Certified(upper, lower, relation, norm, close or all(end.converged for end in ends), dict(at))

    @cached_property
    def _jacobian(self) -> list[list[sympy.Expr]]:
        return [[_smooth(sympy.diff(e, s)) for s in self.formula.symbols] for e in self.formula.outputs]

    @cached_property
    def _slopes(self) -> Callable[..., list[np.ndarray]]:
        return compile_numpy([entry for row in self._jacobian for entry in row], self.formula.symbols)

    @cached_property
    def _slopes_and_curvature(self) -> Callable[..., list[np.ndarray]]:
        symbols = self.formula.symbols
        second = [
            _smooth(sympy.diff(row[i], symbols[j])) for row in self._jacobian for i in range(len(symbols)) for j in range(i + 1)
        ]
        return compile_numpy([entry for row in self._jacobian for entry in row] + second, symbols)

    def norm_at(self, point: Any) -> np.ndarray:
        """‖∇f‖ at one point or many."""
        columns, single = self._columns(point)
        slopes = self._slopes(*columns)
        norm = np.broadcast_to(_length(slopes), columns[0].shape) / (self.mean_of or 1)
        return norm[0] if single else norm

    def share(self, point: Any) -> np.ndarray:
        """The part of the gradient along each attribute, ∂f/∂x_j / ‖∇f‖: squares add up to 1 (all 0 where ∇f = 0).

        `point` is a dict, one row, or a table of rows (points × attributes), all of them public. For several outputs it is the
        norm of the column of the Jacobian, without a sign.
        """
        columns, single = self._columns(point)
        slopes = self._slopes(*columns)
        norm = _length(slopes)
        with np.errstate(all="ignore"):
            inverse = np.where(norm > 0, 1.0 / norm, 0.0)
        shares = np.empty((len(self.attributes), len(columns[0])))
        for j in range(len(self.attributes)):
            np.multiply(self._along(slopes, j), inverse, out=shares[j])
        return shares[:, 0] if single else shares.T

    def _along(self, slopes: list[np.ndarray], j: int) -> np.ndarray:
        column = slopes[j :: len(self.attributes)]
        return column[0] if len(column) == 1 else _length(column)

    def gradient(self, point: Any) -> np.ndarray:
        """How the norm of the gradient grows along each attribute, ∇‖∇f‖ = H·∇f / ‖∇f‖ (0 where ∇f = 0)."""
        columns, single = self._columns(point)
        values = self._slopes_and_curvature(*columns)
        count, outputs = len(self.attributes), len(self.formula.outputs)
        slopes, second = values[: count * outputs], values[count * outputs :]
        norm = _length(slopes)
        with np.errstate(all="ignore"):
            inverse = np.where(norm > 0, 1.0 / norm, 0.0) / (self.mean_of or 1)
        result = np.zeros((count, len(columns[0])))
        entry = iter(second)
        for k in range(outputs):
            g = slopes[k * count : (k + 1) * count]
            for i in range(count):
                for j in range(i + 1):
                    h = next(entry)
                    result[i] += h * g[j]
                    if i != j:
                        result[j] += h * g[i]
        result *= inverse
        return result[:, 0] if single else result.T

    def individual_loss(self, point: Any, sigma: float) -> IndividualLoss:
        """The Rényi loss of a person with these attributes when N(0, σ²) is added to the sum (or mean) of f over everybody."""
        columns, single = self._columns(point)
        if not single:
            raise PlanError("individual_loss is about one person: give one point.")
        values = [float(np.ravel(v)[0]) for v in self.formula.compiled()(*columns)]
        return individual_loss(math.hypot(*values) / (self.mean_of or 1), sigma)

    def _columns(self, point: Any) -> tuple[list[np.ndarray], bool]:
        """One array per attribute, and whether a single point was given."""
        if hasattr(point, "__arrow_c_stream__") or hasattr(point, "columns"):
            raise NotPrivate(
                "tables of records are only read inside a session: session.release(pel.AttributeShares(formula), …). "
                "For public points give a dict or a NumPy array."
            )
        if isinstance(point, Mapping):
            for name in point:
                if name not in self.attributes:
                    raise PlanError(f"{name!r} is not an attribute of the formula{did_you_mean(name, self.attributes)}.")
            missing = [name for name in self.attributes if name not in point]
            if missing:
                raise PlanError(f"the point has no value for {missing[0]!r}.")
            values = np.broadcast_arrays(*(np.asarray(point[name], dtype=float) for name in self.attributes))
            return [np.atleast_1d(v).ravel() for v in values], values[0].ndim == 0
        array = np.asarray(point, dtype=float)
        if array.ndim not in (1, 2) or array.shape[-1] != len(self.attributes):
            raise PlanError(f"a point needs {len(self.attributes)} values: {', '.join(self.attributes)}.")
        return [np.ascontiguousarray(c) for c in np.atleast_2d(array).T], array.ndim == 1

    @property
    def text(self) -> str:
        """The three sensitivities in words."""
        of = f"mean of {self.mean_of}" if self.mean_of else "sum"
        lines = [
            f"{of} of {self.formula.text} over " + ", ".join(f"{n} in [{a:g}, {b:g}]" for n, (a, b) in self.formula.box.items())
        ]
        lines += [f"  {c.relation}: {c.text}" for c in (self.metric, self.add_remove, self.replace)]
        return "\n".join(lines)

    def plot(self, ax: Any = None, kind: str | None = None) -> Any:
        """A picture with the certified supremum marked: "surface" and "shares" (two attributes), "map", or "profiles"."""
        return partial_plots.draw(self, ax, kind)


def partial(query: Any, box: Box, *, mean_of: int | None = None, tolerance: float = 1e-6, seconds: float = 10.0) -> Partial:
    """See `pellucid.sensitivity.partial`."""
    if mean_of is not None and (isinstance(mean_of, bool) or not isinstance(mean_of, int | np.integer) or mean_of < 1):
        raise PlanError(f"mean_of={mean_of!r}: give the public number of records, a whole number from 1.")
    if not (0 < tolerance < 1 and seconds > 0):
        raise PlanError("partial: tolerance must lie between 0 and 1, and seconds above 0.")
    return Partial(formula(query, box), mean_of, tolerance, seconds)


def _smooth(expr: sympy.Expr) -> sympy.Expr:
    """Derivatives almost everywhere: the spike of a step's derivative is left out."""
    return expr.replace(sympy.DiracDelta, lambda *_: sympy.Integer(0)) if expr.has(sympy.DiracDelta) else expr


def _length(parts: Sequence[np.ndarray]) -> np.ndarray:
    total = parts[0] * parts[0]
    for part in parts[1:]:
        total = total + part * part
    return np.sqrt(total)
