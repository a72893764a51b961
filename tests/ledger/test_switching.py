"""An attack on accounts that count either way: requesters who choose the kind of their next release by the answers so far.

Neighbouring tables are known exactly, all mechanisms are finite or nearly so, and so is what the best requester learns: the
largest hockey-stick divergence at ε that any adaptive strategy reaches, which is the smallest δ that would be honest.
Claim: either-account
"""

import functools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from pellucid.errors import BudgetExceeded
from pellucid.ledger import Ledger, charge_units
from pellucid.ledger.accounting import Budget
from pellucid.ledger.values import Account, within

VARIANCE = 20
UNIT = Fraction(1, 2 * VARIANCE)
"""All losses below are whole multiples of it."""


def response(j):
    """Randomized response at ε = j units: pure, and the worst pure mechanism there is. [(loss, probability)] under P."""
    p = 1 / (1 + math.exp(-j * UNIT))
    return "epsilon", j * UNIT, [(j, p), (-j, 1 - p)]


def gaussian(shift, reach=30):
    """A discrete Gaussian whose mean differs by `shift`: zCDP, and not pure. What is left out beyond `reach` has no weight."""
    z = np.arange(-reach, reach + 1 + shift)
    whole = np.exp(-(np.arange(-400, 401) ** 2) / (2 * VARIANCE)).sum()
    weights = np.exp(-((z - shift) ** 2) / (2 * VARIANCE)) / whole
    return "rho", shift**2 * UNIT, [(int(2 * shift * place - shift**2), p) for place, p in zip(z, weights)]


def account(epsilon, delta):
    budget = Budget(epsilon, delta, accounting="either")
    terms = budget.terms
    return Account(
        "a", "either", terms["delta"], "replace", "person", terms["budget"], 0, True, 0, terms["pure"], 0, budget.order
    )  # fmt: skip


def worst(epsilon, menu, admits, reach=900):
    """The largest E_P[(1 − e^(ε−L))⁺] over all adaptive strategies, by dynamic programming over charges so far and the loss L.

    A strategy sees all answers; what it can still gain depends on the charges and on L alone.
    """
    losses = np.arange(-reach, reach + 1) * float(UNIT)
    stop = 1 - np.exp(np.minimum(0, epsilon - losses))

    def moved(values, loss):
        at = np.clip(np.arange(len(values)) + loss, 0, len(values) - 1)
        return values[at]

    @functools.cache
    def gain(counts):
        best = stop
        for i, (_, _, law) in enumerate(menu):
            more = tuple(n + (i == j) for j, n in enumerate(counts))
            if admits(more):
                then = gain(more)
                best = np.maximum(best, sum(p * moved(then, loss) for loss, p in law))
        return best

    return gain((0,) * len(menu))[reach]


def sums(menu, opened, counts):
    """(ε of pure charges, whether all are pure, ρ of pure charges, ρ of the others), as the ledger counts them."""
    pure = beside = rho = 0
    for (currency, amount, _), n in zip(menu, counts):
        charged, own = opened.charge(charge_units(amount), currency)
        pure += n * (own or 0)
        beside += n * charged if own is not None else 0
        rho += n * charged if own is None else 0
    return pure, rho == 0, beside, rho


def true_filter(menu, opened):
    def admits(counts):
        pure, all_pure, beside, rho = sums(menu, opened, counts)
        return within(opened.budget, beside + rho, opened.pure_budget, pure if all_pure else None)

    return admits


MENUS = {
    (1.0, 0.01): [response(4), response(10), response(20), gaussian(1)],
    (1.0, 0.05): [response(10), response(20), gaussian(1), gaussian(2)],
    (0.5, 0.05): [response(5), response(10), response(20), gaussian(1)],
}


@pytest.mark.parametrize("epsilon, delta", MENUS)
def test_no_adaptive_strategy_gains_from_switching(epsilon, delta):
    menu, opened = MENUS[epsilon, delta], account(epsilon, delta)
    reached = worst(epsilon, menu, true_filter(menu, opened))
    assert 0.5 * delta < reached <= delta
    zcdp = [part for part in menu if part[0] == "rho"]
    assert reached >= worst(epsilon, zcdp, true_filter(zcdp, opened))


