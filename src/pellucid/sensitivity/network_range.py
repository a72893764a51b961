"""The largest value of a feed-forward network over the declared records, by linear relaxation with splits.

Over a box, each activation lies between two lines of its input. Substituting the lines from the last layer back to the
first gives one linear function of the encoded record above the network's output; its maximum over the box is taken
feature by feature, level by level for categories, and is a bound. Boxes with the largest bounds are split until the bound
meets the best record found. A linear model is a network without activations. Every rounding of these computations, and
of the network's own, is bounded by n·u·Σ|w||x| and added.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logsumexp

from ..public.fitted.encoding import Encoding
from .tree_range import Found

BATCH = 128
TUNING_STEPS = 4
ULP = 2.0**-53
TINY = 1e-290
"""More than all underflow of a sum of fewer than 10^15 terms."""
FUNCTION_ERROR = 2.0**-48
"""Covers the platform's tanh and logistic function at 16 units in the last place."""


def gamma(n: int, unit: float = ULP) -> float:
    """Relative error of n roundings in a row; the last factor covers the rounding of this very number."""
    return n * unit / (1 - n * unit) * (1 + 2.0**-40)


@dataclass(frozen=True)
class Layers:
    """z1 = W1 e + b1, h1 = act(z1), …; the raw outputs are the last z. `unit` is the rounding of the model's own arithmetic."""

    weights: tuple[np.ndarray, ...]
    offsets: tuple[np.ndarray, ...]
    activation: str
    unit: float = ULP

    def forward(self, encoded: np.ndarray) -> np.ndarray:
        values = encoded
        for k, (weight, offset) in enumerate(zip(self.weights, self.offsets)):
            values = values @ weight.T + offset
            if k < len(self.weights) - 1:
                values = ACTIVATIONS[self.activation](values)
        return values


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "identity": lambda z: z,
    "relu": lambda z: np.maximum(z, 0.0),
    "tanh": np.tanh,
    "logistic": expit,
}


@dataclass(frozen=True)
class Goal:
    """What is maximised: `total`, which never decreases in any of the outputs `select @ raw`."""

    select: np.ndarray
    total: Callable[[np.ndarray], np.ndarray]


def single_output(sign: int) -> Goal:
    return Goal(np.array([[float(sign)]]), lambda outputs: outputs[..., 0])


def log_odds_output(k: int, classes: int, sign: int) -> Goal:
    """±log(p / (1 − p)) of the softmax probability of class k, from the differences of raw outputs."""
    rows = [j for j in range(classes) if j != k]
    select = np.zeros((classes - 1, classes))
    for row, j in enumerate(rows):
        select[row, k], select[row, j] = sign, -sign
    return Goal(select, lambda outputs: -sign * logsumexp(-sign * outputs, axis=-1))


@dataclass
class Boxes:
    """Several boxes at once: ends of intervals, as positions, and flags of separate points, for every feature."""

    lo: np.ndarray
    hi: np.ndarray
    points: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.lo)

    def take(self, rows: Sequence[int] | np.ndarray) -> Boxes:
        return Boxes(self.lo[rows], self.hi[rows], [p[rows] for p in self.points])


def stacked(parts: Sequence[Boxes]) -> Boxes:
    return Boxes(
        np.concatenate([p.lo for p in parts]),
        np.concatenate([p.hi for p in parts]),
        [np.concatenate(same) for same in zip(*(p.points for p in parts))],
    )


