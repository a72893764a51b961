"""One certificate for several releases: what they guarantee together, and all that it rests on, each thing said once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from ..errors import PlanError
from .certificate import Certificate, total

T = TypeVar("T")


def combined(parts: Mapping[str, Certificate], what: str = "Report") -> Certificate:
    """The certificate of releases from one account, by name. Its ε, δ and ρ are those of `total`, its charges those of all.

    It has no entry of its own in the ledger: the entries of its parts are in `.explainer["parts"]`. Claim: composition
    """
    listed = list(parts.values())
    if not listed:
        raise PlanError("a certificate of nothing: give the certificates of at least one release.")
    if len({(one.account, one.ledger) for one in listed}) > 1:
        raise PlanError("one certificate is for one account; pel.total() adds up releases of several.")
    sums = total(listed)
    # The account's total as it was after the last of them.
    latest = max(listed, key=lambda one: one.total["epsilon"])
    bounded = all(one.total["bounded"] for one in listed)
    charges, counted = [], set[Any]()
    for name, one in parts.items():
        # A charge that several answers share is one charge.
        if (key := one.entry or id(one)) not in counted:
            counted.add(key)
            charges += [{**charge, "stage": f"{name}, {charge['stage']}"} for charge in one.charges]
    return Certificate(
        status=sums.status,
        conditions=_each(text for one in listed for text in one.conditions),
        assumptions=_each(text for one in listed for text in one.assumptions),
        explainer={
            "explainer": what,
            "parts": [
                {"name": name, "explainer": one.explainer.get("explainer"), "epsilon": one.epsilon, "entry": one.entry}
                for name, one in parts.items()
            ],
        },
        account=latest.account,
        relation=sums.relation,
        unit="; ".join(sums.units),
        epsilon=sums.epsilon,
        delta=sums.delta,
        rho=sums.rho,
        total={**latest.total, "bounded": bounded},
        charges=tuple(charges),
        protects=_joined(one.protects for one in listed),
        bounds=_joined(one.bounds for one in listed),
        references=_each(text for one in listed for text in one.references),
        by=latest.by,
        purpose=latest.purpose,
        day=max(one.day for one in listed),
        ledger=latest.ledger,
        entry="",
        versions=_joined(one.versions for one in listed),
        cells=_joined(one.cells or {} for one in listed) or None,
    )


def _each(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


def _joined(said: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What several say of the same things; where they say different things of one, all of it."""
    found: dict[str, dict[str, None]] = {}
    for one in said:
        for name, text in one.items():
            found.setdefault(name, {})[text] = None
    return {name: "; ".join(texts) for name, texts in found.items()}