def halves_pure(opened, pure, all_pure, beside, rho):
    return within(opened.budget, beside + rho, opened.pure_budget, pure // 2 if all_pure else None)


def leaves_pure_out(opened, pure, all_pure, beside, rho):
    return pure <= opened.pure_budget and rho <= opened.budget


def halves_pure_beside(opened, pure, all_pure, beside, rho):
    return within(opened.budget, beside // 2 + rho, opened.pure_budget, pure if all_pure else None)


def keeps_the_pure_side_open(opened, pure, all_pure, beside, rho):
    return within(opened.budget, beside + rho, opened.pure_budget, pure)


def takes_rho_for_epsilon(opened, pure, all_pure, beside, rho):
    return within(opened.budget, beside + rho, opened.pure_budget, pure + rho)


@pytest.mark.parametrize(
    "broken", [halves_pure, leaves_pure_out, halves_pure_beside, keeps_the_pure_side_open, takes_rho_for_epsilon]
)
def test_a_filter_that_counts_too_little_is_found_out(broken):
    epsilon, delta = 1.0, 0.01
    menu, opened = MENUS[epsilon, delta], account(epsilon, delta)

    def admits(counts):
        # Without some end the worst of them would go on for ever.
        return sum(counts) <= 12 and broken(opened, *sums(menu, opened, counts))

    assert worst(epsilon, menu, admits) > 2 * delta


BUDGET = Budget(1.0, 0.01, accounting="either")
REAL = [response(10), response(20), gaussian(1), gaussian(2)]


def coarse(part, groups=3):
    """The same mechanism with its answers in a few groups: post-processing, small enough to list every transcript."""
    currency, amount, law = part
    gathered, weight = [[0.0, 0.0] for _ in range(groups)], 0.0
    for loss, p in sorted(law):
        group = gathered[min(groups - 1, int(weight * groups))]
        group[0], group[1], weight = group[0] + p, group[1] + p * math.exp(-loss * UNIT), weight + p
    return currency, amount, [tuple(group) for group in gathered if group[0]]


def transcripts(ledger, prefer, menu, depth):
    """Every transcript of a requester at a real ledger, as its probabilities under the two tables.

    `prefer` gives, after every history, the order in which kinds of release are tried until one is not refused.
    """

    def asked_again(said):
        """An account of its own that stands as the requester's does after this history."""
        made = ledger.open_account(f"after {said!r}", **BUDGET.terms, relation="replace", unit="person").name
        for i, _ in said:
            charge(made, i)
        return made

    def charge(name, i):
        ledger.reserve(name, charge_units(menu[i][1]), key="", request="{}", currency=menu[i][0])

    def walk(said, p, q):
        name = asked_again(said)
        for i in prefer(said) if len(said) < depth else ():
            try:
                charge(name, i)
            except BudgetExceeded:
                continue
            for answer, (under_p, under_q) in enumerate(menu[i][2]):
                yield from walk((*said, (i, answer)), p * under_p, q * under_q)
            return
        yield p, q

    yield from walk((), 1.0, 1.0)


@pytest.mark.parametrize("seed", range(6))
def test_transcripts_of_a_real_ledger_are_within_epsilon_and_delta(seed):
    menu, rng, chosen = [coarse(part) for part in REAL], random.Random(seed), {}

    def prefer(said):
        return chosen.setdefault(said, rng.sample(range(len(menu)), len(menu)))

    with Ledger(None) as ledger:
        listed = list(transcripts(ledger, prefer, menu, depth=4))
        assert ledger.verify().ok
    assert sum(p for p, _ in listed) == pytest.approx(1, abs=1e-6)
    for first, second in ((0, 1), (1, 0)):
        assert sum(max(0.0, pair[first] - math.e * pair[second]) for pair in listed) <= 0.01
