"""JSON Schemas of saved results and certificates, made from the classes that write them. `schemas/` holds them, by version.

python -m pellucid.release.json_schema schemas
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..mechanisms import NoiseLaw
from ..public.labels import Labels
from .certificate import STATUS, Certificate
from .explanation import _KINDS, FORMAT, Explanation
from .uncounted import Uncounted

DRAFT = "https://json-schema.org/draft/2020-12/schema"
NUMBERS = {"type": ["number", "null"]}
LAW = {
    "type": "object",
    "properties": {"kind": {"type": "string"}, "scale": {"type": "number"}, "size": {"type": "integer"}},
    "required": ["kind", "scale", "size"],
}
SPECIAL: dict[Any, dict[str, Any]] = {
    # Arrays of any depth: centres are clusters × coordinates.
    np.ndarray: {"$ref": "#/$defs/numbers"},
    NoiseLaw: {"$ref": "#/$defs/law"},
    Uncounted: {"type": "object", "required": ["columns", "what", "count", "of", "law", "noisy_parts"]},
    Labels: {"type": "object", "properties": {"columns": {"type": "object"}, "output": {"type": "string"}}},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    Any: {},
}


def of_type(declared: Any) -> dict[str, Any]:
    """What a value of a declared type looks like in JSON."""
    origin, inner = get_origin(declared), get_args(declared)
    if declared in SPECIAL:
        return SPECIAL[declared]
    if origin in (Union, types.UnionType):
        return {"anyOf": [of_type(arm) for arm in inner]}
    if isinstance(declared, type) and issubclass(declared, Explanation):
        return {"$ref": "#/$defs/inner"}
    if origin is tuple and inner[-1] is Ellipsis:
        return {"type": "array", "items": of_type(inner[0])}
    if origin is tuple:
        return {"type": "array", "prefixItems": [of_type(one) for one in inner], "minItems": len(inner), "maxItems": len(inner)}
    if origin is dict:
        return {"type": "object", "additionalProperties": of_type(inner[1])}
    return {}


def _object(cls: type, leave_out: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> dict[str, Any]:
    hints, own = get_type_hints(cls), [f for f in fields(cls) if f.name not in leave_out]
    needed = [f.name for f in own if f.default is MISSING and f.default_factory is MISSING and f.name not in optional]
    return {
        "type": "object",
        "properties": {f.name: of_type(hints[f.name]) for f in own},
        "required": needed,
        # A newer version may say more.
        "additionalProperties": True,
    }


def certificate_schema() -> dict[str, Any]:
    made = _object(Certificate)
    made["properties"]["status"] = {"enum": list(STATUS)}
    made["properties"]["epsilon"] = {"type": "number", "minimum": 0}
    made["properties"]["delta"] = {"type": "number", "minimum": 0, "exclusiveMaximum": 1}
    return {"$schema": DRAFT, "title": "Certificate of a release of Pellucid, format 1", **made}


def result_schema() -> dict[str, Any]:
    """Every kind of result that the package itself has."""
    ours = {kind: cls for kind, cls in sorted(_KINDS.items()) if cls.__module__.startswith("pellucid.")}
    kinds = {kind: _object(cls, ("certificate",), cls.newer) for kind, cls in ours.items()}
    certificate = {name: value for name, value in certificate_schema().items() if name != "$schema"}
    chosen = [
        {"if": {"properties": {"kind": {"const": kind}}}, "then": {"properties": {"content": {"$ref": f"#/$defs/{_key(kind)}"}}}}
        for kind in kinds
    ]
    inner: dict[str, Any] = {
        "type": "object",
        "properties": {"kind": {"enum": list(kinds)}, "content": {"type": "object"}},
        "allOf": chosen,
    }
    return {
        "$schema": DRAFT,
        "title": f"Saved result of Pellucid, format {FORMAT}",
        **inner,
        "properties": {
            **inner["properties"],
            "format": {"const": FORMAT},
            "certificate": {"anyOf": [{"type": "null"}, certificate]},
        },
        "required": ["format", "kind", "content", "certificate"],
        "$defs": {
            "numbers": {"anyOf": [NUMBERS, {"type": "array", "items": {"$ref": "#/$defs/numbers"}}]},
            "law": LAW,
            "inner": {**inner, "required": ["kind", "content"]},
            **{_key(kind): schema for kind, schema in kinds.items()},
        },
    }


def _key(kind: str) -> str:
    return f"content of {kind}".replace(" ", "-")


def write(folder: str | Path) -> list[Path]:
    """Write the schemas of this version into a folder."""
    importlib.import_module("pellucid.surface")  # kinds are known once their classes are imported

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = {folder / f"result-{FORMAT}.json": result_schema(), folder / "certificate-1.json": certificate_schema()}
    for file, schema in files.items():
        file.write_text(json.dumps(schema, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return list(files)


if __name__ == "__main__":
    write(sys.argv[1])
