"""What explainers share: bases for explainers of a model, and checks of settings."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeVar

import numpy as np

from ...errors import PlanError
from ...public.black_box import BlackBox
from ...public.frozen import settle
from ...public.groups import Groups
from ...public.model import Model
from ...public.schema import Schema, did_you_mean
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from .results import Several

C = TypeVar("C", bound=type)

KEPT = "the record is stored nowhere, what was released about it is"
"""What becomes of a record asked about: certificates are the same for all records, and the result is an answer about this one."""


@dataclass(frozen=True)
class OfModel(Explainer):
    """Base of explainers of one model."""

    model: Model
    """The model to explain."""

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
class OfGroups(OfModel):
    """Base of explainers of one model that compare its features, or groups of them."""

    _: KW_ONLY
    groups: Mapping[str, Sequence[str]] | None = field(default=None, repr=False)
    """Features that count as one, such as `{"address": ["street", "zip"]}`; left out, the groups of the schema; `{}` for none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.groups is not None:
            settle(self, groups=Groups.of(self.groups))

    def grouping(self, schema: Schema) -> Groups:
        """The groups of features of the model: those given, or what the model uses of those that the schema declares."""
        return grouped(None if self.groups is None else Groups.of(self.groups), self.model, schema)


def grouped(given: Groups | None, model: Model, schema: Schema) -> Groups:
    """The groups that were given, checked, or what a model uses of those of the schema."""
    used = model.features or tuple(schema)
    return schema.groups.among(used) if given is None else given.checked(used, list(schema))


@dataclass(frozen=True)
class AlongFeatures(OfModel):
    """Base of explainers of a model along one feature, or along several in one joint release."""

    feature: str | Sequence[str]
    """The feature, or a list of features for one joint release."""

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, feature=self.feature if isinstance(self.feature, str) else feature_list(self.feature))

    @property
    def features(self) -> tuple[str, ...]:
        return feature_list(self.feature)

    def columns(self, schema: Schema) -> tuple[str, ...]:
        used = self.model.features or tuple(schema)
        for name in self.features:
            refuse_curve(name, None, schema)
            if name not in used:
                raise PlanError(f"the model does not use {name!r}, so it has no effect{did_you_mean(name, used)}.")
        wanted = {*self.features, *used}
        return tuple(name for name in schema if name in wanted)

    def has_shape_of(self, stored: Explanation) -> bool:
        return isinstance(stored, Several) != isinstance(self.feature, str)

    def joined(self, curves: dict[str, Explanation]) -> Explanation:
        """A single result for a single name, all of them for a list."""
        return curves[self.features[0]] if isinstance(self.feature, str) else Several(curves=curves)


def feature_list(feature: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several, as a tuple."""
    names = (feature,) if isinstance(feature, str) else tuple(feature) if isinstance(feature, Iterable) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise PlanError(f"feature={feature!r}: give a column name, or a list of column names.")
    if len(set(names)) < len(names):
        raise PlanError(f"feature={list(names)!r}: a column is named twice.")
    return names


def refuse_curve(name: str, given: Mapping[str, Sequence[str]] | None, schema: Schema) -> None:
    """A group of features has no order along which there could be a curve."""
    if name in (schema.groups if given is None else given):
        raise PlanError(
            f"{name!r} is a group of features, and a curve goes along one. Name one of them, or ask for what groups have: "
            "PermutationImportance, ShapValues, ShapRanking, ShapImportance or FeatureInteraction."
        )


def whole_number(name: str, value: Any, low: int, high: int) -> int | None:
    """A setting as a plain whole number; refused when it is not one in its range."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high):
        raise PlanError(f"{name}={value!r}: give a whole number from {low} to {high}.")
    return None if value is None else int(value)


def keep_whole_number(explainer: Explainer, name: str, low: int, high: int) -> None:
    """Checks a setting and keeps it as a plain whole number: the request is the same for every type of whole number."""
    settle(explainer, **{name: whole_number(name, getattr(explainer, name), low, high)})


def once_positional(*names: str) -> Callable[[C], C]:
    """These settings are given by keyword. They were once taken by position, after the two first arguments: that still works."""

    def decorate(cls: C) -> C:
        made = vars(cls)["__init__"]

        @functools.wraps(made)
        def init(self: Any, *given: Any, **named: Any) -> None:
            more = given[2:]
            if more:
                if len(more) > len(names):
                    raise TypeError(f"{cls.__name__} takes two arguments by position; give the others by keyword.")
                told = ", ".join(f"{name}=" for name in names[: len(more)])
                warnings.warn(f"{cls.__name__}: give {told} by keyword.", DeprecationWarning, stacklevel=2)
                clash = [name for name in names[: len(more)] if name in named]
                if clash:
                    raise TypeError(f"{cls.__name__} got {clash[0]!r} twice.")
            made(self, *given[:2], **dict(zip(names, more)), **named)

        cls.__init__ = init  # type: ignore[misc]
        return cls

    return decorate


def example_record(model: Model, schema: Schema) -> dict[str, Any]:
    """A record with the last value of every feature of a model."""
    positions = {name: column[-1] for name, column in schema.sample(8, seed=1).items()}
    return {name: schema[name].value_at(positions[name]) for name in model.features or schema}


def two_of(names: Iterable[str]) -> dict[str, list[str]] | None:
    """The first two of several features as a group, for examples."""
    listed = list(names)
    return {"two": listed[:2]} if len(listed) > 2 else None


def empty_record(model: Model, schema: Schema) -> dict[str, Any]:
    """A record without a value wherever the schema declares what stands for a missing one."""
    return {n: None if schema[n].stands_in else schema[n].value_at(schema[n].fill) for n in model.features or schema}
