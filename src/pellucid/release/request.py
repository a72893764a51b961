"""A request as canonical text: what is asked, of which models under which schema, for how much.

All that decides what is released, or what its certificate says, is in the text: what the explainer says of itself, every setting
it shows, and of each model what it is given and how it answers. A record asked about is there as a digest only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from ..errors import PlanError
from ..public.black_box import BlackBox
from ..public.ready import Ready
from ..query.reviewed import is_ours
from .explainer import Explainer
from .explanation import Explanation
from .plan import Public

FORM = 2
"""Of request texts. The first had no number, and left out features of models and whether one thing or a list was asked for."""


@dataclass(frozen=True)
class Request:
    """One request in the words of the ledger."""

    text: str
    """All that was asked; two requests are identical when their texts are."""
    first_text: str
    """The same in the form of the version before, by which its ledgers know it. Nothing is stored under it any more."""

    @property
    def key(self) -> str:
        """What the ledger knows the request by."""
        return _digest(self.text)

    @property
    def first_key(self) -> str:
        """What a ledger of the version before knows it by."""
        return _digest(self.first_text)


def request_of(explainer: Explainer, public: Public, **more: Any) -> Request:
    """The request of a release, or with `more` of a stream."""
    schema, models, described = public.schema, explainer.models, explainer.describe()
    ready = [model.ready(schema) for model in models]
    common = {
        "class": explainer.stored_name(),
        "schema": hashlib.sha256(json.dumps(schema.declared, sort_keys=True).encode()).hexdigest(),
        "currency": public.spend.currency,
        "amount": str(public.spend.amount),
        "expected_rows": public.expected_rows,
        **_left_out(explainer, public),
        **_grouped(explainer, public),
        **({} if public.part is None else {"part": public.part.stored}),
        **more,
    }
    asked = {
        "form": FORM,
        "columns": list(explainer.columns(schema)),
        "settings": _settings(explainer),
        "models": [_model(*pair) for pair in zip(models, ready)],
    }
    texts = ({**described, **common, **said} for said in (asked, _first(explainer, ready)))
    return Request(*(_text(explainer, body) for body in texts))


def audit_key(request: Request, public: Public) -> str:
    """What the audit of a request is known by. An account has one relation and one unit; whoever keeps audits may change them."""
    return _digest(f"{request.text} {public.protects} {public.unit.text}")


def is_answered_by(explainer: Explainer, public: Public, stored: Explanation) -> bool:
    """Whether a release that was found by the first key is of this request: that key was the same for several."""
    bounds = stored.certificate.bounds if stored.certificate is not None else {}
    columns = {name for name in bounds if name in public.schema}
    return columns == set(explainer.columns(public.schema)) and explainer.has_shape_of(stored)


def _model(model: BlackBox, ready: Ready) -> dict[str, Any]:
    return {
        "fingerprint": ready.fingerprint,
        "features": list(ready.features),
        "input": ready.input,
        "answers": model.declared,
        "said": ready.answers,
        "positive": repr(getattr(model, "positive", None)),
        "provenance": _provenance(model),
    }


def _provenance(model: BlackBox) -> str:
    return f"{model.provenance} {model.trained_on!r}"


def _settings(explainer: Explainer) -> dict[str, Any]:
    """Every setting that an explainer shows. What has no plain form, such as a function, is in `describe` by a digest; of an
    explainer of somebody's own nobody knows that, so it counts as what it is printed as."""
    if not is_dataclass(explainer):
        return {}
    shown = {f.name: _plain(getattr(explainer, f.name)) for f in fields(explainer) if f.repr}
    if not is_ours(type(explainer)):
        shown = {name: repr(getattr(explainer, name)) if value is _NOT_PLAIN else value for name, value in shown.items()}
    return {name: value for name, value in shown.items() if value is not _NOT_PLAIN}


_NOT_PLAIN = object()


def _plain(value: Any) -> Any:
    """Numbers, text and lists or mappings of them as they go into the text, where 1, 1.0, true and "1" differ."""
    if isinstance(value, BlackBox):
        return "model"
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "describe"):
        return _plain(value.describe())
    if isinstance(value, list | tuple):
        inner = [_plain(v) for v in value]
        return _NOT_PLAIN if _NOT_PLAIN in inner else inner
    if isinstance(value, Mapping):
        return _plain([[repr(k), v] for k, v in sorted(value.items(), key=repr)])
    return _NOT_PLAIN


def _first(explainer: Explainer, ready: Sequence[Ready]) -> dict[str, Any]:
    """What the first form said of models and of explainers of somebody's own."""
    said = {
        "models": [tried.fingerprint for tried in ready],
        "outputs": [model.declared for model in explainer.models],
        "provenance": [_provenance(model) for model in explainer.models],
    }
    if is_ours(type(explainer)) or not is_dataclass(explainer):
        return said
    settings = {f.name: getattr(explainer, f.name) for f in fields(explainer) if f.repr}
    return {**said, "settings": {name: repr(value) for name, value in settings.items() if not isinstance(value, BlackBox)}}


def _text(explainer: Explainer, body: dict[str, Any]) -> str:
    try:
        text = json.dumps(body, sort_keys=True, ensure_ascii=False)
        text.encode()
        return text
    except (TypeError, ValueError):
        raise PlanError(
            f"{type(explainer).__name__} was given a setting that is neither a number, plain Unicode text, nor a list of these."
        ) from None


def _left_out(explainer: Explainer, public: Public) -> dict[str, Any]:
    """Columns whose missing cells are not counted: an earlier version counted them, and its release is another one."""
    columns = explainer.leaves_out(public.schema)
    return {"left out": list(columns)} if columns else {}


def _grouped(explainer: Explainer, public: Public) -> dict[str, Any]:
    """Features that count as one, wherever they were declared; without any, requests are those of earlier versions."""
    groups = explainer.grouping(public.schema)
    return {"feature groups": groups.plain()} if groups else {}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
