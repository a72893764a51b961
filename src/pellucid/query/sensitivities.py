"""How far one unit can move what is released: the one place that every noise scale comes from."""

from __future__ import annotations

from ..errors import PlanError
from ..mechanisms import Choosing, Mechanism, Norms, Spend, calibrate
from ..public.schema import Relation
from .kinds import Blocks, Choice, Couples, Joint, Over, Pairs, Query, Reading, Records, Sum


def changes(over: Over, relation: Relation) -> tuple[int, int]:
    """How many contributions are (added, replaced) when one unit is added or replaced. Claims: pairs, couples, blocks"""
    if isinstance(over, Blocks):
        return (0, 1)
    if isinstance(over, Couples):
        if relation == "add-remove":
            raise PlanError("couples need a public number of records: under add-remove use pairs.")
        return (0, 1)
    if isinstance(over, Pairs):
        return (1, 1) if relation == "add-remove" else (0, 2)
    return (1, 0) if relation == "add-remove" else (0, 1)


def released_parts(query: Query) -> tuple[Sum | Reading, ...]:
    """The parts whose integers lie side by side in a release."""
    # Of these very classes: a subclass could say another thing about how far it moves.
    if type(query) not in (Sum, Joint, Reading):
        raise PlanError(f"{type(query).__name__} is not a query; ask for a Sum, a Joint or a Reading.")
    return tuple(query.sums) if isinstance(query, Joint) else (query,)


def sensitivity(query: Query, relation: Relation, rows_per_unit: int = 1) -> Norms:
    """How far one unit can move the released integers of a query."""
    whole: Norms | None = None
    for part in released_parts(query):
        added, replaced = changes(part.over, relation)
        norms = Norms(0, 0, 0)
        if added:
            norms = norms + part.released.added().times(added)
        if replaced:
            norms = norms + part.released.replaced().times(replaced)
        whole = norms if whole is None else whole.beside(norms)
    assert whole is not None
    return whole.times(rows_per_unit)


def relative_scales(query: Query) -> tuple[float, ...]:
    """Noise scales of the coordinates relative to each other; empty when they are all equal."""
    parts = released_parts(query)
    if not any(part.released.relative for part in parts):
        return ()
    return tuple(f for part in parts for f in (part.released.relative or (1.0,) * part.size))


def touched(choice: Choice, relation: Relation) -> tuple[Relation, int]:
    """(how a contribution changes, the weight of all that change) when one unit does: what a score is calibrated to.

    Over pairs one contribution is replaced and one added or replaced, over couples one is replaced; an added one moves a
    quantile's score no further than a replaced one. Claim: quantile-span
    """
    one = choice.bound.added().linf
    if isinstance(choice.over, Records):
        return relation, one
    return "replace", sum(changes(choice.over, relation)) * one


def calibrated(query: Query, relation: Relation, rows_per_unit: int, spend: Spend) -> Mechanism:
    """The noise of a query: the kind with the smallest error that costs at most `spend`."""
    return calibrate(sensitivity(query, relation, rows_per_unit), query.size, spend, relative_scales(query))


def calibrated_choice(choice: Choice, relation: Relation, rows_per_unit: int, spend: Spend) -> Choosing:
    """How sharp a choice may be that costs at most `spend`."""
    relation, weight = touched(choice, relation)
    return choice.score.calibrate(relation, weight * rows_per_unit, spend, choice.k)
