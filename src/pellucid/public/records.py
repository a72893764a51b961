"""The record asked about on its way through a request: kept by the explainer, never written down."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

from ..errors import PlanError, SchemaError
from .model import Model
from .schema import Category, Feature, Schema, did_you_mean

_KEY = secrets.token_bytes(32)
"""Drawn anew in every process and kept nowhere: without it nobody can try out records against a digest."""


def kept_record(record: Any) -> tuple[tuple[str, Any], ...]:
    """A record as plain pairs, so that a later change of the user's own object changes nothing."""
    if isinstance(record, tuple):
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in record):
            raise PlanError("record: give a dict of values by column name, not a tuple.")
        record = _Pairs(record)
    if getattr(record, "ndim", 1) == 2 and hasattr(record, "to_dict"):
        if len(record) != 1:
            raise PlanError(f"record: the table has {len(record)} rows; give the one you ask about, for example table.iloc[0].")
        record = record.iloc[0]
    if not isinstance(record, Mapping) and not hasattr(record, "items"):
        raise PlanError(f"record: give a dict of values by column name, not a {type(record).__name__}.")
    pairs = [(name, plain(value)) for name, value in record.items()]
    names = [name for name, _ in pairs]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise PlanError("record: give every column once, by its name as text.")
    return tuple((str(name), value) for name, value in sorted(pairs, key=lambda pair: pair[0]))


class _Pairs(tuple[tuple[str, Any], ...]):
    """Kept pairs that are read like a dict."""

    def items(self) -> tuple[tuple[str, Any], ...]:
        return self


def plain(value: Any) -> Any:
    """A value of a cell without its wrapping: the text of an array is rounded, and would not tell two numbers apart."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    for kind in (float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def record_digest(record: tuple[tuple[str, Any], ...]) -> str:
    """Tells two records apart in requests, within this process: a plain hash of a record could be guessed."""
    return hashlib.blake2b(repr(record).encode(), key=_KEY, digest_size=16).hexdigest()


def asked_record(record: Any, model: Model, schema: Schema) -> tuple[tuple[str, float], ...]:
    """(feature, position) for every feature the model uses; what is not given has the value that the schema declares for it.

    `record` is a dict or anything with `items()`, in the user's words.
    """
    given = dict(record) if isinstance(record, Mapping) else dict(record.items()) if hasattr(record, "items") else None
    if given is None:
        raise SchemaError(f"record: give a dict of values by column name, not a {type(record).__name__}.")
    for name in given:
        if name not in schema:
            raise SchemaError(f"the record has {name!r}, which the schema does not declare{did_you_mean(name, schema)}.")
    features = model.ready(schema).features
    said = {name: _position(name, schema[name], given[name]) for name in features if not _is_missing(given.get(name))}
    gaps = [name for name in features if name not in said and not schema[name].stands_in]
    if gaps:
        raise SchemaError(
            f"the record has no value for {', '.join(map(repr, gaps[:5]))}{', …' if len(gaps) > 5 else ''}, and the schema "
            "declares none that stands for a missing one; give it in the record, or declare the column with missing=."
        )
    return tuple((name, said.get(name, float(schema[name].fill))) for name in features)


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def _position(name: str, feature: Feature, value: Any) -> float:
    try:
        position = float(feature.position(value))
    except SchemaError as error:
        hint = ", or leave it out to ask with the value that stands for a missing one" if feature.stands_in else ""
        raise SchemaError(f"the record's {name!r}: {error} Correct it{hint}.") from None
    except (OverflowError, TypeError, ValueError):
        raise SchemaError(f"the record's {name!r} is not a value of the column; give one that the schema declares.") from None
    if not isinstance(feature, Category) and feature.integer and position != int(position):
        raise SchemaError(f"the record's {name!r}: {value!r} is not a whole number; the column is declared integer.")
    return position
