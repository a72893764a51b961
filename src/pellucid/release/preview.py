"""What a release would be worth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..ledger.accounting import Amount, Kind
from ..mechanisms import Spend
from .rehearsal import in_words

LONG = 2.0
"""Seconds from which on a preview says how long a release takes."""


@dataclass(frozen=True)
class Outlook:
    """What a list of releases would be charged, one after another: no data was touched and nothing was charged."""

    kind: Kind | None
    """The kind that all of them should have to err least together; None if each is better off with its own."""
    charges: tuple[Spend, ...]
    """What each of them would be charged: nothing where an identical request was released before."""
    payable: int
    """How many of them, from the first on, the account can pay for."""
    error: float
    """The mean logarithm of their mean squared errors: what courses are compared by."""
    left: Amount
    """What would be left."""

    @property
    def affordable(self) -> bool:
        return self.payable == len(self.charges)


@dataclass(frozen=True)
class Preview:
    """What a release would be worth: no data was touched and nothing was charged."""

    explainer: str
    """The name of the explainer."""
    spend: Spend
    """What it would cost, in the account's currency."""
    epsilon: float
    delta: float
    """What that stands for."""
    labels: tuple[str, ...]
    """The outputs by name."""
    error: np.ndarray
    """Half-widths of their 95 % error bars; where they have none, what `instead` says."""
    gap: float
    """The smallest difference between two outputs that is told apart with 95 % probability."""
    stages: dict[str, float]
    """The share of the spend that each stage gets."""
    affordable: bool
    """Whether the account can pay for it now, or need not."""
    notes: tuple[str, ...]
    """What else is known before paying."""
    free: bool = False
    """Whether it would be answered from the ledger, because an identical request was released before."""
    afterwards: str = ""
    """What it would leave of an account that counts either way, and what it would end."""
    typical: np.ndarray | None = None
    """Root mean square errors of the outputs, where they are expected to be less than error bars must allow for; None where bars
    say it all."""
    at_most: np.ndarray | None = None
    """What the half-widths may become where public things cannot tell; None where they can."""
    instead: str = ""
    """What `error` says of outputs that have no error bars, with {} for its size; empty where it is that of error bars."""

    rehearse: Callable[[], float | None] | None = field(default=None, repr=False, compare=False)
    """Runs the release on public records, to see how long it takes."""

    @cached_property
    def seconds(self) -> float | None:
        """About how long the release will take, measured on public records when first asked for; None if nobody can tell."""
        return None if self.rehearse is None else self.rehearse()

    @property
    def largest_error(self) -> float:
        return float(np.max(self.error))

    @property
    def reach(self) -> str:
        """How long error bars are if public things mislead, in words; empty where they are no longer than expected."""
        most = self.largest_error if self.at_most is None else float(np.max(self.at_most))
        return f"in bad cases about ±{most:.2g}" if most > 1.05 * self.largest_error else ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "explainer": self.explainer,
            "currency": self.spend.currency,
            "amount": float(self.spend.amount),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "error": dict(zip(self.labels, (float(e) for e in self.error))),
            "largest_error": self.largest_error,
            "gap": self.gap,
            "stages": self.stages,
            "affordable": self.affordable,
            "free": self.free,
            "notes": list(self.notes),
            **({"afterwards": self.afterwards} if self.afterwards else {}),
            **({"typical": dict(zip(self.labels, map(float, self.typical)))} if self.typical is not None else {}),
            **({"at_most": dict(zip(self.labels, map(float, self.at_most)))} if self.at_most is not None else {}),
        }

    def _repr_html_(self) -> str:
        """In a notebook: what print() shows, in a list."""
        from .display import of_lines

        return of_lines(str(self))

    def __str__(self) -> str:
        low, high = float(np.min(self.error)), self.largest_error
        sizes = [f"{high:.4g}"] if math.isclose(low, high) else [f"{low:.4g}", f"{high:.4g}"]
        size = " to ".join(f"±{one}" for one in sizes)
        outputs = "one output," if len(self.labels) == 1 else f"{len(self.labels)} outputs, each"
        lines = [
            f"{self.explainer} for {self.spend.text}"
            + (f" (ε = {self.epsilon:.4g} at δ = {self.delta:g})" if self.delta else ""),
            f"  {self.instead.format(' to '.join(sizes))}"
            if self.instead
            else f"  {outputs} within {size} of the value without noise (95 %)"
            + (f"; {self.reach}, see the notes" if self.reach else ""),
        ]
        if len(self.labels) > 1 and not self.instead:
            lines.append(f"  two outputs are told apart with 95 % when they differ by {self.gap:.4g} or more")
        if self.typical is not None:
            usual = f"{float(np.sqrt(np.mean(np.square(self.typical)))):.3g}"
            # Those that have a limit for bad cases are about how people are spread, not about leaning.
            why = "as outputs lean on public records, errors" if self.at_most is None else "errors"
            lines.append(f"  {why} are expected to be about {usual} (root mean square)")
        if len(self.stages) > 1:
            lines.append("  stages: " + ", ".join(f"{name} {share:.0%}" for name, share in self.stages.items()))
        lines += [f"  note: {note}" for note in self.notes]
        if not self.free and self.seconds is not None and self.seconds >= LONG:
            lines.append(f"  takes {in_words(self.seconds)}")
        if self.free:
            lines.append("  free: an identical request was released before and is answered from the ledger")
        elif not self.affordable:
            lines.append("  the account cannot pay for it")
        elif self.afterwards:
            lines.append(f"  {self.afterwards}")
        return "\n".join(lines)
