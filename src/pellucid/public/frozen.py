"""Frozen values settle their fields once, while they are made."""

from __future__ import annotations

from typing import Any


def settle(value: Any, **fields: Any) -> None:
    """Set fields of a frozen value; for its own `__init__` or `__post_init__` only."""
    for name, field in fields.items():
        object.__setattr__(value, name, field)
