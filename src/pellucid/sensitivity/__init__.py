"""The sensitivity workbench: how much one person can move a query, certified before anything is released.

    supremum(formula, box)               certified supremum over public ranges, with a gap
    partial(formula, box)                metric, add-remove and replace sensitivities; which attribute drives them, and where
    output_range(model, schema)          certified [min, max] of a fitted model over the declared domain
    Flow                                 the data flow of an explainer: every minimal set of stages whose noise makes it private
    individual_loss, IndividualFilter    one person's Rényi loss, and a filter that keeps everybody below a limit

Formulas need the `symbolic` extra (SymPy and python-flint), which is imported when a formula is first read.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtra
from ..public.schema import Category, Feature, Schema
from .flow import EnablingSet, Flow, Need
from .flow.graph import Vertex
from .individual import IndividualFilter, IndividualLoss, individual_loss
from .output_range import OutputRange, output_range

if TYPE_CHECKING:
    from .expressions import Formula
    from .partial_sensitivity import Partial
    from .solver import Supremum

__all__ = [
    "EnablingSet",
    "Flow",
    "IndividualFilter",
    "IndividualLoss",
    "Need",
    "OutputRange",
    "Vertex",
    "individual_loss",
    "output_range",
    "partial",
    "supremum",
]


def supremum(
    query: Any, box: Mapping[str, Any] | Schema, *, tolerance: float = 1e-6, seconds: float = 10.0, splits: int = 1_000_000
) -> Supremum:
    """The certified supremum of a formula over a box of public ranges: [best value found, certified upper bound].

    `query` is text, a SymPy expression, or a function of NumPy-like operations. The search stops when upper and lower end
    agree to the relative `tolerance`, or at the limits on `seconds` and `splits`; `.converged` and `.text` say which.
    Good up to about ten variables. Claim: certified-supremum

    >>> found = supremum("x*exp(-x)", {"x": (0, 5)})
    >>> round(found.upper, 6), found.converged
    (0.36788, True)
    """
    return _symbolic("solver").supremum(query, box, tolerance=tolerance, seconds=seconds, splits=splits)


def partial(
    query: Any,
    box: Mapping[str, Any] | Schema,
    *,
    mean_of: int | None = None,
    tolerance: float = 1e-6,
    seconds: float = 10.0,
) -> Partial:
    """Certified sensitivities of a query, and the partial sensitivity of its attributes.

    The query is Σ f over records, or their mean when `mean_of` gives the public number of records. The result has
    `.metric`, `.add_remove` and `.replace` (certified upper ends, each with the relation it is valid for), `.share(point)` and
    `.gradient(point)`, `.individual_loss(point, sigma)`, `.text` and `.plot()`. `seconds` limits each search.
    Paper: "Partial sensitivity analysis in differential privacy"; its definition 3 is `gradient`, its equation 6 `share`.

    >>> p = partial("a**2 + exp(2*b - a)", {"a": (1, 2), "b": (0.5, 3)})
    >>> round(p.metric, 3), round(p.add_remove, 2), round(p.replace, 2)
    (330.972, 149.41, 147.41)
    >>> p.share((1.5, 2)).round(3).tolist(), p.gradient((1.5, 2)).round(2).tolist()
    ([-0.353, 0.936], [-27.8, 54.19])
    """
    return _symbolic("partial_sensitivity").partial(query, box, mean_of=mean_of, tolerance=tolerance, seconds=seconds)


def named_formula(query: Any) -> Formula:
    """The formula of a query whose names are columns; their ranges come later, from the schema."""
    return _symbolic("expressions").named_formula(query)


def numeric_features(schema: Schema) -> dict[str, Feature]:
    """The columns a formula can compute with."""
    return {name: schema[name] for name in schema if not isinstance(schema[name], Category) or schema[name].numeric}  # type: ignore[union-attr]


def _symbolic(module: str) -> Any:
    try:
        return importlib.import_module(f".{module}", __name__)
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("sympy", "flint", "mpmath"):
            raise
    raise MissingExtra("formulas need SymPy and python-flint: install them with `pip install 'pellucid[symbolic]'`.")
