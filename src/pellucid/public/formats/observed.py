"""Telling bounds and values that were declared from those that were computed from the data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

STATISTICS = {"stats", "statistics", "summarystatistics", "observed", "profile", "summary", "annotation", "annotations"}
"""Keys below which formats and tools keep what they computed from the data."""
COMPUTED = re.compile(
    r"\b(computed|calculated|inferred|derived|measured|observed|estimated|taken)\s+(from|in|on|over)\s+(the\s+|this\s+)?"
    r"(data|dataset|table|sample|values|column|records)\b",
    re.IGNORECASE,
)
SAID_IN = ("source", "description", "comment", "provenance", "rdfs:comment", "dc:source", "dc:description", "note", "notes")
LOWEST = {"min", "minimum", "minvalue", "lowest"}
HIGHEST = {"max", "maximum", "maxvalue", "highest"}


def bare(key: Any) -> str:
    """A key without its prefix, in small letters."""
    return str(key).rsplit(":", 1)[-1].rsplit("/", 1)[-1].rsplit("#", 1)[-1].lower()


def computed(said: Mapping[str, Any], lo: Any, hi: Any, values: Any = None) -> str:
    """Why bounds or values are no public ones: they say that they were computed from data, or equal what was. Else empty."""
    if lo is None and hi is None and not values:
        return ""
    if any(bare(key) in ("observed", "computed", "inferred") and value is True for key, value in said.items()):
        return "the file says of them that they were observed"
    if any(isinstance(said.get(key), str) and COMPUTED.search(said[key]) for key in SAID_IN):
        return "the file says that they were computed from data"
    if lo is None and hi is None:
        return ""
    seen = [found for key, value in said.items() if bare(key) in STATISTICS for found in _extremes(value)]
    lows, highs = ([value for end, value in seen if end == which] for which in ("lo", "hi"))
    same = (lo is None or lo in lows) and (hi is None or hi in highs)
    return "they are those of the statistics beside them" if same else ""


def _extremes(node: Any) -> Iterator[tuple[str, Any]]:
    """Smallest and largest values anywhere in a node of statistics."""
    if isinstance(node, Mapping):
        kind = {bare(value) for key, value in node.items() if bare(key) in ("name", "datatype", "@type", "type", "@id")}
        for key, value in node.items():
            if bare(key) in LOWEST or (bare(key) == "value" and kind & LOWEST):
                yield "lo", value
            elif bare(key) in HIGHEST or (bare(key) == "value" and kind & HIGHEST):
                yield "hi", value
            else:
                yield from _extremes(value)
    elif isinstance(node, list):
        for one in node:
            yield from _extremes(one)
