"""One sentence on top of a picture: what its error bars bear out, and nothing they do not.

A sentence picks what it names among many numbers, so it goes by bars that hold all together: those of level 1 − 0.05/n for n
numbers. It is then wrong in at most 5 % of releases, however it picks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...public.dates import along
from ...public.figure import plain, value_text
from .canvas import brief

RISK = 0.05
SURE = 0.9999
"""The highest level that bars are asked for: beyond, simulated ones are too rough."""
INNER = 0.15
"""A place this part of the range away from its ends is worth naming."""
LEVEL = 1 / 3
"""A curve is level where it is surely less than this part as steep as it is over all."""
FEW = 3
"""Names in a sentence, at most."""


def together(result: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Error bars of so many numbers that all hold at once in 95 % of releases."""
    lower, upper = result.interval(min(1 - RISK / max(count, 1), SURE))
    return np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def begun(text: str, result: Any, name: str) -> str:
    """A sentence that may begin with a name: with a capital letter, unless the name is none for people."""
    labelled = "label" in result.naming.columns.get(name, {})
    return text if text.startswith(name) and not labelled else capital(text)


def listed(names: Sequence[str], last: str = "and") -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def some(names: Sequence[str]) -> str:
    """All of a few names, or the first of many: "a, b and c", "a, b, c and 4 more"."""
    return (
        listed([brief(name) for name in names])
        if len(names) <= FEW
        else f"{', '.join(map(brief, names[:FEW]))} and {len(names) - FEW} more"
    )


def about(value: float, half: float) -> str:
    """A number with no more digits than its error bar leaves.

    >>> about(0.34437, 0.012), about(87_654.0, 2_000.0)
    ('0.34', '88,000')
    """
    if not (math.isfinite(value) and math.isfinite(half)) or half <= 0 or not value:
        return plain(value)
    digits = math.floor(math.log10(abs(value))) - math.floor(math.log10(half)) + 1
    return plain(value, min(max(digits, 1), 3))


@dataclass(frozen=True)
class Shape:
    """What a band of error bars says of the curve inside: where it goes, and between which points that is sure."""

    goes: str
    """ "rises", "falls", "rises and falls", "falls and rises", "both ways" or nothing where a flat curve fits inside."""
    first: int = 0
    """Up to this point it is level, for sure; of one that turns, where it does."""
    last: int = 0
    """From this point on it is level, for sure."""


def shape(x: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Shape:
    """The simplest course that fits between the bars, if anything simpler does not.

    >>> shape(np.arange(4.0), np.array([0.0, 1.0, 2.0, 2.1]), np.array([0.1, 1.1, 2.1, 2.2]))
    Shape(goes='rises', first=0, last=2)
    """
    if _flat(lower, upper):
        return Shape("")
    for goes, low, high in (("rises", lower, upper), ("falls", -upper, -lower)):
        if _rising(low, high):
            steep, end = (low.max() - high.min()) / (x[-1] - x[0]), len(x) - 1
            parts = [(k, slice(0, k + 1), slice(k, end + 1)) for k in range(1, end)]

            def level(part: slice, low: np.ndarray = low, high: np.ndarray = high, steep: float = steep) -> bool:
                return bool(high[part].max() - low[part].min() <= LEVEL * steep * np.ptp(x[part]))

            before = [k for k, part, _ in parts if level(part)]
            after = [k for k, _, part in parts if level(part)]
            return Shape(goes, max(before, default=0), min(after, default=end))
    for goes, low, high in (("rises and falls", lower, upper), ("falls and rises", -upper, -lower)):
        turns = [k for k in range(len(low)) if _rising(low[: k + 1], high[: k + 1]) and _rising(low[k:][::-1], high[k:][::-1])]
        if turns:
            turn = max(turns, key=lambda k: low[k] + high[k])
            return Shape(goes, turn, turn)
    return Shape("both ways")


def _flat(lower: np.ndarray, upper: np.ndarray) -> bool:
    return bool(lower.max() <= upper.min())


def _rising(lower: np.ndarray, upper: np.ndarray) -> bool:
    return bool((np.maximum.accumulate(lower) <= upper).all())


def curve(result: Any, what: str) -> str:
    """What a curve does along its feature. `what` is the name of its height."""
    words = result.naming
    name, unit = brief(words.name(result.feature)), words.unit(result.feature)
    if len(result.y) < 2:
        return ""
    lower, upper = together(result, len(result.y))
    if result.categorical:
        return among([brief(value_text(v)) for v in result.x], result.y, lower, upper, what, name)
    x = along(result.x)
    found = shape(x, lower, upper)

    def at(k: int) -> str:
        return f"about {value_text(result.x[k] if float(x[k]).is_integer() else float(x[k]))}{f' {unit}' if unit else ''}"

    if not found.goes:
        return f"No change of the {what} with {name} is sure"
    if found.goes == "both ways":
        return f"{capital(what)} goes up and down with {name}"
    if " and " in found.goes:
        one, other = found.goes.split(" and ")
        return f"{capital(what)} {one} with {name} up to {at(found.first)}, then {other}"
    margin = INNER * (x[-1] - x[0])
    early, late = x[found.first] > x[0] + margin, x[found.last] < x[-1] - margin
    said = f"{capital(what)} {found.goes} with {name}"
    if found.first >= found.last:
        return said
    ends = [f"from {at(found.first)} on" if early and not late else "", f"up to {at(found.last)}" if late and not early else ""]
    between = f"between {at(found.first)} and {at(found.last)}" if early and late else ""
    return " ".join(filter(None, [said, *ends, between]))


def among(names: Sequence[str], values: np.ndarray, lower: np.ndarray, upper: np.ndarray, what: str, of: str) -> str:
    """Which of some values is highest or lowest for sure, or which two differ."""
    top, bottom = int(np.argmax(lower)), int(np.argmin(upper))
    if lower[top] <= upper[bottom]:
        return f"No difference of the {what} by {of} is sure"
    if len(names) == 2:
        return f"{capital(what)} is higher for {of} = {names[top]} than for {names[bottom]}"
    others = np.delete(upper, top), np.delete(lower, bottom)
    highest, lowest = lower[top] > others[0].max(), upper[bottom] < others[1].min()
    said = [f"highest for {of} = {names[top]}"] * bool(highest) + [
        f"lowest for {names[bottom] if highest else f'{of} = {names[bottom]}'}"
    ] * bool(lowest)
    if said:
        return f"{capital(what)} is {listed(said)}"
    return f"{capital(what)} is higher for {of} = {names[top]} than for {names[bottom]}"


def leading(result: Any, one: str, more: str, none: str) -> str:
    """Who comes first for sure: "{} matters most", "{} matter most", with `none` where nothing stands out of the noise."""
    tiers, count = result.tiers(), len(result.names)
    lower, upper = together(result, count)
    if not ((lower > 0) | (upper < 0)).any():
        return none
    if len(tiers) < 2:
        return "No order among them is sure" if count > 1 else ""
    names = [brief(result.naming.name(name)) for name in tiers[0]]
    if len(names) > FEW:
        return f"{len(names)} of {count} lead; which of them is first is not sure"
    return begun((one if len(names) == 1 else more).format(listed(names)), result, tiers[0][0])
