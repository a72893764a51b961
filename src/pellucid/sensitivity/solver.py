"""Certified suprema over a box, by branch and bound on intervals.

The upper end is what a certificate may use: it is an enclosure over boxes that together cover every place where a maximum
can be. The lower end is a value at a point, found by local search, and only tells how tight the upper end is.

A box is bounded by the natural extension of several ways of writing the function and by the mean-value form around the
centre that suits the slopes best. It is made smaller before it is split: where the function only rises along a variable, the
maximum is at that variable's upper end, and where it is convex along a variable, at one of its two ends.

Claim: certified-supremum
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy
from scipy.optimize import minimize

from ..errors import PlanError
from . import intervals as iv
from .expressions import Box, compile_numpy, formula, function_depth
from .intervals import Interval
from .tape import PARTIAL, Tape, compile_tape
from .tracing import tree_size

BATCH = 512
"""Boxes split in one go."""

MOST_BOXES = 2_000_000
"""Boxes kept at once; a search that needs more stops and says so."""


@dataclass(frozen=True)
class Supremum:
    """The supremum of a function over a box lies in [lower, upper]; `upper` is certified, `lower` is attained at `at`.

    `converged` says whether the two ends came within the tolerance; when they did not, `upper` is still valid, only loose.
    """

    lower: float
    upper: float
    at: Mapping[str, float]
    splits: int
    seconds: float
    tolerance: float
    scale: float = 0.0
    """A millionth of how far the function varies: what "close" means where the supremum is near zero."""

    @property
    def gap(self) -> float:
        return self.upper - self.lower

    @property
    def converged(self) -> bool:
        size = max(abs(self.upper), abs(self.lower), self.scale)
        close = self.gap <= max(self.tolerance * size, np.finfo(float).tiny)
        return bool(np.isfinite(self.upper) and np.isfinite(self.lower) and close)

    def __iter__(self) -> Iterator[float]:
        return iter((self.lower, self.upper))

    def __float__(self) -> float:
        return self.upper

    @property
    def text(self) -> str:
        where = ", ".join(f"{name} = {value:.6g}" for name, value in self.at.items())
        if not np.isfinite(self.upper):
            return (
                f"no finite upper bound after {self.splits} splits and {self.seconds:.1f} s: the function may be unbounded or "
                f"undefined somewhere in the box; the largest value found is {self.lower:.6g} at {where}"
            )
        found = f"at most {self.upper:.8g} (certified); {self.lower:.8g} is attained at {where}"
        if self.converged:
            return f"{found}; {self.splits} splits, {self.seconds:.2f} s"
        return (
            f"{found}; NOT CONVERGED to {self.tolerance:g}: gap {self.gap:.3g} after {self.splits} splits, {self.seconds:.1f} s"
        )

    def __repr__(self) -> str:
        return f"Supremum({self.text})"


def supremum(query: Any, box: Box, *, tolerance: float = 1e-6, seconds: float = 10.0, splits: int = 1_000_000) -> Supremum:
    """See `pellucid.sensitivity.supremum`."""
    asked = formula(query, box)
    if not (0 < tolerance < 1 and seconds > 0 and splits >= 0):
        raise PlanError("supremum: tolerance must lie between 0 and 1, seconds above 0, splits at 0 or above.")
    return extreme(asked.scalar, asked.box, +1, Limits(tolerance, time.monotonic() + seconds, splits))


@dataclass
class Limits:
    """When to stop; shared by the parts of one search."""

    tolerance: float
    deadline: float
    splits: int
    started: float = field(default_factory=time.monotonic)
    used: int = 0

    @property
    def over(self) -> bool:
        return time.monotonic() > self.deadline or self.used >= self.splits


def extreme(expr: sympy.Expr, box: Mapping[str, tuple[float, float]], sign: int, limits: Limits) -> Supremum:
    """sup of sign·expr, as a Supremum of that; parts that share no variables are solved one by one."""
    with np.errstate(all="ignore"):
        found = _Parts(dict(box), limits).extreme(expr, sign)
    at = {name: found.at.get(name, lo / 2 + hi / 2) for name, (lo, hi) in box.items()}
    attained = _value_at(sign * expr, at)
    seconds = time.monotonic() - limits.started
    return Supremum(attained, max(found.upper, attained), at, limits.used, seconds, limits.tolerance, _scale(expr, box))


def _scale(expr: sympy.Expr, box: Mapping[str, tuple[float, float]]) -> float:
    """A millionth of the spread of the function over random points: no more than an idea of its size."""
    rng = np.random.default_rng(5)
    points = [rng.uniform(lo, hi, 256) for lo, hi in box.values()]
    values = compile_numpy([expr], [sympy.Symbol(name, real=True) for name in box])(*points)[0]
    finite = values[np.isfinite(values)] if values.ndim else np.zeros(0)
    return 1e-6 * float(np.ptp(finite)) if finite.size else 0.0


def continuous(expr: sympy.Expr, box: Mapping[str, tuple[float, float]], most: int = 4096) -> bool:
    """Whether a function was shown to have no gap, pole or jump anywhere in the box, by halving it up to `most` times."""
    names = tuple(box)
    tape = compile_tape([expr], names)
    lo, hi = np.array([[box[name][0]] for name in names]), np.array([[box[name][1]] for name in names])
    halved = 0
    while lo.shape[1]:
        open_ = ~tape.continuous(tape.forward(lo, hi))
        lo, hi = lo[:, open_], hi[:, open_]
        halved += lo.shape[1]
        if halved > most:
            return False
        column = np.arange(lo.shape[1])
        dim = np.argmax(hi - lo, axis=0) if lo.shape[1] else column
        middle = lo[dim, column] / 2 + hi[dim, column] / 2
        left, right = hi.copy(), lo.copy()
        left[dim, column], right[dim, column] = middle, middle
        lo, hi = np.hstack([lo, right]), np.hstack([left, hi])
    return True


def _value_at(expr: sympy.Expr, at: Mapping[str, float]) -> float:
    """A certified lower end of the value at a point."""
    point = np.array([[at[name]] for name in at])
    tape = compile_tape([expr], tuple(at))
    steps = tape.forward(point, point)
    return -math.inf if tape.undefined(steps)[0] else float(steps[tape.outputs[0]][0][0])


@dataclass(frozen=True)
class _End:
    """A certified upper end and the point that comes closest to it."""

    upper: float
    at: Mapping[str, float]


_RISING = (sympy.exp, sympy.log, sympy.tanh, sympy.atan, sympy.erf, sympy.sinh)


@dataclass
class _Parts:
    """Takes a function apart where that loses nothing: independent terms, independent factors, rising outer functions."""

    box: dict[str, tuple[float, float]]
    limits: Limits

    def extreme(self, expr: sympy.Expr, sign: int) -> _End:
        if not expr.free_symbols:
            lo, hi = self._outer(sympy.Dummy("none"), expr, 0.0, 0.0)
            return _End(hi if sign > 0 else -lo, {})
        if isinstance(expr, _RISING) or (expr.is_Pow and expr.exp == sympy.Rational(1, 2)):
            return self._rising(expr, sign)
        groups = _independent(expr) if expr.is_Add or expr.is_Mul else [expr]
        if expr.is_Add and len(groups) > 1:
            ends = [self.extreme(part, sign) for part in groups]
            if not all(np.isfinite(end.upper) for end in ends):
                return _End(np.inf, _joined(end.at for end in ends))
            total = (np.zeros(1), np.zeros(1))
            for end in ends:
                total = iv.add(total, (np.array([end.upper]), np.array([end.upper])))
            return _End(float(total[1][0]), _joined(end.at for end in ends))
        if expr.is_Mul and len(groups) > 1:
            return self._product(groups, sign)
        return _Search(expr, self.box, sign, self.limits).run()

    def _outer(self, inner: sympy.Symbol, outer: sympy.Expr, lo: float, hi: float) -> tuple[float, float]:
        tape = compile_tape([outer], (str(inner),))
        values = tape.forward(np.array([[lo]]), np.array([[hi]]))[tape.outputs[0]]
        return float(values[0][0]), float(values[1][0])

    def _rising(self, expr: sympy.Expr, sign: int) -> _End:
        inside = expr.args[0] if not expr.is_Pow else expr.base
        end = self.extreme(inside, sign)
        z = sympy.Symbol("z", real=True)
        outer = expr.func(z) if not expr.is_Pow else sympy.sqrt(z)
        begins_at_zero = expr.is_Pow or isinstance(expr, sympy.log)
        # An inner function without a finite bound may be undefined somewhere; a bounded outer one must not hide that.
        if not np.isfinite(end.upper) or (begins_at_zero and not self._never_negative(inside)):
            return _End(np.inf, end.at)
        edge = sign * end.upper
        lo, hi = self._outer(z, outer, edge, edge)
        return _End(hi if sign > 0 else -lo, end.at)

    def _never_negative(self, inside: sympy.Expr) -> bool:
        names = tuple(name for name in self.box if name in {str(s) for s in inside.free_symbols})
        tape = compile_tape([inside], names)
        ends = np.array([self.box[name] for name in names]).reshape(-1, 2)
        quick = tape.forward(ends[:, :1], ends[:, 1:])[tape.outputs[0]][0][0] >= 0
        return bool(quick) or -self.extreme(inside, -1).upper >= 0

    def _product(self, groups: Sequence[sympy.Expr], sign: int) -> _End:
        """Independent factors take all their values together, so the ends of the product are products of ends."""
        lo = hi = (1.0, {})  # type: ignore[var-annotated]
        for part in groups:
            high, low = self.extreme(part, +1), self.extreme(part, -1)
            if not (np.isfinite(high.upper) and np.isfinite(low.upper)):
                return _End(np.inf, {**hi[1], **high.at})
            choices = []
            for (a, at_a), (b, at_b) in itertools.product((lo, hi), ((-low.upper, low.at), (high.upper, high.at))):
                product = iv.multiply((np.array([a]), np.array([a])), (np.array([b]), np.array([b])))
                choices.append((float(product[0][0]), float(product[1][0]), {**at_a, **at_b}))
            least, most = min(choices, key=lambda c: c[0]), max(choices, key=lambda c: c[1])
            lo, hi = (least[0], least[2]), (most[1], most[2])
        return _End(hi[0], hi[1]) if sign > 0 else _End(-lo[0], lo[1])


def _joined(points: Any) -> dict[str, float]:
    return {name: value for at in points for name, value in at.items()}


def _independent(expr: sympy.Expr) -> list[sympy.Expr]:
    """Terms (or factors) gathered into groups that share no variables; constants go with the first group."""
    groups: list[tuple[set[Any], list[sympy.Expr]]] = []
    for arg in expr.args:
        names, members = set(arg.free_symbols), [arg]
        for group in [g for g in groups if g[0] & names]:
            groups.remove(group)
            names |= group[0]
            members = group[1] + members
        groups.append((names, members))
    return [expr.func(*members) for _, members in groups]


def _forms(expr: sympy.Expr) -> list[sympy.Expr]:
    """Ways of writing the same function: they differ in how much their intervals overestimate."""
    forms = [expr]
    if tree_size(expr) > 600 or _terms_when_expanded(expr) > 1000:
        return forms
    symbols = sorted(expr.free_symbols, key=str)
    try:
        expanded = sympy.expand(expr)
        forms.append(expanded)
        if expr.is_polynomial(*symbols) and tree_size(expanded) < 1000:
            forms += [sympy.horner(expanded), sympy.factor(expanded)]
    except (sympy.PolynomialError, NotImplementedError):
        pass
    return list(dict.fromkeys(forms))


def _terms_when_expanded(expr: sympy.Expr) -> float:
    """About how many terms multiplying out would give: powers of sums grow beyond all bounds."""
    inside = [_terms_when_expanded(arg) for arg in expr.args]
    if expr.is_Add:
        return sum(inside)
    if expr.is_Mul:
        return math.prod(inside)
    if expr.is_Pow and expr.exp.is_Integer and inside[0] > 1:
        return math.comb(int(min(inside[0], 1e4)) + abs(int(expr.exp)) - 1, abs(int(expr.exp)))
    return max(inside, default=1)


@dataclass
class _Search:
    """Branch and bound for the supremum of sign·expr over the variables it has."""

    expr: sympy.Expr
    whole: Mapping[str, tuple[float, float]]
    sign: int
    limits: Limits

    def __post_init__(self) -> None:
        present = {str(s) for s in self.expr.free_symbols}
        self.names = tuple(name for name in self.whole if name in present)
        self.symbols = tuple(sympy.Symbol(name, real=True) for name in self.names)
        self.lo = np.array([self.whole[name][0] for name in self.names])
        self.hi = np.array([self.whole[name][1] for name in self.names])
        self.goal = self.sign * self.expr
        forms = [compile_tape([form], self.names) for form in _forms(self.goal)]
        self.tapes = self._useful(forms)
        if forms[0] not in self.tapes and any(step.name in PARTIAL for step in forms[0].steps):
            self.tapes.append(forms[0])  # where the function as given is undefined, so is its supremum
        self.curvature: Tape | None = self._curvature()
        self.curved = [0, 0]
        self.lower, self.at = -np.inf, (self.lo + self.hi) / 2
        self.scale = _scale(self.expr, {name: self.whole[name] for name in self.names})

    def _curvature(self) -> Tape | None:
        if tree_size(self.goal) > 800 or function_depth(self.goal) > 3:
            return None
        first = [sympy.diff(self.goal, s) for s in self.symbols]
        if max(tree_size(e) for e in first) > 2000:
            return None
        second = [sympy.diff(e, s) for e, s in zip(first, self.symbols)]
        if any(e.has(sympy.DiracDelta, sympy.Derivative) for e in second):
            return None
        return compile_tape(second, self.names)

    def _useful(self, tapes: list[Tape]) -> list[Tape]:
        """Keep the ways of writing that are tightest somewhere, judged on random boxes of three sizes."""
        if len(tapes) == 1:
            return tapes
        rng = np.random.default_rng(11)
        share = np.repeat([0.5, 0.1, 0.02], 20)
        width = (self.hi - self.lo)[:, None] * share
        lo = self.lo[:, None] + rng.random((len(self.names), len(share))) * ((self.hi - self.lo)[:, None] - width)
        tops = np.array([tape.forward(lo, lo + width)[tape.outputs[0]][1] for tape in tapes])
        best = tops.min(axis=0)
        clear = 0.02 * np.abs(best - tops.max(axis=0).clip(-1e300, 1e300)) + 1e-9 * np.abs(best)
        wins = [int((top <= best + clear).sum()) for top in tops]
        order = sorted(range(len(tapes)), key=lambda i: (-wins[i], len(tapes[i].steps)))
        kept, covered = [tapes[order[0]]], tops[order[0]] <= best + clear
        for i in order[1:]:
            helps = (tops[i] <= best + clear) & ~covered
            if helps.sum() >= 3:
                kept.append(tapes[i])
                covered |= helps
        return kept

    def run(self) -> _End:
        self._local_search()
        boxes = _Boxes(len(self.names))
        boxes.put(*self._bounded(self.lo[:, None], self.hi[:, None], np.array([np.inf])))
        while not self.limits.over and len(boxes) and boxes.count < MOST_BOXES:
            if boxes.top <= self.lower + self._slack():
                break
            lo, hi, top, dim, ends = boxes.pop(BATCH, self.lower)
            if not top.size:
                break
            children = self._split(lo, hi, top, dim, ends)
            self.limits.used += top.size
            boxes.put(*self._bounded(*children))
        return _End(max(boxes.top, self.lower), dict(zip(self.names, self.at.tolist())))

    def _slack(self) -> float:
        return 0.9 * self.limits.tolerance * max(abs(self.lower), self.scale) if np.isfinite(self.lower) else 0.0

    def _split(self, lo: np.ndarray, hi: np.ndarray, top: np.ndarray, dim: np.ndarray, ends: np.ndarray) -> Any:
        """Two halves along one variable, or its two ends where the function is convex along it."""
        column = np.arange(len(top))
        middle = lo[dim, column] / 2 + hi[dim, column] / 2
        left_hi, right_lo = hi.copy(), lo.copy()
        left_hi[dim, column] = np.where(ends, lo[dim, column], middle)
        right_lo[dim, column] = np.where(ends, hi[dim, column], middle)
        return np.hstack([lo, right_lo]), np.hstack([left_hi, hi]), np.hstack([top, top])

    def _bounded(self, lo: np.ndarray, hi: np.ndarray, top: np.ndarray) -> Any:
        """Shrink boxes where slopes allow it, bound them, and choose where to split each next."""
        value, slopes = self._enclose(lo, hi)
        lo, hi, keep, moved = self._push(lo, hi, slopes)
        if moved.any():
            again = self._enclose(lo[:, moved], hi[:, moved])
            value[moved] = np.minimum(value[moved], again[0])
            slopes[0][:, moved], slopes[1][:, moved] = again[1]
        top = np.minimum(top, value)
        keep &= ~(top <= self.lower)
        lo, hi, top, slopes = lo[:, keep], hi[:, keep], top[keep], (slopes[0][:, keep], slopes[1][:, keep])
        if not top.size:
            return lo, hi, top, np.zeros(0, dtype=int), np.zeros(0, dtype=bool)
        top = np.minimum(top, self._mean_value(lo, hi, slopes))
        dim, ends = self._next_split(lo, hi, slopes)
        return lo, hi, top, dim, ends

    def _enclose(self, lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, Interval]:
        top, undefined = np.full(lo.shape[1], np.inf), np.zeros(lo.shape[1], dtype=bool)
        low, high = np.full(lo.shape, -np.inf), np.full(lo.shape, np.inf)
        for tape in self.tapes:
            values = tape.forward(lo, hi)
            top = np.minimum(top, values[tape.outputs[0]][1])
            undefined |= tape.undefined(values)
            slopes = tape.slopes(values)
            useful = tape.continuous(values)
            low = np.maximum(low, np.where(useful, slopes[0], -np.inf))
            high = np.minimum(high, np.where(useful, slopes[1], np.inf))
        # One way of writing may have cancelled what another one divides by: undefined in any of them is undefined.
        low, high = np.where(undefined, -np.inf, low), np.where(undefined, np.inf, high)
        return np.where(undefined, np.inf, top), (low, high)

    def _push(self, lo: np.ndarray, hi: np.ndarray, slopes: Interval) -> Any:
        """Move boxes to the end a variable rises to; drop those whose rise leads into the box next door."""
        wide = lo < hi
        rises, falls = wide & (slopes[0] >= 0), wide & (slopes[1] <= 0)
        # A maximum inside the whole box has slope zero, so a box that rises strictly towards a neighbour holds none.
        inner_top, inner_bottom = hi < self.hi[:, None], lo > self.lo[:, None]
        leads_away = (rises & (slopes[0] > 0) & inner_top) | (falls & (slopes[1] < 0) & inner_bottom)
        moved = rises | falls
        return np.where(rises, hi, lo), np.where(falls & ~rises, lo, hi), ~leads_away.any(axis=0), moved.any(axis=0)

    def _mean_value(self, lo: np.ndarray, hi: np.ndarray, slopes: Interval) -> np.ndarray:
        """f(x) ≤ f(c) + Σ slope·(x − c), around the centre c for which that bound is least; f(c) may raise the lower end."""
        low, high = slopes
        with np.errstate(all="ignore"):
            centre = (np.maximum(high, 0) * hi - np.minimum(low, 0) * lo) / (np.maximum(high, 0) - np.minimum(low, 0))
        centre = np.clip(np.where(np.isfinite(centre), centre, lo / 2 + hi / 2), lo, hi)
        values = self._values_at(centre)
        best = int(np.argmax(values[0]))
        if values[0][best] > self.lower:
            self.lower, self.at = float(values[0][best]), centre[:, best].copy()
        total = (values[1], values[1])
        with np.errstate(all="ignore"):
            for j in range(len(lo)):
                step = iv.add((lo[j], hi[j]), (-centre[j], -centre[j]))
                total = iv.add(total, iv.multiply((low[j], high[j]), step))
        return np.where(np.isnan(total[1]), np.inf, total[1])

    def _next_split(self, lo: np.ndarray, hi: np.ndarray, slopes: Interval) -> tuple[np.ndarray, np.ndarray]:
        """The variable whose slopes leave most open; one along which the function is convex first, and then only at its ends."""
        width = hi - lo
        with np.errstate(all="ignore"):
            open_ = np.where(width > 0, np.maximum(np.abs(slopes[0]), np.abs(slopes[1])) * width, -1.0)
        open_ = np.where(np.isfinite(open_), open_, 1e300 * np.minimum(width, 1.0))
        convex = self._convex(lo, hi) & (width > 0)
        any_convex = convex.any(axis=0)
        dim = np.argmax(np.where(any_convex & ~convex, -1.0, open_), axis=0)
        return dim, any_convex

    def _convex(self, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        if self.curvature is None:
            return np.zeros(lo.shape, dtype=bool)
        values, plain = self.curvature.forward(lo, hi), self.tapes[0]
        convex = np.array([np.broadcast_to(values[place][0] >= 0, lo.shape[1:]) for place in self.curvature.outputs])
        convex &= plain.continuous(plain.forward(lo, hi))
        self.curved[0] += int(convex.any(axis=0).sum())
        self.curved[1] += lo.shape[1]
        if self.curved[1] > 20_000 and self.curved[0] < self.curved[1] // 50:
            self.curvature = None  # hardly ever convex: not worth its time
        return convex

    def _local_search(self) -> None:
        """Random points and corners, then ascent from the best of them."""
        evaluate = compile_numpy([self.goal], self.symbols)
        rng = np.random.default_rng(3)
        spread = rng.random((len(self.names), 4096))
        corners = rng.integers(0, 2, (len(self.names), 1024)).astype(float)
        points = self.lo[:, None] + np.hstack([spread, corners]) * (self.hi - self.lo)[:, None]
        values = np.broadcast_to(evaluate(*points)[0], points.shape[1:])
        values = np.where(np.isfinite(values), values, -np.inf)
        starts = points[:, np.argsort(-values)[:6]]
        found = [starts] + [self._ascend(evaluate, starts[:, i])[:, None] for i in range(starts.shape[1])]
        self._consider(np.hstack(found))

    def _ascend(self, evaluate: Callable[..., list[np.ndarray]], start: np.ndarray) -> np.ndarray:
        def cost(x: np.ndarray) -> float:
            value = float(evaluate(*x)[0])
            return -value if np.isfinite(value) else 1e300

        result = minimize(cost, start, method="L-BFGS-B", bounds=list(zip(self.lo, self.hi)), options={"maxiter": 200})
        return np.clip(result.x, self.lo, self.hi)

    def _values_at(self, points: np.ndarray) -> Interval:
        """Enclosures at points; the whole line where some way of writing the function has no value there."""
        tape = self.tapes[0]
        steps = tape.forward(points, points)
        undefined = tape.undefined(steps)
        for other in self.tapes[1:]:
            undefined |= other.undefined(other.forward(points, points))
        lo, hi = steps[tape.outputs[0]]
        return np.where(undefined, -np.inf, lo), np.where(undefined, np.inf, hi)

    def _consider(self, points: np.ndarray) -> None:
        values = self._values_at(points)[0]
        best = int(np.argmax(values))
        if values[best] > self.lower:
            self.lower, self.at = float(values[best]), points[:, best].copy()


class _Boxes:
    """Open boxes with their upper ends, the highest first; places that become free are used again."""

    def __init__(self, variables: int):
        self.lo, self.hi = np.empty((variables, 1024)), np.empty((variables, 1024))
        self.top = -np.inf
        self.tops = np.full(1024, -np.inf)
        self.dim, self.ends = np.zeros(1024, dtype=int), np.zeros(1024, dtype=bool)
        self.free = list(range(1023, -1, -1))
        self.stuck = -np.inf

    @property
    def count(self) -> int:
        return len(self.tops) - len(self.free)

    def __len__(self) -> int:
        return self.count

    def put(self, lo: np.ndarray, hi: np.ndarray, top: np.ndarray, dim: np.ndarray, ends: np.ndarray) -> None:
        # A box too small to split stays as it is: its upper end is final.
        column = np.arange(top.size)
        middle = lo[dim, column] / 2 + hi[dim, column] / 2 if top.size else np.zeros(0)
        final = ~ends & ((middle <= lo[dim, column]) | (middle >= hi[dim, column])) if top.size else np.zeros(0, dtype=bool)
        if final.any():
            self.stuck = max(self.stuck, float(top[final].max()))
        lo, hi, top, dim, ends = lo[:, ~final], hi[:, ~final], top[~final], dim[~final], ends[~final]
        while len(self.free) < top.size:
            self._grow()
        places = np.array([self.free.pop() for _ in range(top.size)], dtype=int)
        self.lo[:, places], self.hi[:, places], self.tops[places] = lo, hi, top
        self.dim[places], self.ends[places] = dim, ends
        self.top = max(float(self.tops.max()), self.stuck)

    def _grow(self) -> None:
        size = len(self.tops)
        self.free.extend(range(2 * size - 1, size - 1, -1))
        self.lo, self.hi = np.hstack([self.lo, np.empty_like(self.lo)]), np.hstack([self.hi, np.empty_like(self.hi)])
        self.tops = np.concatenate([self.tops, np.full(size, -np.inf)])
        self.dim, self.ends = np.concatenate([self.dim, self.dim]), np.concatenate([self.ends, self.ends])

    def pop(self, most: int, lower: float) -> Any:
        """The boxes with the highest upper ends; those that cannot beat the lower end are forgotten."""
        dead = np.flatnonzero((self.tops > -np.inf) & (self.tops <= lower))
        self.tops[dead] = -np.inf
        self.free.extend(dead.tolist())
        if len(self.tops) > most:
            chosen = np.argpartition(-self.tops, most)[:most]
        else:
            chosen = np.arange(len(self.tops))
        chosen = chosen[self.tops[chosen] > -np.inf]
        taken = (self.lo[:, chosen], self.hi[:, chosen], self.tops[chosen], self.dim[chosen], self.ends[chosen])
        self.tops[chosen] = -np.inf
        self.free.extend(chosen.tolist())
        return taken
