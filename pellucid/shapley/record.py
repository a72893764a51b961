"""The record asked about, in inner form. It is public: it belongs to the person who asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import SchemaError
from ..model import Model
from ..schema import Category, Feature, Schema, did_you_mean


def asked_record(record: Any, model: Model, schema: Schema) -> tuple[tuple[str, float], ...]:
    """(feature, position) for every feature the model uses; what is not given becomes the declared missing value.

    `record` is a dict or anything with `items()`, in the user's words.
    """
    given = dict(record) if isinstance(record, Mapping) else dict(record.items()) if hasattr(record, "items") else None
    if given is None:
        raise SchemaError(f"record: give a dict of values by column name, not a {type(record).__name__}.")
    for name in given:
        if name not in schema:
            raise SchemaError(f"the record has {name!r}, which the schema does not declare{did_you_mean(name, schema)}.")
    return tuple((name, _position(name, schema[name], given.get(name))) for name in model.ready(schema).features)


def _position(name: str, feature: Feature, value: Any) -> float:
    if value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value):
        return float(feature.position(feature.missing)) if isinstance(feature, Category) else float(feature.missing)  # type: ignore[arg-type]
    try:
        position = float(feature.position(value))
    except SchemaError as error:
        raise SchemaError(f"the record's {name!r}: {error} Correct it, or leave it out to ask with the missing value.") from None
    except (OverflowError, TypeError, ValueError):
        raise SchemaError(f"the record's {name!r} is not a value of the column; give one that the schema declares.") from None
    if not isinstance(feature, Category) and feature.integer and position != int(position):
        raise SchemaError(f"the record's {name!r}: {value!r} is not a whole number; the column is declared integer.")
    return position
