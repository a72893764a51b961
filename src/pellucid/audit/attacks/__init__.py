"""Attacks on explanations: what somebody gets from one without noise, from the published mechanism and from ours.

>>> [attack.name for attack in find(["curves", "tracing"])]
['curves', 'tracing']
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import PlanError
from .background import Background
from .base import Against, Attack, Outcome
from .clusters import Clusters
from .curves import Curves
from .importances import Importances
from .local_record import LocalRecord
from .questions import Questions
from .shapley_record import ShapleyRecord
from .sizes import Sizes
from .tracing import Tracing

ATTACKS: dict[str, type[Attack]] = {
    attack.name: attack
    for attack in (Curves, Importances, Sizes, Clusters, Tracing, Background, ShapleyRecord, LocalRecord, Questions)
}
"""Every attack by its name, in the order in which they are shown."""


def find(names: Sequence[str] = ()) -> list[Attack]:
    """The attacks of these names; all of them without any."""
    for name in names:
        if name not in ATTACKS:
            raise PlanError(f"there is no attack {name!r}; there are {', '.join(ATTACKS)}.")
    return [attack() for name, attack in ATTACKS.items() if not names or name in names]


__all__ = ["ATTACKS", "Against", "Attack", "Outcome", "find"]
