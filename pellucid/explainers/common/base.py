"""What an explainer is: a plan that sees no data, a run that sees a door, and what to expect of it.

A new explainer is one file with one class. `plan` names the stages and their shares of the spend; `run` asks and turns
the answers into an Explanation; `expected` says, without data, how large the error will be. The contract suite finds
the class by itself and tries `examples`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.black_box import BlackBox
from ...public.model import Model
from ...public.schema import Schema, did_you_mean
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from .results import Several


@dataclass(frozen=True)
class OfModel(Explainer):
    """Base of explainers of one model."""

    model: Model

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise PlanError(f"{type(self.model).__name__} is not a model; wrap it: pel.Model(estimator, trained_on=…).")

    @property
    def models(self) -> tuple[BlackBox, ...]:
        return (self.model,)

    def columns(self, schema: Schema) -> tuple[str, ...]:
        used = self.model.features or tuple(schema)
        return tuple(name for name in schema if name in used)


@dataclass(frozen=True)
class AlongFeatures(OfModel):
    """Base of explainers of a model along one feature, or along several in one joint release."""

    feature: str | Sequence[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "feature", self.feature if isinstance(self.feature, str) else feature_list(self.feature))

    @property
    def features(self) -> tuple[str, ...]:
        return feature_list(self.feature)

    def columns(self, schema: Schema) -> tuple[str, ...]:
        used = self.model.features or tuple(schema)
        for name in self.features:
            if name not in used:
                raise PlanError(f"the model does not use {name!r}, so it has no effect{did_you_mean(name, used)}.")
        wanted = {*self.features, *used}
        return tuple(name for name in schema if name in wanted)

    def joined(self, curves: dict[str, Explanation]) -> Explanation:
        """A single result for a single name, all of them for a list."""
        return curves[self.features[0]] if isinstance(self.feature, str) else Several(curves=curves)


def feature_list(feature: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several, as a tuple."""
    names = (feature,) if isinstance(feature, str) else tuple(feature)
    if not names or not all(isinstance(name, str) for name in names):
        raise PlanError(f"feature={feature!r}: give a column name, or a list of column names.")
    if len(set(names)) < len(names):
        raise PlanError(f"feature={list(names)!r}: a column is named twice.")
    return names


def whole_number(name: str, value: Any, low: int, high: int) -> int | None:
    """A setting as a plain whole number; refused when it is not one in its range."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high):
        raise PlanError(f"{name}={value!r}: give a whole number from {low} to {high}.")
    return None if value is None else int(value)


def keep_whole_number(explainer: Explainer, name: str, low: int, high: int) -> None:
    """Checks a setting and keeps it as a plain whole number: the request is the same for every type of whole number."""
    object.__setattr__(explainer, name, whole_number(name, getattr(explainer, name), low, high))


def example_record(model: Model, schema: Schema) -> dict[str, Any]:
    """A record with the last value of every feature of a model."""
    positions = {name: column[-1] for name, column in schema.sample(8, seed=1).items()}
    return {name: schema[name].label(positions[name]) for name in model.features or schema}
