"""What a check found, and the small public table that checks are made with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ...explainers import (
    Completeness,
    Distribution,
    Explainer,
    PartialDependence,
    PermutationImportance,
    ShapImportance,
    Statistic,
)
from ...public.model import Model
from ...public.schema import Category, Number, Schema

SCHEMA = Schema({"age": Number(17, 90), "dose": Number(0, 1), "sex": Category(["F", "M"]), "outcome": Number(0, 1)})


@dataclass(frozen=True)
class Finding:
    """What a check found."""

    name: str
    passed: bool
    text: str

    @property
    def verdict(self) -> str:
        return "holds" if self.passed else f"broken: {self.text}"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def small_table(rows: int = 40) -> dict[str, list[Any]]:
    ages = [float(17 + i % 70) for i in range(rows)]
    sexes = ["F", "M"] * (rows // 2) + ["F"] * (rows % 2)
    return {"age": ages, "dose": [0.5] * rows, "sex": sexes, "outcome": [1.0] * rows}


def explainers() -> list[Explainer]:
    """A few of each family, of the small table; their shapes are public."""
    model = Model(by_dose, output=(0, 1), features=["age", "dose", "sex"], trained_on="other data")
    return [
        Distribution("sex"),
        Distribution("age"),
        Statistic("age*dose"),
        Completeness(),
        PartialDependence(model, "sex"),
        PartialDependence(model, "age", points=3),
        PermutationImportance(model, "outcome", repeats=1),
        ShapImportance(model, public_background=[{"age": 40.0, "dose": 0.5, "sex": "F"}], permutations=2),
    ]


def by_dose(rows: Any) -> Any:
    return rows["dose"]
