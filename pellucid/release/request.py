"""A request as canonical text: what is asked, of which models under which schema, for how much."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any

from ..errors import PlanError
from ..public.black_box import BlackBox
from ..query.reviewed import is_ours
from .explainer import Explainer
from .plan import Public


def request_text(explainer: Explainer, public: Public, **more: Any) -> str:
    """The request of a release; two requests are identical when this text is."""
    body = {
        **explainer.describe(),
        "class": explainer.stored_name(),
        "models": [m.ready(public.schema).fingerprint for m in explainer.models],
        "outputs": [m.declared for m in explainer.models],
        "provenance": [f"{m.provenance} {m.trained_on!r}" for m in explainer.models],
        "schema": hashlib.sha256(json.dumps(public.schema.to_dict(), sort_keys=True).encode()).hexdigest(),
        "currency": public.spend.currency,
        "amount": str(public.spend.amount),
        "expected_rows": public.expected_rows,
        **_undescribed(explainer),
        **more,
    }
    try:
        text = json.dumps(body, sort_keys=True, ensure_ascii=False)
        text.encode()
        return text
    except (TypeError, ValueError):
        raise PlanError(
            f"{type(explainer).__name__} was given a setting that is neither a number, plain Unicode text, nor a list of these."
        ) from None


def _undescribed(explainer: Explainer) -> dict[str, Any]:
    """All settings of an explainer of somebody's own: one that derives from ours may have settings that `describe` leaves out."""
    if is_ours(type(explainer)) or not is_dataclass(explainer):
        return {}
    settings = {f.name: getattr(explainer, f.name) for f in fields(explainer) if f.repr}
    return {"settings": {name: repr(value) for name, value in settings.items() if not isinstance(value, BlackBox)}}


def request_key(text: str) -> str:
    """What the ledger knows a request by."""
    return hashlib.sha256(text.encode()).hexdigest()