class Inputs:
    """Linear functions of the encoded record, maximised over boxes of declared records."""

    def __init__(self, encoding: Encoding):
        self.encoding, self.domains = encoding, encoding.domains
        self.tables = [encoding.table(j).astype(float) for j in range(len(self.domains))]
        # Numbers with one column and no separate value are maximised together; the others one by one.
        plain = [len(of) == 1 and d.interval and not len(d.points) for of, d in zip(encoding.of, self.domains)]
        self._plain = np.flatnonzero(plain)
        self._plain_columns = np.array([encoding.of[j][0] for j in self._plain], dtype=int)
        self._others = [(j, of) for j, of in enumerate(encoding.of) if of and not plain[j]]

    def everything(self) -> Boxes:
        # An empty interval is written as lo > hi.
        lo = np.array([[d.lo if d.interval else 1.0 for d in self.domains]])
        hi = np.array([[d.hi if d.interval else 0.0 for d in self.domains]])
        return Boxes(lo, hi, [np.ones((1, len(d.points)), dtype=bool) for d in self.domains])

    def ends(self, boxes: Boxes) -> tuple[np.ndarray, np.ndarray]:
        """Encoded ends of the intervals; columns are monotone, so encoded records lie between them."""
        usable = np.array([d.interval for d in self.domains]) & (boxes.lo <= boxes.hi)
        start = self.encoding.base(len(boxes))
        both = self.encoding(np.concatenate([np.where(usable, side, start) for side in (boxes.lo, boxes.hi)])).astype(float)
        return both[: len(boxes)], both[len(boxes) :]

    def size(self, boxes: Boxes) -> np.ndarray:
        """The largest magnitude of every encoded column over one box."""
        low, high = (v[0] for v in self.ends(boxes))
        size = np.zeros(len(low))
        for j, columns in enumerate(self.encoding.of):
            if boxes.lo[0, j] <= boxes.hi[0, j]:
                size[columns] = np.maximum(np.abs(low[columns]), np.abs(high[columns]))
            if boxes.points[j].any():
                size[columns] = np.maximum(size[columns], np.abs(self.tables[j][boxes.points[j][0]]).max(axis=0))
        return size

    def tops(self, forms: np.ndarray, boxes: Boxes, ends: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """The largest share of each feature in linear forms (boxes, forms, columns) → (boxes, forms, features)."""
        made = np.zeros((*forms.shape[:2], len(self.domains)))
        low, high = (v[:, None, :] for v in ends)
        part, columns = forms[:, :, self._plain_columns], self._plain_columns
        made[:, :, self._plain] = np.maximum(part * low[:, :, columns], part * high[:, :, columns])
        for j, of in self._others:
            made[:, :, j] = self._top(forms[:, :, of], j, boxes, low[:, :, of], high[:, :, of])
        return made

    def _top(self, part: np.ndarray, j: int, boxes: Boxes, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        best = np.full(part.shape[:2], -np.inf)
        if self.domains[j].interval:
            inside = (boxes.lo[:, j] <= boxes.hi[:, j])[:, None]
            best = np.where(inside, np.maximum(part * low, part * high).sum(axis=2), -np.inf)
        if len(self.domains[j].points):
            each = np.where(boxes.points[j][:, None, :], part @ self.tables[j].T, -np.inf)
            best = np.maximum(best, each.max(axis=2))
        return best

    def corners(self, forms: np.ndarray, boxes: Boxes, ends: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """For each box a record where its linear form is largest, and that record encoded."""
        records, encoded = self.encoding.base(len(boxes)), ends[0].copy()
        for j, columns in enumerate(self.encoding.of):
            part = forms[:, columns]
            at_lo, at_hi = (part * ends[0][:, columns]).sum(axis=1), (part * ends[1][:, columns]).sum(axis=1)
            upper = at_hi > at_lo
            inside = boxes.lo[:, j] <= boxes.hi[:, j]
            records[:, j] = np.where(upper, boxes.hi[:, j], boxes.lo[:, j])
            encoded[:, columns] = np.where(upper[:, None], ends[1][:, columns], ends[0][:, columns])
            if len(self.domains[j].points):
                each = np.where(boxes.points[j], part @ self.tables[j].T, -np.inf)
                best = each.argmax(axis=1)
                taken = ~inside | (each.max(axis=1) > np.where(upper, at_hi, at_lo))
                records[:, j] = np.where(taken, self.domains[j].points[best], records[:, j])
                encoded[:, columns] = np.where(taken[:, None], self.tables[j][best], encoded[:, columns])
        return records, encoded

    def halves(self, box: Boxes, j: int, form: np.ndarray) -> list[Boxes]:
        """One box cut in two at feature j, or nothing when it holds a single value there."""
        has_interval, held = box.lo[0, j] <= box.hi[0, j], np.flatnonzero(box.points[j][0])
        if has_interval and len(held):
            return [_with(box, j, points=()), _with(box, j, interval=(1.0, 0.0))]
        if has_interval:
            lo, hi = float(box.lo[0, j]), float(box.hi[0, j])
            middle = min(max((lo + hi) / 2, lo), hi)
            if self.domains[j].integer:
                middle = math.floor(middle)
            upper = middle + 1.0 if self.domains[j].integer else middle
            if lo == hi or (not self.domains[j].integer and middle in (lo, hi)):
                return []
            return [_with(box, j, interval=(lo, middle)), _with(box, j, interval=(upper, hi))]
        if len(held) < 2:
            return []
        order = held[np.argsort(self.tables[j][held] @ form[self.encoding.of[j]])]
        return [_with(box, j, points=part) for part in np.array_split(order, 2)]


def _with(
    box: Boxes, j: int, interval: tuple[float, float] | None = None, points: Sequence[int] | np.ndarray | None = None
) -> Boxes:
    made = Boxes(box.lo.copy(), box.hi.copy(), list(box.points))
    if interval is not None:
        made.lo[0, j], made.hi[0, j] = interval
    if points is not None:
        flags = np.zeros_like(box.points[j])
        flags[0, list(points)] = True
        made.points[j] = flags
    return made


@dataclass
class Bounded:
    """Bounds of several boxes: of the goal, the linear forms behind them, and how much splitting each feature may help."""

    bound: np.ndarray
    forms: np.ndarray
    help: np.ndarray
    ends: tuple[np.ndarray, np.ndarray]


class Relaxation:
    """Upper bounds of a goal over boxes."""

    def __init__(self, layers: Layers, inputs: Inputs, goal: Goal):
        self.inputs, self.goal = inputs, goal
        self.activation = layers.activation
        last, shift = layers.weights[-1], layers.offsets[-1]
        # One rounding per difference of two outputs; `magnitude` below uses the terms themselves.
        self.weights = [*layers.weights[:-1], goal.select @ last]
        self.offsets = [*layers.offsets[:-1], goal.select @ shift]
        sizes = [*(np.abs(w) for w in layers.weights[:-1]), np.abs(goal.select) @ np.abs(last)]
        shifts = [*(np.abs(b) for b in layers.offsets[:-1]), np.abs(goal.select) @ np.abs(shift)]
        self._magnitudes(sizes, shifts, layers.unit)

    def _magnitudes(self, sizes: list[np.ndarray], shifts: list[np.ndarray], unit: float) -> None:
        """|W||x| + |b| over the whole box for every layer, and the error of the network's own evaluation."""
        held = self.inputs.size(self.inputs.everything())
        error = np.zeros(len(held))
        self.magnitude: list[np.ndarray] = []
        for weight, shift in zip(sizes, shifts):
            grown = (weight @ (held + error) + shift) * (1 + 2.0**-30)
            self.magnitude.append(grown)
            error = (weight @ error + gamma(weight.shape[1] + 4, unit) * grown) * (1 + 2.0**-30) + TINY
            function = FUNCTION_ERROR if unit == ULP else 2.0**-19
            error = error + (function if self.activation in ("tanh", "logistic") else 0.0)
            held = np.minimum(grown, 1.0 + 2.0**-30) if self.activation in ("tanh", "logistic") else grown
        self.evaluation_error = float(error.max())

    def __call__(self, boxes: Boxes) -> Bounded:
        ends = self.inputs.ends(boxes)
        lower: list[np.ndarray] = []
        upper: list[np.ndarray] = []
        lines: list[tuple[np.ndarray, ...]] = []
        helps = np.zeros((len(boxes), len(self.inputs.domains)))
        spreads: list[np.ndarray] = []
        for k in range(len(self.weights) - 1):
            both = np.concatenate([np.eye(len(self.offsets[k])), -np.eye(len(self.offsets[k]))])
            bound, _, shares, _ = self._back(k, both, lines, boxes, ends)
            n = len(self.offsets[k])
            high, low = bound[:, :n], -bound[:, n:]
            if k:
                inner_high, inner_low = self._straight(k, lower, upper)
                high, low = np.minimum(high, inner_high), np.maximum(low, inner_low)
            spreads.append(shares[:, :n] + shares[:, n:])
            lower.append(low)
            upper.append(high)
            lines.append(relaxed(self.activation, low, high))
        bound, forms, shares, passed = self._tuned(lines, boxes, ends)
        # Outputs that are largest at different records leave a gap that no activation accounts for.
        apart = 1.0 if len(self.offsets[-1]) > 1 or not lines else 1e-6
        helps += apart * (shares + self.inputs.tops(-forms, boxes, ends)).sum(axis=1)
        if lines:
            straight, _ = self._straight(len(self.weights) - 1, lower, upper)
            bound = np.minimum(bound, straight)
        for k, through in enumerate(passed):
            gap = _gap(lines[k], lower[k], upper[k])
            width = np.maximum(upper[k] - lower[k], 1e-300)
            helps += np.einsum("bn,bnj->bj", np.abs(through).sum(axis=1) * gap / width, spreads[k])
        return Bounded(self.goal.total(bound), forms, helps, ends)

    def _tuned(
        self, lines: list[tuple[np.ndarray, ...]], boxes: Boxes, ends: tuple[np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
        """The last layer's bound, with the free slopes under the ReLUs improved step by step; any slope in [0, 1] is sound."""
        start = np.eye(len(self.offsets[-1]))
        best = self._back(len(self.weights) - 1, start, lines, boxes, ends)
        if self.activation != "relu" or len(start) > 1:
            return best
        tried, now, step = lines, best, 1.0
        for _ in range(TUNING_STEPS if lines else 0):
            _, encoded = self.inputs.corners(now[1][:, 0], boxes, ends)
            tried = self._steeper(tried, now[3], encoded, step)
            now = self._back(len(self.weights) - 1, start, tried, boxes, ends)
            better = now[0][:, 0] < best[0][:, 0]
            best = (
                np.where(better[:, None], now[0], best[0]),
                np.where(better[:, None, None], now[1], best[1]),
                np.where(better[:, None, None], now[2], best[2]),
                best[3],
            )
            step *= 0.7
        return best

    def _steeper(
        self, lines: list[tuple[np.ndarray, ...]], passed: list[np.ndarray], encoded: np.ndarray, step: float
    ) -> list[tuple[np.ndarray, ...]]:
        """Lower slopes moved against the gradient of the bound at the record where the linear form is largest."""
        made: list[tuple[np.ndarray, ...]] = []
        values = encoded
        for k, (slope_low, rise_low, slope_high, rise_high) in enumerate(lines):
            z = values @ self.weights[k].T + self.offsets[k]
            through = passed[k][:, 0]
            free = (slope_high > 0) & (slope_high < 1) & (through < 0)
            pull = np.where(free, through * z, 0.0)
            size = np.abs(pull).max(axis=1, keepdims=True)
            slope = np.clip(slope_low - step * pull / np.maximum(size, 1e-300), 0.0, 1.0)
            made.append((slope, rise_low, slope_high, rise_high))
            values = np.where(through > 0, slope_high * z + rise_high, slope_low * z)
        return made

    def _straight(self, k: int, lower: list[np.ndarray], upper: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of layer k from the bounds of the layer before it alone."""
        act = ACTIVATIONS[self.activation]
        low, high = act(lower[k - 1]), act(upper[k - 1])
        if self.activation in ("tanh", "logistic"):
            low, high = low - FUNCTION_ERROR, high + FUNCTION_ERROR
        weight = self.weights[k]
        positive, negative = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
        pad = gamma(2 * weight.shape[1] + 8) * self.magnitude[k]
        top = high @ positive.T + low @ negative.T + self.offsets[k] + pad
        bottom = low @ positive.T + high @ negative.T + self.offsets[k] - pad
        return top, bottom

    def _back(
        self, k: int, start: np.ndarray, lines: list[tuple[np.ndarray, ...]], boxes: Boxes, ends: tuple[np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
        """Upper bounds of `start @ z_k`, the linear forms of the record behind them, shares per feature, forms of each layer."""
        forms = np.broadcast_to(start @ self.weights[k], (len(boxes), len(start), self.weights[k].shape[1]))
        shift = np.broadcast_to(start @ self.offsets[k], (len(boxes), len(start))).copy()
        error = np.broadcast_to(gamma(len(self.offsets[k]) + 4) * (np.abs(start) @ self.magnitude[k]), shift.shape).copy()
        passed: list[np.ndarray] = []
        for i in range(k - 1, -1, -1):
            slope_low, rise_low, slope_high, rise_high = (v[:, None, :] for v in lines[i])
            up = forms > 0
            sloped = forms * np.where(up, slope_high, slope_low)
            risen = forms * np.where(up, rise_high, rise_low)
            passed.insert(0, forms)
            n = forms.shape[2]
            grown = np.abs(sloped) @ self.magnitude[i] + np.abs(risen).sum(axis=2) + np.abs(shift)
            error += gamma(3 * n + 8) * grown
            shift = shift + risen.sum(axis=2) + sloped @ self.offsets[i]
            forms = sloped @ self.weights[i]
        shares = self.inputs.tops(forms, boxes, ends)
        size = np.abs(forms) @ self._input_size() + np.abs(shift)
        error += gamma(2 * forms.shape[2] + 8) * size
        return shares.sum(axis=2) + shift + (error * (1 + 2.0**-30) + TINY), forms, shares, passed

    def _input_size(self) -> np.ndarray:
        if not hasattr(self, "_size"):
            self._size = self.inputs.size(self.inputs.everything())
        return self._size


def _gap(lines: tuple[np.ndarray, ...], lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    slope_low, rise_low, slope_high, rise_high = lines
    middle = (lower + upper) / 2
    return np.maximum((slope_high - slope_low) * middle + rise_high - rise_low, 0.0)


def relaxed(activation: str, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, ...]:
    """Lines under and over the activation between low and high: (slope, rise) below, (slope, rise) above."""
    if activation == "identity":
        one, zero = np.ones_like(low), np.zeros_like(low)
        return one, zero, one, zero
    if activation == "relu":
        return _relu_lines(low, high)
    return _sigmoid_lines(activation, low, high)


def _relu_lines(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, ...]:
    mixed = (low < 0) & (high > 0)
    slope = np.where(mixed, high / np.where(mixed, high - low, 1.0), (low >= 0).astype(float))
    slope = np.clip(slope, 0.0, 1.0)
    # Any slope will do; the rise must clear both ends, with what rounding could hide.
    rise = np.maximum(-slope * low, high - slope * high) + 8 * ULP * np.maximum(np.abs(low), np.abs(high))
    under = np.where(mixed, (high >= -low).astype(float), slope)
    return under, np.zeros_like(low), slope, np.where(mixed, rise, 0.0)


def _slope_of(activation: str, z: np.ndarray) -> np.ndarray:
    return 1 - np.tanh(z) ** 2 if activation == "tanh" else expit(z) * expit(-z)


def _sigmoid_lines(activation: str, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, ...]:
    above, rise_above = _line_over(activation, low, high)
    # Both functions are symmetric about a point, so a line below is a line above, turned round.
    below, rise = _line_over(activation, -high, -low)
    top = 0.0 if activation == "tanh" else 1.0
    return below, top - rise, above, rise_above


def _line_over(activation: str, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A slope, chosen well, and the rise that lifts the line over the function everywhere between low and high.

    Soundness needs the rise alone: function − slope·z is largest at an end or where the function has that slope.
    """
    act = ACTIVATIONS[activation]
    width = np.maximum(high - low, 1e-300)
    chord = np.where(width > 1e-9, (act(high) - act(low)) / width, _slope_of(activation, high))
    left, right = np.maximum(low, 0.0), np.maximum(high, 0.0)
    for _ in range(12):  # where a tangent through the lower end touches
        middle = (left + right) / 2
        beyond = act(middle) - _slope_of(activation, middle) * (middle - low) > act(low)
        left, right = np.where(beyond, left, middle), np.where(beyond, middle, right)
    tangent = np.where(low >= 0, _slope_of(activation, (low + high) / 2), _slope_of(activation, right))
    slope = np.where((high <= 0) | ((low < 0) & (_slope_of(activation, high) >= chord)), chord, tangent)
    slope = np.clip(slope, 0.0, 1.0 if activation == "tanh" else 0.25)
    slope = np.where(slope < 1e-9, 0.0, slope)
    steep = np.sqrt(np.maximum(1 - slope * (1 if activation == "tanh" else 4), 0.0))
    touch = np.arctanh(np.minimum(steep, 1 - ULP)) * (1 if activation == "tanh" else 2)
    rise = np.maximum(act(low) - slope * low, act(high) - slope * high)
    for z in (touch, -touch):
        rise = np.where((z > low) & (z < high), np.maximum(rise, act(z) - slope * z), rise)
    return slope, rise + 2.0**-44 * (1 + slope * np.maximum(np.abs(low), np.abs(high)))


class Search:
    """Branch and bound for one goal. `shown` turns its values into outputs, in which the gap is judged."""

    def __init__(self, layers: Layers, inputs: Inputs, goal: Goal, shown: Callable[[float], float], gap: float, deadline: float):
        self.layers, self.inputs, self.goal = layers, inputs, goal
        self.relaxation = Relaxation(layers, inputs, goal)
        self.shown, self.gap, self.deadline = shown, gap, deadline
        self.value, self.witness = -np.inf, self.inputs.encoding.base(1)[0]
        self.slack = 8 * self.relaxation.evaluation_error

    def run(self) -> Found:
        self._offer(self.inputs.encoding.sample(2048))
        ticket = itertools.count()
        splits, closed = 0, -np.inf
        regions: list[tuple[float, int, Boxes, np.ndarray, np.ndarray]] = []

        def add(boxes: Boxes, limits: np.ndarray) -> None:
            made = self.relaxation(boxes)
            bounds = np.minimum(made.bound, limits)
            forms = made.forms.mean(axis=1)
            self._offer(*self.inputs.corners(forms, boxes, made.ends))
            for b in range(len(boxes)):
                heapq.heappush(regions, (-float(bounds[b]), next(ticket), boxes.take([b]), forms[b], made.help[b]))

        add(self.inputs.everything(), np.array([np.inf]))
        self._climb()
        while regions and time.monotonic() < self.deadline and not self._near(-regions[0][0]):
            children: list[Boxes] = []
            limits: list[float] = []
            for _ in range(min(BATCH, len(regions))):
                if self._near(-regions[0][0]):
                    break
                negative, _, box, form, helps = heapq.heappop(regions)
                halves = self._split(box, form, helps)
                if not halves:
                    closed = max(closed, -negative)
                splits += bool(halves)
                children += halves
                limits += [-negative] * len(halves)
            if children:
                add(stacked(children), np.array(limits))
        best = max(closed, self.value, -regions[0][0] if regions else -np.inf)
        # Boxes of a single record cannot be split; what is left of their gap is rounding.
        return Found(best, self.value, self.witness, splits, self._near(best))

    def _near(self, bound: float) -> bool:
        return bound - self.value <= self.slack or self.shown(bound) - self.shown(self.value) <= self.gap

    def _offer(self, records: np.ndarray, encoded: np.ndarray | None = None) -> None:
        raw = self.layers.forward(self.inputs.encoding(records).astype(float) if encoded is None else encoded)
        values = self.goal.total(raw @ self.goal.select.T)
        best = int(np.argmax(values))
        if values[best] > self.value:
            self.value, self.witness = float(values[best]), records[best].copy()

    def _climb(self) -> None:
        """Coordinate ascent from the best record, over levels, ends and a few values between."""
        improved = True
        while improved and time.monotonic() < self.deadline:
            before = self.value
            for j, domain in enumerate(self.inputs.domains):
                grid = np.linspace(domain.lo, domain.hi, 33) if domain.interval else np.empty(0)
                values = np.concatenate([np.floor(grid) if domain.integer else grid, domain.points])
                records = np.tile(self.witness, (len(values), 1))
                records[:, j] = values
                self._offer(records)
            improved = self.value > before + self.slack

    def _split(self, box: Boxes, form: np.ndarray, helps: np.ndarray) -> list[Boxes]:
        for j in np.argsort(-helps, kind="stable"):
            halves = self.inputs.halves(box, int(j), form)
            if halves:
                return halves
        return []


def largest(
    layers: Layers, inputs: Inputs, goal: Goal, shown: Callable[[float], float], gap: float, deadline: float
) -> tuple[Found, float]:
    """(what was found, the error of the network's own evaluation of the goal)."""
    search = Search(layers, inputs, goal, shown, gap, deadline)
    return search.run(), search.relaxation.evaluation_error
