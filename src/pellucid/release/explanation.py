"""Released numbers and their certificate. An explanation holds no rows, no model and no record asked about."""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import types
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd

from ..errors import LoadError, PlanError
from ..mechanisms import NoiseLaw
from ..public.labels import Labels
from ..public.texts import storable
from .certificate import Certificate
from .uncounted import Uncounted

FORMAT = 1
"""Version of the saved JSON; `load` refuses what it does not know."""

PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg")

_KINDS: dict[str, type[Explanation]] = {}


@dataclass(frozen=True, eq=False, kw_only=True)
class Explanation(ABC):
    """Base of all results: what was released, error bars from the public law of the noise, a picture, a certificate."""

    certificate: Certificate | None = field(default=None, repr=False)
    """What is guaranteed about the release, to whom, resting on what."""
    uncounted: Uncounted | None = field(default=None, repr=False)
    """How many records were left out because a cell of theirs says nothing; None where every record counts."""
    labels: Labels | None = field(default=None, repr=False)
    """What people call the columns and the output; None where the schema says nothing of that."""
    kind: ClassVar[str] = ""
    """The name by which saved explanations of this class are known, for good."""
    newer: ClassVar[tuple[str, ...]] = ()
    """Fields that saved explanations of before do not have: left out where they are None, so that these stay as they were."""

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        # Read from the class itself: a subclass of somebody's own must not take the place of the one it derives from.
        own = cls.__dict__.get("kind")
        if own:
            if _KINDS.get(own, cls).__qualname__ != cls.__qualname__:
                raise PlanError(f"{cls.__name__}.kind = {own!r}: saved files know another one by it; choose one of your own.")
            _KINDS[own] = cls

    @abstractmethod
    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) per output: contains the value without noise with probability `level`."""

    @abstractmethod
    def to_frame(self) -> pd.DataFrame:
        """The released numbers as a table, a row for each; all results have the same columns in the same order.

        `feature` is what a number is about; `x`, where along it (only where a result has places); `value`, the released number;
        `lower` and `upper`, its 95 % error bar. NaN stands where nothing was released. What else a result knows, such as a
        cluster or a tier, follows in columns of its own.
        """

    @abstractmethod
    def plot(self, ax: Any = None) -> Any:
        """Draw it with its error band; returns the axes. Needs the `plots` extra."""

    def content(self) -> dict[str, Any]:
        found = {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name != "certificate"}
        # As it was before records could be left out, and before there were newer fields.
        return {
            name: value for name, value in found.items() if value is not None or name not in ("uncounted", "labels", *self.newer)
        }

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Explanation:
        known = _field_types(cls)
        return cls(**{name: _revived(known[name], value) for name, value in content.items() if name in known})

    def to_json(self) -> str:
        """Everything released, with the certificate, as versioned JSON."""
        body = {
            "format": FORMAT,
            "kind": self.kind,
            "content": self.content(),
            "certificate": self.certificate.to_dict() if self.certificate else None,
        }
        text = json.dumps(body, ensure_ascii=False)
        # What was paid for is stored whatever its labels hold: half a character is escaped, and read back as it was.
        return text if storable(text) else json.dumps(body)

    def save(self, path: str | Path) -> None:
        """Write `to_json()` to a file; `pellucid.load` reads it back."""
        if Path(path).suffix.lower() in PICTURES:
            raise PlanError(f"save() writes JSON; for a picture call plot(), then matplotlib.pyplot.savefig({str(path)!r}).")
        Path(path).write_text(self.to_json(), encoding="utf-8")

    def certified(self, certificate: Certificate) -> Explanation:
        return replace(self, certificate=certificate)

    def labelled(self, labels: Labels | None) -> Explanation:
        """With what people call its columns, and so the results in it."""
        if labels is None:
            return self
        inner = {
            f.name: _labelled(getattr(self, f.name), labels) for f in fields(self) if f.name not in ("labels", "certificate")
        }
        feature = getattr(self, "feature", None)
        own = labels.only([feature]) if isinstance(feature, str) and not hasattr(self, "features") else labels
        return replace(self, labels=own, **{name: value for name, value in inner.items() if value is not None})

    @property
    def naming(self) -> Labels:
        """What people call its columns: labels where the schema has them, else names."""
        return self.labels or Labels()

    @property
    def headline(self) -> str:
        """What was found, in one sentence that its error bars bear out; empty where there is none."""
        return ""

    def __str__(self) -> str:
        """When printed: the numbers, what has to be said beside them, and what was paid. `.certificate` says the rest."""
        numbers = self.to_frame().to_string(index=False, max_rows=24)
        paid = self.certificate.summary if self.certificate else "no certificate"
        return "\n".join([numbers, *self.notes, paid])

    def _repr_html_(self) -> str:
        """In a notebook: the picture, the numbers and the certificate."""
        from .display import of_explanation

        return of_explanation(self)

    def to_svg(self, style: bool = True, **options: Any) -> str:
        """The picture as SVG: dark where the page is, and a pointer is told numbers and error bars. It asks for nothing outside.

        `style=False` leaves the style out, for a page that has `release.drawing.STYLE` once. Other options are those of `plot`.
        """
        from .drawing import svg

        return svg(self, style, **options)

    def to_csv(self, path: str | Path | None = None) -> str:
        """`to_frame()` as CSV text; with a path it is also written there."""
        text = self.to_frame().to_csv(index=False)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """`to_frame()` for whoever reads Arrow: polars, DuckDB, pyarrow."""
        made = self.to_frame()
        # A column of places may hold numbers and words ("missing"), which Arrow has no type for.
        mixed = [name for name in made if made[name].dtype == object]
        return made.astype(dict.fromkeys(mixed, str)).__arrow_c_stream__(requested_schema)

    def to_registry(self, name: str = "", curator: str = "", **known: str) -> dict[str, Any]:
        """An entry for the public registry of deployments of differential privacy, filled in from the certificate.

        `name` is what the release is called, `curator` who publishes it; `region` and `sector` may be given, too. What only
        people know says "fill in".
        """
        from .handing_on import to_registry

        return to_registry(self, name, curator, **known)

    def to_model_card(self, title: str = "") -> str:
        """A section of a model card, as Markdown: what was found, the numbers, and what is guaranteed. `title` is its heading."""
        from .handing_on import model_card

        return model_card(self, title)

    def log_to(self, run: Any, name: str = "explanation") -> None:
        """Log it as artifacts of MLflow: `explanation.log_to(mlflow, "age")`. `run` is anything that logs as MLflow does."""
        from .handing_on import log_to

        log_to(self, run, name)

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be said beside the numbers, of this result and of those in it: how many records were not counted, and what
        groups of features are made of."""
        shown = getattr(self, "features", ())
        own: tuple[str, ...] = (self.uncounted.sentence,) if self.uncounted else ()
        own += self.naming.together(shown if isinstance(shown, tuple) else ())
        held = [getattr(self, f.name) for f in fields(self)]
        inner = [result for value in held for result in (value.values() if isinstance(value, dict) else (value,))]
        found = (*own, *(note for result in inner if isinstance(result, Explanation) for note in result.notes))
        return tuple(dict.fromkeys(found))

    def _beside(self) -> dict[str, Any]:
        """Columns of `to_frame` about records that were left out; none where every record counts."""
        return self.uncounted.columns_of_frame() if self.uncounted else {}

    def cite(self) -> str:
        """The references behind this very release."""
        return "\n".join(self.certificate.references if self.certificate else ())


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, NoiseLaw | Uncounted | Labels):
        return value.to_dict()
    if isinstance(value, Explanation):
        return {"kind": value.kind, "content": value.content()}
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value


