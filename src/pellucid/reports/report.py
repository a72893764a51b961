"""What is wanted of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from ..errors import PlanError
from ..explainers import PrivateKMeans
from ..public.clustering import Clustering
from ..public.frozen import settle
from ..public.model import Model
from ..public.schema import Schema, did_you_mean

PARTS = {
    "importance": "what the model leans on",
    "curves": "how predictions move along the leading features",
    "distributions": "how the people are spread along them",
    "interactions": "which features interact",
    "decision": "what drove one decision",
    "questions": "how decisions would change, record by record",
    "clusters": "what tells groups of people apart",
}
"""What a report may hold, in its order."""


@dataclass(frozen=True)
class Report:
    """What to explain about a model: everything that is worth its price, or parts of it. `session.report` plans and releases it.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"age": pel.Number(0, 99, integer=True), "dose": pel.Number(0, 1)})
    >>> model = pel.Model(lambda d: d["age"] / 200 + d["dose"] / 2, output=(0, 1), trained_on="other data")
    >>> people = {"age": [20, 40, 60, 80] * 2500, "dose": [0.1, 0.5, 0.4, 0.9, 0.3] * 2000}
    >>> session = pel.Session(people, schema, budget=pel.Budget(epsilon=1.0))
    >>> report = session.report(pel.Report(model).only("importance", "curves"), epsilon=1.0)
    >>> sorted(step.name for step in report.plan)
    ['curve along age', 'curve along dose', 'importance']
    >>> made = report.release()
    >>> round(made.certificate.epsilon, 9), str(session.remaining)
    (1.0, 'ε = 0')
    """

    model: Model
    """The model to explain."""
    _: KW_ONLY
    target: str | None = None
    """The column that the model predicts: with it, importance is by how much worse predictions get without a feature; without it,
    by the sizes of Shapley values."""
    features: Sequence[str] | None = None
    """The features that get a curve; left out, those that lead by importance."""
    most: int = 6
    """How many curves there are at most."""
    record: Mapping[str, Any] | None = field(default=None, repr=False)
    """A record whose decision is explained. It is public to whoever asks."""
    questions: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    """Records about each of which a local explanation is asked for. They are kept in the ledger, as those of all streams are."""
    clusters: int | Clustering | PrivateKMeans | None = None
    """What tells clusters apart: so many that are looked for privately first, or a clustering that is there."""
    public_background: Any = field(default=None, repr=False)
    """Public records that Shapley values are compared with; left out, a few drawn from the schema."""
    wanted: tuple[str, ...] = tuple(PARTS)
    """The parts to choose from."""

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise PlanError(f"{type(self.model).__name__} is not a model; wrap it: pel.Model(estimator, trained_on=…).")
        if isinstance(self.most, bool) or not isinstance(self.most, int) or not 1 <= self.most <= 100:
            raise PlanError(f"most={self.most!r}: give a whole number of curves from 1 to 100.")
        if self.clusters is not None and (
            isinstance(self.clusters, bool) or not isinstance(self.clusters, int | Clustering | PrivateKMeans)
        ):
            raise PlanError(f"clusters={self.clusters!r}: give how many, a pel.Clustering, or pel.PrivateKMeans(k, features).")
        if isinstance(self.features, str):
            settle(self, features=(self.features,))
        settle(self, questions=tuple(self.questions), features=None if self.features is None else tuple(self.features))
        self._known(self.wanted)

    def only(self, *parts: str) -> Report:
        """The same report with these parts alone: "importance", "curves", "distributions", "interactions", "decision",
        "questions", "clusters"."""
        return replace(self, wanted=self._known(parts))

    def without(self, *parts: str) -> Report:
        """The same report without these parts."""
        self._known(parts)
        return replace(self, wanted=tuple(part for part in self.wanted if part not in parts))

    @staticmethod
    def _known(parts: Sequence[str]) -> tuple[str, ...]:
        for part in parts:
            if part not in PARTS:
                raise PlanError(f"a report has no part {part!r}{did_you_mean(str(part), PARTS)}; it has {', '.join(PARTS)}.")
        if not parts:
            raise PlanError(f"a report needs at least one part: {', '.join(PARTS)}.")
        return tuple(part for part in PARTS if part in parts)

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """The features of the model, in the order of the schema."""
        used = self.model.features or tuple(name for name in schema if name != self.target)
        for name in self.features or ():
            if name not in used:
                raise PlanError(f"features: the model does not use {name!r}{did_you_mean(name, used)}.")
        return tuple(name for name in schema if name in used)
