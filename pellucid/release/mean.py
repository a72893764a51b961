"""Noisy means and their error bars: released numbers only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..mechanisms import NoiseLaw


@dataclass(frozen=True)
class Mean:
    """Noisy means of bounded values; `law` is the noise of the underlying sums in units of half the range."""

    values: np.ndarray
    law: NoiseLaw
    count: float
    noisy_count: bool
    lo: float
    hi: float

    def half_widths(self, level: float) -> np.ndarray:
        """Error bars of each mean. With a noisy count the error of the ratio is drawn from the public law of the noise."""
        radius, centre = (self.hi - self.lo) / 2, (self.hi + self.lo) / 2
        if not self.noisy_count:
            return np.full(len(self.values), radius * self.law.half_width(level) / self.count)
        if self.count < 1:
            return np.full(len(self.values), self.hi - self.lo)
        noise = self.law.pairs(10_000)
        errors = (radius * noise[:, :1] - (self.values - centre) * noise[:, 1:]) / self.count
        return np.quantile(np.abs(errors), level, axis=0)
