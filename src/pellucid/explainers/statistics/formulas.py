"""What explainers about a formula share: its columns, and its certified ranges over the declared domain."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import PlanError, SchemaError
from ...public.frozen import settle
from ...public.rows import Rows
from ...public.schema import Category, Number, Schema
from ...release.explainer import Explainer
from ...sensitivity import named_formula, partial

if TYPE_CHECKING:
    from ...sensitivity.expressions import Formula
    from ...sensitivity.partial_sensitivity import Partial


@dataclass(frozen=True)
class OfFormula(Explainer):
    """Base of explainers about a formula."""

    formula: Any
    """Text, a SymPy expression, a function whose arguments are column names, or a list of them for several outputs."""

    def __post_init__(self) -> None:
        settle(self, formula=named_formula(self.formula))

    def columns(self, schema: Schema) -> tuple[str, ...]:
        for name in self.formula.variables:
            _refuse_calculated_names(name, schema)
            feature = schema[name]
            if not isinstance(feature, Number) and not feature.numeric:
                raise PlanError(f"the formula uses {name!r}, whose categories are text; a formula needs numbers.")
        return tuple(name for name in schema if name in self.formula.variables)

    def leaves_out(self, schema: Schema) -> tuple[str, ...]:
        """A formula has no value where one of its columns has none."""
        return tuple(name for name in self.columns(schema) if schema[name].excludes or schema[name].fills_nan)

    def over(self, schema: Schema) -> Partial:
        """The formula over the declared range of every attribute."""
        return partial(self.formula, {name: schema[name] for name in self.formula.variables})


def _refuse_calculated_names(name: str, schema: Schema) -> None:
    """Say what is wrong with education-num: to a formula it is a difference of two columns that are not there."""
    read = [column for column in schema if not column.isidentifier() and name in re.findall(r"\w+", column)]
    if name not in schema and read:
        plain = "_".join(re.findall(r"\w+", read[0]))
        raise SchemaError(
            f"{name!r} is not declared in the schema, and a formula cannot name {read[0]!r}: it would be calculated. Rename the "
            f"column, in the table and the schema, for example to {plain!r}."
        )


def formula_columns(formula: Formula, rows: Rows) -> list[np.ndarray]:
    """The columns of a formula as numbers; categories with numeric values by their value."""
    columns = []
    for name in formula.variables:
        feature, column = rows.schema[name], rows[name]
        columns.append(
            np.asarray(feature.values, dtype=float)[column.astype(np.intp)] if isinstance(feature, Category) else column
        )
    return columns


def somewhere_absent(names: Sequence[str], rows: Rows) -> np.ndarray:
    """Which records have no value in one of these columns."""
    return np.logical_or.reduce([rows.absent(name) for name in names])


def certified_ranges(asked: Partial) -> tuple[tuple[float, float], ...]:
    """Certified [inf, sup] of every output over the declared domain."""
    return _searched(_Search(asked.formula.exact_text, tuple(asked.formula.box.items()), asked))


@dataclass(frozen=True)
class _Search:
    """A search for ranges, known by the formula and the public ranges of its attributes."""

    formula: str
    box: tuple[tuple[str, tuple[float, float]], ...]
    asked: Partial = field(compare=False)


# A search takes seconds, and the price of an error is found by some fifty plans of the same formula. Only public values are kept.
@functools.lru_cache(maxsize=64)
def _searched(search: _Search) -> tuple[tuple[float, float], ...]:
    return tuple(search.asked.range(i) for i in range(len(search.asked.formula.outputs)))