def _labelled(value: Any, labels: Labels) -> Any:
    """A result, or a mapping of results, with labels; None for anything else."""
    if isinstance(value, Explanation):
        return value.labelled(labels)
    if isinstance(value, dict) and value and all(isinstance(one, Explanation) for one in value.values()):
        return {name: one.labelled(labels) for name, one in value.items()}
    return None


@functools.cache
def _field_types(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls)}


def _revived(declared: Any, value: Any) -> Any:
    """A value of the saved JSON as the type its field is declared with."""
    origin, inner = get_origin(declared), get_args(declared)
    if value is None:
        return None
    if origin in (Union, types.UnionType):
        return _revived(next(arm for arm in inner if arm is not type(None)), value)
    if declared is np.ndarray:
        return np.array(value, dtype=float)
    if declared in (NoiseLaw, Uncounted, Labels):
        return declared.from_dict(value)
    if isinstance(declared, type) and issubclass(declared, Explanation):
        return _of_kind(value["kind"]).from_content(value["content"])
    if origin is tuple:
        each = itertools.repeat(inner[0]) if inner[-1] is Ellipsis else inner
        return tuple(_revived(kind, v) for kind, v in zip(each, value))
    if origin is dict:
        return {k: _revived(inner[1], v) for k, v in value.items()}
    return value


def _of_kind(kind: str) -> type[Explanation]:
    if kind not in _KINDS:
        # Kinds are known once their classes are imported, which somebody who uses this module alone has not done.
        getattr(importlib.import_module(__name__.partition(".")[0]), Explanation.__name__)
    if kind not in _KINDS:
        raise LoadError(f"saved explanation of kind {kind!r}: this version does not know it; upgrade pellucid.")
    return _KINDS[kind]


def frame(feature: Any, value: Any, lower: Any, upper: Any, x: Any = None, **more: Any) -> pd.DataFrame:
    """A table in the columns of `Explanation.to_frame`. A single feature may be given once for all rows."""
    value = np.asarray(value, dtype=float)
    about = [feature] * len(value) if isinstance(feature, str) else list(feature)
    place = {} if x is None else {"x": list(x)}
    return pd.DataFrame({"feature": about, **place, "value": value, "lower": lower, "upper": upper, **more})


def checked_level(level: float) -> float:
    """The probability of an error bar, as a plain number."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.floating) or not 0 < level < 1:
        raise PlanError(f"level={level!r}: give a probability between 0 and 1, for example 0.95.")
    return float(level)


def saved(text: str) -> dict[str, Any]:
    """What `to_json()` wrote, as it was written: "format", "kind", "content" and "certificate"."""
    try:
        body: dict[str, Any] = json.loads(text)
        version, _, _ = body["format"], body["kind"], body["content"]
    except (json.JSONDecodeError, KeyError, TypeError):
        raise LoadError("this is not a saved explanation; use a file written by save().") from None
    if version != FORMAT:
        raise LoadError(f"saved explanation of format {version!r}: this version reads format {FORMAT}; upgrade pellucid.")
    return body


def from_json(text: str) -> Explanation:
    """An explanation from the text of `to_json()`."""
    body = saved(text)
    explanation = _of_kind(body["kind"]).from_content(body["content"])
    return explanation.certified(Certificate.from_dict(body["certificate"])) if body.get("certificate") else explanation


def load(path: str | Path) -> Explanation:
    """Read an explanation saved by `save`."""
    if Path(path).is_dir():
        raise LoadError(f"{str(path)!r} is a folder; load the files in it one by one.")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise LoadError(f"{str(path)!r} cannot be read; give the path of a file written by save().") from None
    return from_json(text)
