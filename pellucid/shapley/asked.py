"""The record asked about on its way through a request: kept by the explainer, never written down."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import PlanError

_KEY = secrets.token_bytes(32)
"""Drawn anew in every process and kept nowhere: without it nobody can try out records against a digest."""


def kept_record(record: Any) -> tuple[tuple[str, Any], ...]:
    """A record as plain pairs, so that a later change of the user's own object changes nothing."""
    if isinstance(record, tuple):
        record = dict(record)
    if getattr(record, "ndim", 1) == 2 and hasattr(record, "to_dict"):
        if len(record) != 1:
            raise PlanError(f"record: the table has {len(record)} rows; give the one you ask about, for example table.iloc[0].")
        record = record.iloc[0]
    if not isinstance(record, Mapping) and not hasattr(record, "items"):
        raise PlanError(f"record: give a dict of values by column name, not a {type(record).__name__}.")
    return tuple(sorted((str(name), v.item() if isinstance(v, np.generic) else v) for name, v in record.items()))


def record_digest(record: tuple[tuple[str, Any], ...]) -> str:
    """Tells two records apart in requests, within this process: a plain hash of a record could be guessed."""
    return hashlib.blake2b(repr(record).encode(), key=_KEY, digest_size=16).hexdigest()
