"""What exactly is guaranteed about a release, to whom, and what it rests on: written by the session from what happened."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..errors import PlanError
from ..mechanisms import epsilon_of_mix, epsilon_of_rho, to_replace

STATUS = {
    "proved": "",
    "proved for row-wise models": "it holds if the model answers for each record from that record alone, and remembers none; "
    "its code was tried on public records, not read",
    "proved for isolated functions": "it holds if the function passes nothing from one block of people to another; its code runs "
    "in a process of its own for each block, and was not read",
    "conditional": "it holds if the conditions do that come first among the assumptions",
    "not private": "this result carries no guarantee",
}
"""What a certificate may say of its guarantee, the strongest first, and what each adds in words."""

IN_MEMORY = "in memory"
"""What certificates call a ledger that is no file."""


@dataclass(frozen=True)
class Certificate:
    """One release's guarantee, in the words of a reviewer."""

    status: str
    """One of `STATUS`; "proved" alone is for what was read and understood."""
    conditions: tuple[str, ...]
    """What a conditional guarantee is conditional on."""
    assumptions: tuple[str, ...]
    """All that the guarantee rests on and that was not enforced, the conditions included."""
    explainer: dict[str, Any]
    """The request as plain data."""
    account: str
    """The private object that paid."""
    relation: str
    """Whether one unit is replaced, or added or removed."""
    unit: str
    """Whose presence is protected."""
    epsilon: float
    delta: float
    rho: float | None
    """The guarantee of this release: ε and δ, and ρ in a zCDP account."""
    total: dict[str, Any]
    """What the account has spent in all, and whether that bounds what was learned."""
    charges: tuple[dict[str, Any], ...]
    """One for each draw of noise or private choice: mechanism, sensitivity, noise, bound, claims."""
    protects: dict[str, str]
    """Whose data is protected, and whose is not."""
    bounds: dict[str, str]
    """Where every declared range comes from."""
    references: tuple[str, ...]
    """The publications behind it."""
    by: str
    """Who asked."""
    purpose: str
    """What for."""
    day: str
    """The day of the release; the moment would tell how long a run took."""
    ledger: str
    """The file that the charge is in; "in memory" if the account's total is known to one process only."""
    entry: str
    """The hash of the charge: the ledger can be asked whether it contains it."""
    versions: dict[str, str]
    """Of the packages that made it."""
    cells: dict[str, str] | None = None
    """What became of missing, unreadable and undeclared cells, column by column; None on certificates of earlier versions."""
    audited: str | None = None
    """What `Session.audit` measured of this very request, on public records, before it was released; None where it was not."""
    engine: str | None = None
    """Where rows were read; None on certificates of earlier versions."""
    part: dict[str, Any] | None = None
    """The part of the table that was asked about; None for the whole table."""

    @property
    def private(self) -> bool:
        return self.status != "not private"

    @property
    def status_line(self) -> str:
        """The status, and what a reader must not overlook about it."""
        alone = "; the total is known to one process only" if self.private and self.ledger == IN_MEMORY else ""
        said = STATUS.get(self.status, "")
        return self.status.upper() + (f": {said}" if said else "") + alone

    @property
    def summary(self) -> str:
        """What was paid, and the status, in one line."""
        return f"{_amount_words(self.epsilon, self.delta, self.rho)}; {self.status}"

    def to_dict(self) -> dict[str, Any]:
        content = asdict(self)
        for added_later in ("cells", "audited", "engine", "part"):
            if content[added_later] is None:
                del content[added_later]
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Certificate:
        sequences = {"conditions", "assumptions", "charges", "references"}
        known = {f.name for f in fields(cls)}
        values: dict[str, Any] = {k: tuple(v) if k in sequences else v for k, v in content.items() if k in known}
        return cls(**values)

    def _lines(self) -> list[tuple[str, list[str]]]:
        total = self.total
        unbounded = "" if total["bounded"] else "; NOT BOUNDED: something that is not private was released from this account"
        entry = f"entry {self.entry[:16]}…" if self.entry else "no entry of its own"
        asked = "".join([f", by {self.by}" if self.by else "", f", for {self.purpose}" if self.purpose else ""])
        return [
            ("status", [self.status_line]),
            *([("part of the table", _part_words(self.part, self.relation))] if self.part else []),
            ("guarantee of this release", self._guarantee()),
            ("spent on this account so far", [f"{_spent_words(total)}{unbounded}"]),
            ("what is protected", [f"{what}: {how}" for what, how in self.protects.items()]),
            ("charges", [_charge_words(c) for c in self.charges] or ["none: it was made of what had been released before"]),
            ("where the bounds come from", [f"{name}: {source}" for name, source in self.bounds.items()]),
            *([("cells that are not as declared", [f"{name}: {how}" for name, how in self.cells.items()])] if self.cells else []),
            ("assumptions", list(self.assumptions) or ["none"]),
            *([("audited on public records", [self.audited])] if self.audited else []),
            (
                "record",
                [
                    f"account {self.account!r}, ledger {self.ledger}, {entry}, {self.day}{asked}",
                    ", ".join(f"{name} {version}" for name, version in self.versions.items()),
                    *([f"rows were read by {self.engine}"] if self.engine else []),
                ],
            ),
        ]

    def _guarantee(self) -> list[str]:
        words = "differ in one unit's content" if self.relation == "replace" else "differ by one unit being there or not"
        lines = [f"{_amount_words(self.epsilon, self.delta, self.rho)}, for neighbours that {words}", f"unit: {self.unit}"]
        if self.relation == "add-remove":
            implied = to_replace(self.epsilon, self.delta, self.rho or 0.0)
            if self.rho is None:
                said = f"ε = {implied['epsilon']:.6g}"
            else:
                said = f"ρ = {implied['rho']:.6g} (ε = {epsilon_of_rho(implied['rho'], self.delta):.6g} at δ = {self.delta:g})"
            lines.append(f"implies {said} when one unit's content is replaced")
        return lines

    @property
    def text(self) -> str:
        """The certificate as plain text."""
        lines = [f"Certificate: {self.explainer.get('explainer', 'release')}"]
        for title, items in self._lines():
            lines.append(f"  {title}")
            lines += [f"    {item}" for item in items]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text

    @property
    def html(self) -> str:
        """The certificate as an HTML fragment."""
        rows = "".join(
            f"<tr><th>{html.escape(title)}</th><td>{'<br>'.join(html.escape(item) for item in items)}</td></tr>"
            for title, items in self._lines()
        )
        return f'<table class="certificate {self.status.replace(" ", "-")}">{rows}</table>'

    def _repr_html_(self) -> str:
        from .display import of_certificate

        return of_certificate(self)


