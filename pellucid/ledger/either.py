"""Accounts that count either way, in the words of the user: what was spent, what is left, what a release would leave."""

from __future__ import annotations

from fractions import Fraction

from ..mechanisms import epsilon_at_order, epsilon_of_rho
from .accounting import Amount
from .values import Account, Reservation, from_units


def spent(stands: Account | Reservation, order: Fraction, delta: float) -> Amount:
    """What was spent, now or when a release was paid for: the smaller of what the two ways of counting say."""
    rho = from_units(stands.spent)
    counted = epsilon_at_order(rho, delta, order)
    if stands.pure_spent is not None and float(from_units(stands.pure_spent)) <= counted:
        pure = float(from_units(stands.pure_spent))
        return Amount.meaning(pure, "either", pure, 0.0, float(rho), f"ε = {pure:.6g}, pure so far")
    share = stands.spent / stands.budget
    return Amount.meaning(
        counted,
        "either",
        counted,
        delta,
        float(rho),
        f"{100 * share:.3g} % of the zCDP side (ε = {counted:.4g} at δ = {delta:g})",
    )


def left(account: Account) -> Amount:
    """What is left, of both kinds. The float is the largest `epsilon=` that a release may still ask for."""
    pure, rho, delta = float(from_units(account.most("epsilon"))), from_units(account.remaining), float(account.delta)
    # What is rounded up to be a guarantee is rounded down to be a price.
    worth = epsilon_of_rho(rho, delta) * (1 - 1e-9) if rho else 0.0
    said = [f"pure ε = {pure:.6g}"] if account.pure_remaining or not rho else []
    said += [f"ρ = {float(rho):.6g} (ε = {worth:.4g} at δ = {delta:g})"] if rho else []
    most = max(pure, worth)
    return Amount.meaning(most, "either", most, delta, float(rho), " or ".join(said))


def whole(account: Account) -> Amount:
    """All that was granted."""
    assert account.pure_budget is not None
    epsilon, rho, delta = float(from_units(account.pure_budget)), float(from_units(account.budget)), float(account.delta)
    return Amount.meaning(epsilon, "either", epsilon, delta, rho, f"ε = {epsilon:.6g} at δ = {delta:g}, pure or zCDP")


def afterwards(account: Account, units: int, currency: str) -> str:
    """What a release would leave, and what it would end, in words."""
    then = account.after(units, currency)
    ends = []
    if account.pure_remaining and not then.pure_remaining:
        ends.append("pure")
    if account.remaining and not then.remaining:
        ends.append("zCDP")
    over = f"; it ends {' and '.join(ends)} releases" if ends and left(then) else "; it uses the account up" if ends else ""
    return f"it leaves {left(then)}{over}"
