"""Who writes certificates: from the charges that happened, and from what is known about explainer, models and account."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata

from ..mechanisms import Spend
from ..public.black_box import PROBES, PrivateTraining
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
) -> Certificate:
    """The certificate of a release that cost `spend` and was charged as entry `entry` of the ledger."""
    public = plan.public
    epsilon, delta, rho = account.guarantee(spend)
    conditions = _conditions(explainer, plan)
    status = "not private" if not private else "conditional" if conditions else "proved"
    return Certificate(
        status=status,
        conditions=conditions,
        assumptions=(*conditions, *_standing_assumptions(explainer, plan, account)),
        explainer=explainer.describe(),
        account=account.name,
        relation=public.relation,
        unit=public.unit.text,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        total=account.total(),
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
    )


def _conditions(explainer: Explainer, plan: Plan) -> tuple[str, ...]:
    unit, relation, conditions = plan.public.unit, plan.public.relation, []
    if not is_ours(type(explainer)):
        conditions.append(f"the explainer {type(explainer).__qualname__} is not part of Pellucid and was not reviewed")
    if not unit.column and unit.max_rows > 1:
        conditions.append(f"no person has more than {unit.max_rows} rows: there is no id column to enforce it")
    for model in explainer.models:
        if model.trained_on == "this data":
            conditions.append(
                f"the model {model.name} was trained without privacy on the same people; it is treated as public and nothing "
                "is claimed about what the model itself reveals"
            )
        if isinstance(model.trained_on, PrivateTraining):
            conditions += [f"{model.name}: {condition}" for condition in model.trained_on.conditions]
            if model.trained_on.relation not in (None, relation):
                conditions.append(
                    f"{model.name} was found under {model.trained_on.relation} neighbours; its guarantee is of that kind, "
                    f"and under {relation} it is another number"
                )
    return tuple(conditions)


def _standing_assumptions(explainer: Explainer, plan: Plan, account: OpenAccount) -> tuple[str, ...]:
    listed = [
        f"{model.name} is a function of one row (tried on {PROBES} public records, in other orders and batch sizes)"
        for model in explainer.models
    ]
    if not account.ledger.durable:
        listed.append("the ledger is in memory: the total spent is known to this process only")
    return (*listed, *explainer.assumptions(), *plan.assumptions)


def _bound_sources(explainer: Explainer, plan: Plan) -> dict[str, str]:
    schema = plan.public.schema
    sources = {name: schema[name].source or "declared in the schema, no source given" for name in explainer.columns(schema)}
    for model in explainer.models:
        sources[f"output of {model.name}"] = model.bound_text
    return sources


def _protects(explainer: Explainer, unit: Unit) -> dict[str, str]:
    says = {"explanation data": f"protected, {unit.text}"}
    for model in explainer.models:
        if isinstance(model.trained_on, PrivateTraining):
            training = f"protected by its own training, {model.trained_on.text}; a person in both pays the sum"
        elif model.trained_on == "this data":
            training = "not protected: the model was trained on these people without privacy, and is treated as public"
        else:
            training = "other data: nothing is claimed about it"
        says[f"training data of {model.name}"] = training
        says[f"the model {model.name} itself"] = "not protected: its answers appear in the release"
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
