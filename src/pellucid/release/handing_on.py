"""Ways out of a result: tables, other packages' objects, registries and model cards. Released numbers and public things only."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtra, PlanError
from .released import slug

if TYPE_CHECKING:
    from .explanation import Explanation

REGISTRY = "fill in"
"""What stands in an entry of the registry where only people know."""


def to_registry(explanation: Explanation, name: str = "", curator: str = "", **known: str) -> dict[str, Any]:
    """An entry for the public registry of deployments of differential privacy, from the certificate."""
    certificate = explanation.certificate
    if certificate is None:
        raise PlanError("a result without a certificate has nothing to register; release it through a session.")
    asked = certificate.explainer.get("explainer", "release")
    title = name or f"{asked} of {certificate.account}"
    zcdp = certificate.rho is not None
    parameters = {"rho": certificate.rho, "delta": certificate.delta} if zcdp else {"epsilon": certificate.epsilon}
    unprotected = [f"{what}: {how}" for what, how in certificate.protects.items() if how.startswith("not protected")]
    relation = "one unit's content is replaced" if certificate.relation == "replace" else "one unit is added or removed"
    return {
        "url_slug": slug(title),
        "deployment": {
            "basic": {
                "name": title,
                "data_curators": [{"data_curator_name": curator or REGISTRY, "data_curator_type": REGISTRY}],
                "description": explanation.headline or f"{asked}, released under differential privacy",
                "intended_use": certificate.purpose or REGISTRY,
                "data_product_type": "Summary statistics",
                "data_product_region": known.get("region", REGISTRY),
                "data_product_sector": known.get("sector", REGISTRY),
                "publication_date": certificate.day,
            },
            "dp_variant": {
                "variant_name": "Zero-concentrated DP" if zcdp else "Pure DP",
                "data_domain": "; ".join(f"{column}: {source}" for column, source in certificate.bounds.items()),
                "unprotected_quantities": "; ".join(unprotected) or "none",
            },
            "privacy_loss": {
                "privacy_unit": certificate.unit,
                "privacy_unit_details": f"neighbouring tables differ in that {relation}",
                "number_of_privacy_units": 1,
                "privacy_parameters": parameters,
                "privacy_parameters_details": f"{certificate.summary}; spent on the account so far: {_total(certificate.total)}",
            },
            "deployment_model": {
                "model_name": "Central",
                "trust_assumptions": "; ".join(certificate.assumptions) or "none",
                "release_type": "Many releases",
                "release_type_details": "one ledger adds up all releases of the account",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "bounds and grids were declared, none was read from the data",
                "mechanisms": "; ".join(f"{c['stage']}: {c['mechanism']}, {c['noise']}" for c in certificate.charges),
                "composition": "charges of an account add up" + (", as zCDP" if zcdp else ""),
                "post_processing": "division by counts, centring, sorting and smoothing of released numbers",
                "justification": "; ".join(sorted({claim for c in certificate.charges for claim in c["claims"]})),
                "additional_information": ", ".join(f"{name} {version}" for name, version in certificate.versions.items()),
            },
            "administrative": {"status": "Draft", "registry_authors": [certificate.by or REGISTRY], "tier": 3},
        },
    }


def _total(total: Mapping[str, Any]) -> str:
    return f"ε = {total['epsilon']:.6g} of {total['budget_epsilon']:.6g}" if "epsilon" in total else "see the ledger"


def model_card(explanation: Explanation, title: str = "") -> str:
    """A section of a model card, as Markdown: what was found, the numbers, and what is guaranteed to whom."""
    certificate = explanation.certificate
    asked = certificate.explainer.get("explainer", "") if certificate else ""
    lines = [f"## {title or asked or type(explanation).__name__}", ""]
    if explanation.headline:
        lines += [f"**{_cell(explanation.headline)}**", ""]
    frame = explanation.to_frame().head(24)
    lines += ["| " + " | ".join(map(_cell, frame.columns)) + " |", "|" + " --- |" * len(frame.columns)]
    lines += ["| " + " | ".join(_cell(v) for v in row) + " |" for row in frame.itertuples(index=False)]
    if len(explanation.to_frame()) > len(frame):
        lines += ["", f"The first {len(frame)} of {len(explanation.to_frame())} numbers."]
    lines += [""] + [f"- {_cell(note)}" for note in explanation.notes]
    if certificate:
        lines += ["", f"**Privacy:** {_cell(certificate.summary)}. Protected: {_cell(certificate.unit)}, {certificate.relation}."]
        lines += [f"- rests on: {_cell(one)}" for one in certificate.assumptions]
        lines += [f"- ledger entry `{certificate.entry}`, {certificate.day}"] if certificate.entry else []
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    """Text that stays one cell of a Markdown table."""
    said = f"{value:.5g}" if isinstance(value, float) else str(value)
    return " ".join(said.replace("|", "\\|").split())


def log_to(explanation: Explanation, run: Any, name: str) -> None:
    """Log a result with whatever logs as MLflow does: the module `mlflow`, or an object with its `log_text` and `log_metric`."""
    if not callable(getattr(run, "log_text", None)):
        raise PlanError(f"{type(run).__name__} has no log_text(): give the module mlflow, or what logs as it does.")
    run.log_text(explanation.to_json(), f"{name}/result.json")
    run.log_text(explanation.to_csv(), f"{name}/numbers.csv")
    run.log_text(model_card(explanation), f"{name}/model-card.md")
    with contextlib.suppress(MissingExtra):
        run.log_text(explanation.to_svg(), f"{name}/picture.svg")
    if explanation.certificate is not None:
        run.log_text(json.dumps(explanation.certificate.to_dict(), ensure_ascii=False), f"{name}/certificate.json")
        if callable(getattr(run, "log_metric", None)):
            run.log_metric(f"{name}.epsilon", explanation.certificate.epsilon)


def shap_explanation(values: Any, lower: Any, upper: Any, names: Any, base: Any = None) -> Any:
    """A `shap.Explanation` of released values with their error bars, and no data inside."""
    try:
        import shap
    except ImportError:
        raise MissingExtra("to_shap() needs shap: install it with `pip install 'pellucid[shap]'`.") from None
    # 95 % bars as the standard deviation that shap's fields are made for.
    spread = (upper - lower) / (2 * 1.96)
    return shap.Explanation(
        values=values, base_values=base, data=None, feature_names=list(names),
        lower_bounds=lower, upper_bounds=upper, error_std=spread,
    )  # fmt: skip
