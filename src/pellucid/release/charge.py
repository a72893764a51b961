"""One use of the budget in words: what was asked, how much noise it got, on which claims that rests."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from ..mechanisms import Choosing, Mechanism
from ..query import Choice, Query, Reading, Sum, changes, released_parts
from ..query.bound import UNITS
from .plan import Public

NOISE_NAMES = {"laplace": "discrete Laplace", "gaussian": "discrete Gaussian", "k-norm": "K-norm (L∞) on integers"}


@dataclass(frozen=True)
class Charge:
    """One use of the budget, as it goes on the certificate."""

    stage: str
    mechanism: str
    amount: Fraction
    norm: str
    sensitivity: str
    noise: str
    bound: str
    enforced: bool
    claims: tuple[str, ...]

    def to_dict(self, currency: str) -> dict[str, Any]:
        """As it stands in the JSON of a certificate."""
        told = {"stage": self.stage, "mechanism": self.mechanism, "currency": currency}
        return {**told, **asdict(self), "amount": float(self.amount), "claims": list(self.claims)}


def noise_charge(
    stage: str, amount: Fraction, query: Query, how: Mechanism, public: Public, *claims: str, worth: str = ""
) -> Charge:
    """A draw of noise. `worth` replaces what the parts say about their units."""
    parts = released_parts(query)
    worth = worth or "; ".join(dict.fromkeys(p.released.scale_text for p in parts))
    listed = [c for p in parts for c in (p.bound.claim, *_claims_of(p))] + (["joint-sum"] if len(parts) > 1 else [])
    return Charge(
        stage,
        NOISE_NAMES[how.kind],
        amount,
        how.norm,
        f"{how.sensitivity / UNITS:.6g} × 2^30 grid units ({changes_text(parts, public)})",
        f"scale {float(how.scale) / UNITS:.6g} × 2^30 grid units over {how.size} coordinates; 2^30 units are {worth}",
        "; ".join(p.bound.text for p in parts),
        all(p.bound.enforced for p in parts),
        tuple(dict.fromkeys([*listed, *claims, *unit_claims(public), how.claim])),
    )


def choice_charge(stage: str, amount: Fraction, choice: Choice, how: Choosing, public: Public) -> Charge:
    """A private choice."""
    part = choice.of if isinstance(choice.of, Sum) else choice.of.sums[0]
    told = choice.score.charged(how, choice.bound, changes_text((part,), public))
    claims = (choice.bound.claim, *_claims_of(part), choice.score.claim, *unit_claims(public), how.claim)
    return Charge(stage, how.name, amount, "span of the score", *told, choice.bound.text, False, claims)


def changes_text(parts: tuple[Sum | Reading, ...], public: Public) -> str:
    """How many contributions one unit touches, in words."""
    said = []
    for over in dict.fromkeys(p.over for p in parts):
        added, replaced = changes(over, public.relation)
        told = [f"{added} added" if added else "", f"{replaced} replaced" if replaced else ""]
        said.append(f"{type(over).__name__.lower()}: {' and '.join(filter(None, told))}")
    k = public.rows_per_unit
    return f"{k} rows × ({'; '.join(said)})" if k > 1 else "; ".join(said)


def unit_claims(public: Public) -> list[str]:
    """The claims that several rows of one unit, and those of a part, rest on."""
    unit, part = public.unit, ["parts"] if public.part is not None else []
    return part + (["person-average"] if unit.column else ["group-rows"] if unit.max_rows > 1 else [])


def _claims_of(part: Sum | Reading) -> tuple[str, ...]:
    own = (part.image.claim,) if isinstance(part, Reading) else ()
    name = type(part.over).__name__.lower()
    return own if name == "records" else (*own, name)