def _amount_words(epsilon: float, delta: float, rho: float | None) -> str:
    return f"ε = {epsilon:.6g}" + (f" at δ = {delta:g} (ρ = {rho:.6g} zCDP)" if rho is not None else ", δ = 0")


def _spent_words(total: dict[str, Any]) -> str:
    budget = f"ε = {total['budget_epsilon']:.6g}" + (f", δ = {total['delta']:g}" if total["rho"] is not None else "")
    if total.get("accounting") != "either":
        return f"{_amount_words(total['epsilon'], total['delta'], total['rho'])} of {budget}"
    sides = total["sides"]
    pure = "" if sides["pure"] is None else f"pure ε = {sides['pure']:.6g} of {sides['pure_budget']:.6g}, and "
    return f"{pure}ρ = {sides['rho']:.6g} of {sides['rho_budget']:.6g}; all releases together stay within {budget}"


def _part_words(part: dict[str, Any], relation: str) -> list[str]:
    counted = (
        "charged to the records in it: of parts that no record can share, the account has spent the largest sum, not all of them"
        if part["apart"]
        else "charged to everybody: a person's rows may lie in several parts, so that all of them add up"
    )
    moves = ["noise is made for a record that leaves it and another that enters it"] if relation == "replace" else []
    return [part["said"], counted, "how many records are in it is secret", *moves]


def _charge_words(charge: dict[str, Any]) -> str:
    kind = "enforced by clipping" if charge["enforced"] else "by theorem"
    return (
        f"{charge['stage']}: {charge['mechanism']}, {charge['currency']} = {charge['amount']:.6g}; {charge['bound']} ({kind}); "
        f"{charge['norm']} sensitivity {charge['sensitivity']}; {charge['noise']}; claims {', '.join(charge['claims'])}"
    )


