"""How pictures are begun: Matplotlib where it is installed, and the colours all of them share."""

from __future__ import annotations

from typing import Any

from ..errors import PlanError

INK, BAND = "#1b4965", "#62b6cb"


def pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise PlanError("pictures need matplotlib: install it with `pip install 'pellucid[plots]'`.") from None
    return plt
