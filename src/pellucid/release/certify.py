"""Who writes certificates: from the charges that happened, and from what is known about explainer, models and account."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from typing import Any

from ..errors import PlanError
from ..mechanisms import Spend
from ..mechanisms.labels import ASSUMPTION as LABELS
from ..public.asking import STRICT
from ..public.black_box import BlackBox, PrivateTraining
from ..public.fitted import read as fitted
from ..public.model import ReadyModel
from ..public.schema import Unit
from ..query.reviewed import is_ours
from .account import OpenAccount
from .certificate import Certificate
from .charge import Charge
from .explainer import Explainer
from .plan import Plan


@dataclass(frozen=True)
class Asker:
    """Who asks, and why: for the ledger and the certificate."""

    by: str = ""
    purpose: str = ""


def certificate_of(
    explainer: Explainer,
    plan: Plan,
    account: OpenAccount,
    asker: Asker,
    *,
    spend: Spend,
    charges: Sequence[Charge],
    private: bool,
    entry: str,
    total: dict[str, Any],
) -> Certificate:
    """The certificate of a release that cost `spend` and was charged as entry `entry` of the ledger.

    `total` is what the account has spent in all.
    """
    public = plan.public
    epsilon, delta, rho = account.guarantee(spend)
    conditions = _conditions(explainer, plan)
    return Certificate(
        status=_status(private, conditions, explainer, plan),
        conditions=conditions,
        assumptions=(*conditions, *_standing_assumptions(explainer, plan, account), *_of_labels(charges)),
        explainer=_asked(explainer, plan),
        account=account.name,
        relation=public.protects,
        unit=public.unit.text,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        total={**total, "bounded": total["bounded"] and private},
        charges=tuple(charge.to_dict(spend.currency) for charge in charges),
        protects=_protects(explainer, public.unit),
        bounds=_bound_sources(explainer, plan),
        references=explainer.references,
        by=asker.by,
        purpose=asker.purpose,
        day=datetime.date.today().isoformat(),
        ledger=account.ledger_name,
        entry=entry,
        versions=_versions(),
        cells=explainer.cell_policies(public.schema),
        part=None if public.part is None else public.part.stored,
    )


def drafted(explainer: Explainer, plan: Plan, account: OpenAccount, asker: Asker) -> Certificate:
    """The certificate of a release before it is paid for: whatever cannot be said or stored is refused now, not afterwards."""
    draft = certificate_of(
        explainer, plan, account, asker, spend=plan.public.spend, charges=(), private=True, entry="", total={"bounded": True}
    )
    try:
        json.dumps(draft.to_dict(), ensure_ascii=False).encode()
    except (TypeError, ValueError):
        raise PlanError(
            f"{type(explainer).__name__}: a name, label or text of this request cannot be stored; give plain Unicode text, "
            "numbers and lists of these. Nothing was charged."
        ) from None
    return draft


def completed(draft: Certificate, charges: Sequence[Charge], currency: str, private: bool, entry: str, total: Any) -> Certificate:
    """A drafted certificate with what happened since."""
    return replace(
        draft,
        status=draft.status if private else "not private",
        charges=tuple(charge.to_dict(currency) for charge in charges),
        assumptions=(*draft.assumptions, *_of_labels(charges)),
        total={**total, "bounded": total["bounded"] and private},
        entry=entry,
    )


def _status(private: bool, conditions: Sequence[str], explainer: Explainer, plan: Plan) -> str:
    """Plainly proved is only what was read and understood: everything that touched a row."""
    if not private:
        return "not private"
    if conditions:
        return "conditional"
    if plan.trial is not None:
        return "proved for isolated functions"
    return "proved for row-wise models" if explainer.only_asked(plan) else "proved"


def _conditions(explainer: Explainer, plan: Plan) -> tuple[str, ...]:
    unit, relation, conditions = plan.public.unit, plan.public.protects, []
    if not is_ours(type(explainer)):
        conditions.append(f"the explainer {type(explainer).__qualname__} is not part of Pellucid and was not reviewed")
    if not unit.column and unit.max_rows > 1:
        conditions.append(f"no person has more than {unit.max_rows} rows: there is no id column to enforce it")
    conditions += explainer.conditions()
    for used in explainer.relies_on:
        if used.trained_on == "this data":
            made = (
                f"the model {used.name} was trained without privacy on the same people"
                if isinstance(used, BlackBox)
                else f"{used.name} was made from the same people's records without privacy"
            )
            itself = "the model itself" if isinstance(used, BlackBox) else f"{used.name} itself"
            conditions.append(f"{made}; it is treated as public and nothing is claimed about what {itself} reveals")
        if isinstance(used.trained_on, PrivateTraining):
            conditions += [f"{used.name}: {condition}" for condition in used.trained_on.conditions]
            if used.trained_on.relation not in (None, relation):
                conditions.append(
                    f"{used.name} was found under {used.trained_on.relation} neighbours; its guarantee is of that kind, "
                    f"and under {relation} it is another number"
                )
    return tuple(conditions)


def _standing_assumptions(explainer: Explainer, plan: Plan, account: OpenAccount) -> tuple[str, ...]:
    asked = explainer.only_asked(plan)
    listed = [model.assumption + model.ready(plan.public.schema).manner for model in asked]
    if plan.public.strict and asked:
        listed.append(
            f"the models were asked about {STRICT:,} records at a time, each time in a process of its own: they carry nothing "
            "from one such question to the next, but could within one"
        )
    part = plan.public.part
    if part is not None and part.apart:
        listed.append(
            "the account's table is the same in all its sessions unless it was said to have changed: a record that had moved to "
            "another part would have paid in both"
        )
    if not account.ledger.durable:
        listed.append("the ledger is in memory: the total spent is known to this process only")
    return (*listed, *explainer.assumptions(), *plan.assumptions)


def _of_labels(charges: Sequence[Charge]) -> tuple[str, ...]:
    """What is assumed of secret labels, where they decided something."""
    return (LABELS,) if any(BY_LABELS & {*charge.claims} for charge in charges) else ()


BY_LABELS = {"pairs", "couples", "blocks", "person-average"}
"""Claims about what follows from secret labels."""


def _asked(explainer: Explainer, plan: Plan) -> dict[str, Any]:
    """The request as plain data, with the features that count as one."""
    groups = explainer.grouping(plan.public.schema)
    return {**explainer.describe(), **({"feature groups": groups.plain()} if groups else {})}


def _bound_sources(explainer: Explainer, plan: Plan) -> dict[str, str]:
    schema, part = plan.public.schema, plan.public.part
    names = dict.fromkeys((*explainer.columns(schema), *(() if part is None else part.where.columns)))
    sources = {name: schema[name].source or "declared in the schema, no source given" for name in names}
    asked = explainer.only_asked(plan)
    for model in explainer.models:
        ready = model.ready(schema)
        remarks = [
            ready.remark,
            fitted.remark(ready, any(model is one for one in asked)) if isinstance(ready, ReadyModel) else "",
        ]
        sources[f"output of {model.name}"] = "; ".join([model.bound_text, *filter(None, remarks)])
    for group, members in explainer.grouping(schema).items():
        sources[f"group {group}"] = f"{', '.join(members)}: they count as one feature"
    return sources


def _protects(explainer: Explainer, unit: Unit) -> dict[str, str]:
    says = {"explanation data": f"protected, {unit.text}"}
    for used in explainer.relies_on:
        model = isinstance(used, BlackBox)
        if isinstance(used.trained_on, PrivateTraining):
            training = f"protected by its own training, {used.trained_on.text}; a person in both pays the sum"
        elif used.trained_on == "this data":
            made = "the model was trained on these people" if model else "it was made from these people's records"
            training = f"not protected: {made} without privacy, and is treated as public"
        else:
            training = "other data: nothing is claimed about it"
        says[f"training data of {used.name}"] = training
        if model:
            says[f"the model {used.name} itself"] = "not protected: its answers appear in the release"
        else:
            says[f"{used.name} itself"] = "not protected: what the function makes of it appears in the release"
    return {**says, "record asked about": explainer.about_record()}


@cache
def _versions() -> dict[str, str]:
    found = {}
    for package in ("pellucid", "opendp", "numpy"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "unknown"
    return found
