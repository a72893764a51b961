"""Accounts that count either way, in the words of the user: what was spent, what is left, what a release would leave.

An account whose budget did not say how it counts is *careful*: it is opened where a zCDP account would have been, so its floats
are amounts of ρ as they are there, and which kind a release is unasked depends on what later ones may want (`suits`).
"""

from __future__ import annotations

from fractions import Fraction

from ..mechanisms import Spend, epsilon_at_order, epsilon_of_rho
from .accounting import LEAST, Amount
from .values import Account, Entry, Reservation, charge_units, from_units


def suits(stands: Account, spend: Spend, other: Spend, share: bool) -> bool:
    """Whether a release may be of this kind unasked, in a careful account where the other kind is offered at another price.

    *Shares* are the same part of either kind, so they all fit while every release is pure, and while the ρ side is no further
    spent than by as many zCDP releases: one of the two is kept. An *ε* buys k releases of ε/k on the pure side and about k² on
    the ρ side. Whoever asks for little may want many, so it is pure only where it costs no more ρ, or asks for the whole rest.
    """
    pure, zcdp = (spend, other) if spend.currency == "epsilon" else (other, spend)
    asked, cost = charge_units(zcdp.amount), stands.charge(charge_units(pure.amount), "epsilon")[0]
    ended = stands.pure_spent is None
    if spend.currency == "rho":
        return not share or ended or stands.spent * (stands.pure_budget or 0) <= (stands.pure_spent or 0) * stands.budget
    return not ended and (share or cost <= asked or asked + LEAST > stands.remaining)


def spent(
    stands: Account | Reservation | Entry, order: Fraction, delta: float, careful: bool = False, only: bool = False
) -> Amount:
    """What was spent, now or when a release was paid for: the smaller of what the two ways of counting say.

    `only`: all that was charged is zCDP, and so may be converted at any order, not only at the account's.
    """
    rho = from_units(stands.spent)
    counted = epsilon_of_rho(rho, delta) if only and rho else epsilon_at_order(rho, delta, order)
    if stands.pure_spent is not None and float(from_units(stands.pure_spent)) <= counted:
        pure = float(from_units(stands.pure_spent))
        value = float(rho) if careful else pure
        return Amount.meaning(value, "either", pure, 0.0, float(rho), f"ε = {pure:.6g}, pure so far")
    share = stands.spent / stands.budget
    return Amount.meaning(
        float(rho) if careful else counted,
        "either",
        counted,
        delta,
        float(rho),
        f"{100 * share:.3g} % of the zCDP side (ε = {counted:.4g} at δ = {delta:g})",
    )


def left(account: Account, careful: bool = False) -> Amount:
    """What is left, of both kinds. The float is the largest `epsilon=` that a release may still ask for, or what is left of ρ."""
    pure, rho, delta = float(from_units(account.most("epsilon"))), from_units(account.remaining), float(account.delta)
    # What is rounded up to be a guarantee is rounded down to be a price.
    worth = epsilon_of_rho(rho, delta) * (1 - 1e-9) if rho else 0.0
    said = [f"pure ε = {pure:.6g}"] if account.pure_remaining or not rho else []
    said += [f"ρ = {float(rho):.6g} (ε = {worth:.4g} at δ = {delta:g})"] if rho else []
    most = max(pure, worth)
    return Amount.meaning(float(rho) if careful else most, "either", most, delta, float(rho), " or ".join(said))


def whole(account: Account, careful: bool = False) -> Amount:
    """All that was granted."""
    assert account.pure_budget is not None
    epsilon, rho, delta = float(from_units(account.pure_budget)), float(from_units(account.budget)), float(account.delta)
    value = rho if careful else epsilon
    return Amount.meaning(value, "either", epsilon, delta, rho, f"ε = {epsilon:.6g} at δ = {delta:g}, pure or zCDP")


def afterwards(account: Account, units: int, currency: str) -> str:
    """What a release would leave, and what it would end, in words."""
    then = account.after(units, currency)
    ends = []
    if account.pure_remaining and not then.pure_remaining:
        ends.append("pure")
    if account.remaining and not then.remaining:
        ends.append("zCDP")
    over = (
        f"; it ends {' and '.join(ends)} releases" if ends and left(then).epsilon else "; it uses the account up" if ends else ""
    )
    return f"it leaves {left(then)}{over}"
