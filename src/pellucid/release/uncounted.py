"""What is known of the records that were not counted, because a cell of theirs says nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..mechanisms import NoiseLaw
from ..public.schema import Category, Schema

DRAWS = 4000
"""Simulated copies of the noise behind an error bar."""
MOST = 50
"""Noisy counts of a sum that are simulated one by one; the noise of more of them is scaled up from these."""


@dataclass(frozen=True)
class Uncounted:
    """How many records a result leaves out, with noise: `.share` of all of them, `.interval()` and `.sentence`."""

    columns: tuple[str, ...]
    """The columns in which a record without a value is left out."""
    what: str
    """What their cells may be: missing, unreadable, not declared."""
    count: float
    """The noisy number of records left out."""
    of: float
    """How many records there are, left out or not: their public number, or a noisy one; NaN where it is not known."""
    law: NoiseLaw
    """The noise of a count."""
    noisy_parts: int
    """How many other noisy counts are added up in `of`; 0 where it is public or not known."""

    @property
    def share(self) -> float:
        """The part of all records that was left out; NaN where their number is not known."""
        return float(np.clip(self.count / max(self.of, 1.0), 0.0, 1.0)) if not math.isnan(self.of) else math.nan

    def times(self, factor: float) -> Uncounted:
        """The same where each of what was counted stands for so many records."""
        return replace(self, count=self.count * factor, of=self.of * factor, law=self.law.times(factor))

    def half_width(self, level: float = 0.95) -> float:
        """The noise moved the share (or the count, where there is no share) by at most this, with probability `level`."""
        if math.isnan(self.of):
            return self.law.half_width(level)
        if not self.noisy_parts:
            return self.law.half_width(level) / max(self.of, 1.0)
        self.law.half_width(level)  # refuses a level that is no probability
        some = min(self.noisy_parts, MOST)
        noise = self.law.some(some + 1, DRAWS)
        others = noise[:, 1:].sum(axis=1) * math.sqrt(self.noisy_parts / some)
        errors = ((1 - self.share) * noise[:, 0] - self.share * others) / max(self.of, 1.0)
        return float(np.quantile(np.abs(errors), level))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """(lower, upper) of the share, inside [0, 1]; of the count where there is no share."""
        half = self.half_width(level)
        if math.isnan(self.of):
            return max(self.count - half, 0.0), max(self.count + half, 0.0)
        return max(self.share - half, 0.0), min(self.share + half, 1.0)

    @property
    def sentence(self) -> str:
        """In plain words, with a 95 % error bar."""
        named = " or ".join(f"`{name}`" for name in self.columns)
        half = self.half_width()
        if math.isnan(self.of):
            return f"In about {max(self.count, 0):,.0f} records (±{half:,.0f}) {named} was {self.what}; they are not counted."
        about, within = percent(self.share, half)
        if self.share <= half:
            return f"At most about {percent(min(self.share + half, 1.0), half)[0]} of {named} was {self.what}; it is not counted."
        return f"About {about} of {named} was {self.what} (±{within}) and is not counted."

    @property
    def note(self) -> str:
        """In a few words, for pictures."""
        half, why = self.half_width(), f"{' or '.join(self.columns)} {self.what}"
        if math.isnan(self.of):
            return f"about {max(self.count, 0):,.0f} records (±{half:,.0f}) not counted: {why}"
        about, within = percent(self.share, half)
        return f"{about} (±{within}) not counted: {why}"

    def columns_of_frame(self) -> dict[str, float]:
        """For `to_frame`: the share with its 95 % error bar (of the count, where there is no share), the same in every row."""
        lower, upper = self.interval()
        known = self.count if math.isnan(self.of) else self.share
        return {"uncounted": known, "uncounted lower": lower, "uncounted upper": upper}

    def to_dict(self) -> dict[str, Any]:
        of = None if math.isnan(self.of) else self.of
        return {**vars(self), "columns": list(self.columns), "of": of, "law": self.law.to_dict()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Uncounted:
        of = math.nan if content["of"] is None else float(content["of"])
        law, columns = NoiseLaw.from_dict(content["law"]), tuple(content["columns"])
        return cls(columns, content["what"], float(content["count"]), of, law, int(content["noisy_parts"]))


def percent(share: float, half: float) -> tuple[str, str]:
    """A share in percent and its error bar, rounded up: whole numbers where the bar is wide, else tenths.

    >>> percent(0.7512, 0.012), percent(0.7512, 0.0004)
    (('75 %', '2 %'), ('75.1 %', '0.1 %'))
    """
    digits = 0 if half >= 0.01 else 1
    within = math.ceil(100 * half * 10**digits - 1e-9) / 10**digits
    return f"{100 * share:.{digits}f} %", f"{within:.{digits}f} %"


def absent_words(columns: Sequence[str], schema: Schema) -> str:
    """What cells of these columns may be that leave a record out."""
    categories = [isinstance(schema[name], Category) for name in columns]
    if all(categories):
        return "missing or not a declared value"
    return "missing, unreadable or not a declared value" if any(categories) else "missing or unreadable"
