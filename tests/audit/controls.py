"""Ways to break a promise, each patched into the code that makes releases. An audit is worth something if it catches them all.

Each control says which explainer shows it, under which promises, and who must catch it: the `search` (exact totals move further
than the noise was scaled to), the `game` (a measured ε above the claim), or one of the `checks`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import pellucid as pel
from pellucid.audit import World
from pellucid.audit.neighbours import Neighbours
from pellucid.engine import units as engine_units
from pellucid.mechanisms import Norms, noise
from pellucid.public import asking, row_wise
from pellucid.query import bounds, sensitivities
from pellucid.release import door

SCHEMA = pel.Schema({"a": pel.Number(0, 1), "b": pel.Number(0, 1), "c": pel.Category(["x", "y", "z"]), "y": pel.Boolean()})


def second(d):
    return d["b"]


MODEL = pel.Model(second, output=(0, 1), features=["a", "b", "c"], trained_on="other data")
CURVE = pel.PartialDependence(MODEL, "a", points=2)
COUNTS = pel.Distribution("c")
MEAN = pel.Statistic("a")


@dataclass(frozen=True)
class Control:
    """One way to break a promise."""

    name: str
    patch: Callable[[pytest.MonkeyPatch], None]
    explainer: Any = CURVE
    world: World = field(default_factory=lambda: World(SCHEMA))
    caught_by: str = "search"
    pair: Neighbours | None = None


def halved_sensitivity(patch):
    whole = sensitivities.sensitivity
    patch.setattr(sensitivities, "sensitivity", lambda *asked: halved(whole(*asked)))


def halved(norms):
    return Norms(norms.l1 / 2, norms.l2_squared / 4, norms.linf / 2)


def halved_noise(patch):
    whole = noise.add_noise
    patch.setattr(door, "add_noise", lambda totals, how: whole(totals, replace(how, scale=how.scale / 2)))


def l2_for_l1(patch):
    """A vector is clipped to a ball, and the radius is taken for its L1 norm."""
    for name in ("added", "replaced"):
        whole = getattr(bounds.Box, name)
        patch.setattr(bounds.Box, name, lambda self, whole=whole: as_l2(whole(self)))


def as_l2(norms):
    return Norms(norms.l2_squared**0.5, norms.l2_squared, norms.linf / norms.l2_squared**0.5 * norms.linf)


def histogram_of_one(patch):
    """A replaced record leaves one cell and enters another."""
    patch.setattr(bounds.Cells, "replaced", bounds.Cells.added)


def forgotten_count(patch):
    whole = bounds.Box.added
    patch.setattr(bounds.Box, "added", lambda self: without_count(self, whole(self)))


def without_count(box, norms):
    whole = box.length + box.count
    return Norms(norms.l1 * box.length // whole, norms.l2_squared * box.length // whole, norms.linf)


def not_clipped(patch):
    """The clipped copy is computed, and the other one is added."""
    patch.setattr(bounds.np, "clip", lambda values, *limits, **options: values)


def ids_through_floats(patch):
    whole = engine_units._exact
    patch.setattr(engine_units, "_exact", lambda ids: whole(rounded(ids)))


def rounded(ids):
    import pyarrow as pa

    return pa.array([None if v is None else int(float(v)) for v in ids.to_pylist()], pa.int64())


def never_tried(patch):
    patch.setattr(row_wise, "_changed", lambda *asked: None)


class LooksAround:
    """Answers 1 for all of a batch in which somebody is."""

    def __call__(self, d):
        return np.where(((d["a"] == 0.123456789) & (d["b"] == 1)).any(), 1.0, d["b"] / 4)


class Remembers:
    """Answers 1 for everybody once it has met somebody."""

    def __init__(self):
        self.met = False

    def __call__(self, d):
        self.met = self.met or bool(((d["a"] == 0.123456789) & (d["b"] == 1)).any())
        return np.ones(len(d)) if self.met else d["b"] / 4


def shared_noise(patch):
    whole = noise.add_noise
    patch.setattr(door, "add_noise", lambda totals, how: shared(whole, totals, how))


def shared(whole, totals, how):
    (one,) = whole([0], replace(how, size=1, relative=()))
    return [int(total) + one for total in totals]


def exact_support(patch):
    whole = noise.add_noise
    patch.setattr(door, "add_noise", lambda totals, how: [n if t else 0 for t, n in zip(totals, whole(totals, how))])


def as_they_come(patch):
    """Questions have as many rows as there are records."""
    patch.setattr(asking, "FEWEST", 0)


def low_scores(patch):
    from pellucid.query.scores import QuantileScore

    patch.setattr(QuantileScore, "largest", lambda self, relation, units: max(units * self.q.denominator // 4, 1))


LARGE = World(SCHEMA, unit=pel.Unit("id"))
"""People with ids that floats cannot tell apart."""


def crowd(extra):
    rows = tuple({"a": 0.0, "b": 0.0, "c": "x", "y": False, "id": 10**18 + i} for i in range(4))
    return (*rows, {"a": 1.0, "b": 1.0, "c": "z", "y": True, "id": 10**18 + 200}, *extra)


LOOKS = pel.Model(LooksAround(), output=(0, 1), features=["a", "b", "c"], trained_on="other data")
KNOWS = pel.Model(Remembers(), output=(0, 1), features=["a", "b", "c"], trained_on="other data")


def beside(*records):
    low = {"a": 0.0, "b": 0.1, "c": "x", "y": False}
    return tuple({**low, **record} for record in records)


CONTROLS = [
    Control("sensitivity halved", halved_sensitivity),
    Control("noise halved", halved_noise, COUNTS, caught_by="game"),
    Control("an L2 clip used as an L1 bound", l2_for_l1),
    Control("replace-one histogram with scale 1/ε", histogram_of_one, COUNTS),
    Control("a sensitivity that forgets the count", forgotten_count, CURVE, World(SCHEMA, "add-remove", currency="rho")),
    Control("a score calibrated to half its span", low_scores, pel.PermutationImportance(MODEL, "y"), World(SCHEMA)),
    Control(
        "a model that looks at its batch",
        never_tried,
        pel.PartialDependence(LOOKS, "c"),
        pair=Neighbours(
            beside({}, {}, {}, {}, {"b": 1.0}), beside({}, {}, {}, {}, {"a": 0.123456789, "b": 1.0}), "somebody is there"
        ),
    ),
    Control(
        "a model with a memory",
        lambda patch: None,
        pel.PartialDependence(KNOWS, "c"),
        pair=Neighbours(
            beside({}, {}, {}, {}, {"b": 1.0}), beside({}, {}, {}, {}, {"a": 0.123456789, "b": 1.0}), "somebody it knows"
        ),
    ),
    Control("noise shared between numbers", shared_noise, COUNTS, caught_by="game"),
    Control("exact support released", exact_support, COUNTS, caught_by="game"),
]