@dataclass(frozen=True)
class Total:
    """What several releases guarantee together."""

    epsilon: float
    delta: float
    rho: float | None
    """The guarantee of all of them: ε and δ, and ρ where all accounts are zCDP."""
    relation: str
    """Under which neighbours it holds."""
    status: str
    """The weakest status among them; where some rest on row-wise models and others on isolated functions, both are named."""
    accounts: tuple[str, ...]
    """The private objects that paid."""
    units: tuple[str, ...]
    """Whose presence is protected; where they differ, the smallest is."""

    def __str__(self) -> str:
        rho = f" (ρ = {self.rho:.6g})" if self.rho is not None else ""
        unit = (
            f"unit: {self.units[0]}"
            if len(self.units) == 1
            else f"units differ, the smallest is protected: {'; '.join(self.units)}"
        )
        return f"ε = {self.epsilon:.6g}, δ = {self.delta:g}{rho}, {self.relation}, {self.status}, {unit}"


def total(certificates: Sequence[Certificate], same_people: bool = True) -> Total:
    """What one person is exposed to through all these releases together.

    Releases of one account always add up. Across accounts they add up when the same person may be in several of them
    (`same_people=True`); otherwise the largest account counts. A guarantee for replacement says nothing about adding a
    record, so mixed relations are reported for replacement, with add-remove converted. Claims: composition, relation-conversion
    """
    listed = list(certificates)
    if not listed or not all(isinstance(c, Certificate) for c in listed):
        raise PlanError("total() takes a non-empty list of certificates, for example [e.certificate for e in explanations].")
    # A release that was loaded or replayed twice is one release; so are the answers that one charge has paid for, and the
    # worst of them says what they are together.
    unique = list({(c.entry or id(c)): c for c in sorted(listed, key=lambda c: list(STATUS).index(c.status))}.values())
    relation = "replace" if any(c.relation == "replace" for c in unique) else "add-remove"
    groups: dict[str, list[Certificate]] = {}
    for certificate in unique:
        groups.setdefault("" if same_people else certificate.account, []).append(certificate)
    sums = [_compose(group, relation) for group in groups.values()]
    # Nobody is in two groups, so the largest ε and the largest δ hold for everybody; they may come from different groups.
    epsilon, delta = max(s[0] for s in sums), max(s[1] for s in sums)
    rhos = [s[2] for s in sums if s[2] is not None]
    units = tuple(sorted({c.unit for c in unique}))
    status = _together({c.status for c in unique})
    if len(units) > 1 and status.startswith("proved"):
        status = "conditional"
    accounts = tuple(sorted({c.account for c in unique}))
    return Total(epsilon, delta, max(rhos) if len(rhos) == len(sums) else None, relation, status, accounts, units)


def _together(found: set[str]) -> str:
    """The status of several releases: the weakest, or all that a proof rests on."""
    weakest = max(found, key=list(STATUS).index)
    rests_on = [status.removeprefix("proved for ") for status in STATUS if status in found and status.startswith("proved for ")]
    return f"proved for {' and '.join(rests_on)}" if weakest.startswith("proved for ") else weakest


def _compose(group: Sequence[Certificate], relation: str) -> tuple[float, float, float | None]:
    rho = pure = 0.0
    delta = 0.0
    for c in group:
        convert = relation == "replace" and c.relation == "add-remove"
        if c.rho is None:
            pure += to_replace(epsilon=c.epsilon)["epsilon"] if convert else c.epsilon
        else:
            rho += to_replace(rho=c.rho)["rho"] if convert else c.rho
            delta = max(delta, c.delta)
    if rho == 0:
        return pure, 0.0, None
    if pure == 0:
        return epsilon_of_rho(rho, delta), delta, rho
    # A pure release is (ε²/2)-zCDP too, and less at a given order; whichever way of adding is smallest is a valid statement.
    each = [2 * c.epsilon if relation == "replace" and c.relation == "add-remove" else c.epsilon for c in group if c.rho is None]
    squares = sum(epsilon**2 / 2 for epsilon in each)
    ways = epsilon_of_rho(rho, delta) + pure, epsilon_of_rho(rho + squares, delta), epsilon_of_mix(each, rho, delta)
    return min(ways), delta, rho + squares
