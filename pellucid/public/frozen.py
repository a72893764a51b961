"""Frozen values settle their fields once, while they are made."""

from __future__ import annotations

from typing import Any


def settle(value: Any, **fields: Any) -> None:
    """Set fields of a frozen dataclass: for `__post_init__` alone, where what was given becomes what is kept."""
    for name, field in fields.items():
        object.__setattr__(value, name, field)
