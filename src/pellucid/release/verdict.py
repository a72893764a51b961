"""Plain verdicts: what a release will tell, from public things, and what a result tells, from released numbers."""

from __future__ import annotations

import math

from .plan import Public


def foreseen(public: Public, error: float, usual: float, what: str) -> str:
    """The last word of a preview: the error beside what such numbers usually are, and what would do.

    `usual` is a size that such numbers rarely exceed, in the same units, known without data.
    """
    ratio = error / usual if usual > 0 else math.inf
    beside = f"±{error:.2g} where {what} are rarely above {usual:.2g}"
    if ratio <= 0.1:
        return f"verdict: {beside}: small differences will be visible"
    if ratio <= 0.5:
        return f"verdict: {beside}: the large ones will be visible, the small ones will not"
    return f"verdict: {beside}: mostly noise; {enough(public, ratio / 0.25)}"


def enough(public: Public, factor: float) -> str:
    """What would make errors smaller by a factor: that many times the people, or the price."""
    people, amount = two_digits(public.planning_rows * factor), float(public.spend.amount)
    price = f"ε = {amount * factor:.2g}" if public.spend.currency == "epsilon" else f"ρ = {amount * factor**2:.2g}"
    return f"about {people:,} people or {price} would do"


def two_digits(number: float) -> int:
    """Rounded up to two digits: more would pretend to be known.

    >>> two_digits(4321.0)
    4400
    """
    unit = int(10 ** max(math.floor(math.log10(max(number, 1.0))) - 1, 0))
    return math.ceil(number / unit) * unit
