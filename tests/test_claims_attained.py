"""Every claimed bound is reached by a named construction, so that half of it would be refuted.

One test per claim in `proofs/`. Each is run a second time under sabotage, with its bound halved, and must then fail: a
test that would accept half the bound proves nothing.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import test_assignment
import test_cluster_scores
import test_flow
import test_individual
import test_intervals
import test_local_bound
import test_local_weights
import test_output_range
import test_parts
import test_shapley_bound
import test_shapley_estimators
import test_shapley_groups
import test_solver
import test_tree_vectors
from dp_accounting import pld
from scipy import special, stats
from sklearn.ensemble import RandomForestRegressor
from sources import Chosen

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.explainers.blocks.ballots import Ballots
from pellucid.explainers.curves import accumulate
from pellucid.explainers.curves.steps import ClippedSteps
from pellucid.explainers.curves.variation import Along, LevelsAndDifferences, parts_of_curves
from pellucid.explainers.local.bound import Moments
from pellucid.explainers.local.weights import Stable
from pellucid.explainers.shapley import bound as shapley_bound
from pellucid.explainers.shapley.bound import ShapleyVectors
from pellucid.explainers.shapley.coalitions import Design
from pellucid.explainers.shapley.radii import Radii
from pellucid.explainers.shapley.scores import ShapleyScore
from pellucid.ledger import SCALE, Ledger, charge_units, values
from pellucid.mechanisms import (
    Norms,
    Spend,
    calibrate_choice,
    delta_of_rho,
    epsilon_of_rho,
    noise,
    rho_of_epsilon_delta,
    rho_of_pure,
    source,
    to_replace,
)
from pellucid.mechanisms import amounts as calibration
from pellucid.mechanisms import labels as secret
from pellucid.public.fitted import walks
from pellucid.public.fitted.read import Read, read
from pellucid.public.fitted.settled import settle
from pellucid.query import Blocks, Choice, Couples, Joint, Pairs, Records, Sum, sensitivities, sensitivity
from pellucid.query.bound import UNITS
from pellucid.query.bounds import Ball, Box, Cells, CountedBox, CrossCells, Gram
from pellucid.query.scores import QuantileScore
from pellucid.release import certificate
from pellucid.release.door import Ask
from pellucid.release.plan import Plan, Public
from pellucid.sensitivity import IndividualFilter, IndividualLoss, intervals
from pellucid.sensitivity.tape import Tape

ONE = pel.Schema({"v": pel.Number(0, 1)})


def own(rows):
    return rows["v"][:, None]


def differs(rows, donors):
    return np.abs(rows["v"] - donors["v"])[:, None]


def block_mean(rows):
    return [rows["v"].mean()] if len(rows) else [0.5]


def over(kind):
    return Sum({Records: own, Pairs: differs, Blocks: block_mean}[type(kind)], Box(1, 0, 1), over=kind, columns=("v",))


def cell_of_v(rows):
    return (rows["v"] * 4).astype(int)[:, None], np.ones((len(rows), 1)), None


def totals(values, asked, relation="replace", labels=None, unit=None, ids=None):
    """Exact totals; with `labels`, row i (person i) has that secret label."""
    data = {"v": np.array(values, dtype=float)} | ({} if ids is None else {"id": ids})
    engine = LocalEngine(data, ONE, relation, unit or pel.Unit())
    original = secret.fresh
    if labels is not None:
        secret.fresh = lambda: Chosen(labels)
    try:
        return engine.totals(asked)
    finally:
        secret.fresh = original


def moved(before, after, relative=None):
    change = [b - a for a, b in zip(before, after)]
    weights = relative or (1.0,) * len(change)
    squared = sum(c * c for c in change) if relative is None else sum((c / w) ** 2 for c, w in zip(change, weights))
    return sum(map(abs, change)), squared, max(map(abs, change))


def tuple_of(norms):
    return norms.l1, norms.l2_squared, norms.linf


def test_box_sum_is_attained():
    """Corner to corner under replace, corner against nothing under add-remove; the count coordinate too."""
    box = Box(4, 0.3001, 0.7)
    low, high = (box.totals(np.full((1, 4), v)) for v in (0.3001, 0.7))
    assert moved(low, high) == tuple_of(box.replaced())
    assert moved([0] * 4, high) == tuple_of(box.added())
    counted = Box(3, -1, 1, count=True)
    assert moved([0] * 4, counted.totals(np.ones((1, 3)))) == tuple_of(counted.added())


@pytest.mark.parametrize(("count", "left_out"), [(True, False), (True, True), (False, True)])
@pytest.mark.parametrize("length", [1, 4])
def test_counted_sum_is_attained(length, count, left_out):
    """Corner to corner (L2, L∞, and L1 of several values), or from a corner to a record that is left out (L1 of one value)."""
    box = CountedBox(length, 0.3001, 0.7, count=count, left_out=left_out, weight=2)

    def of(share, value):
        return box.totals((np.array([share]), np.full((1, length), value)))

    low, high, gone = of(1, 0.3001), of(1, 0.7), of(0, 0.7)
    found = [moved(low, high), moved(high, gone)]
    assert tuple(max(column) for column in zip(*found)) == tuple_of(box.replaced())
    nobody = [moved([0] * box.size, one) for one in (high, gone)]
    assert tuple(max(column) for column in zip(*nobody)) == tuple_of(box.added())


def test_cell_sum_is_attained():
    """A value that moves to another cell (L1, and L2 when counts weigh as much), or changes its sign in its own (L2, L∞)."""

    def at(bound, cell, value):
        return bound.totals((np.array([[cell]]), np.ones((1, 1)), np.array([[value]])))

    for bound in (Cells(3, value=0.5), Cells(3, value=0.5, count_weight=0.25), Cells(3, value=0.5, count_weight=2.0)):
        here, flipped, away = at(bound, 0, 0.5), at(bound, 0, -0.5), at(bound, 1, 0.5)
        found = [moved(here, other) for other in (flipped, away)]
        assert tuple(max(column) for column in zip(*found)) == tuple_of(bound.replaced())
        assert moved([0] * bound.size, here) == tuple_of(bound.added())
    histogram = Cells(3)
    one, other = (histogram.totals((np.array([[cell]]), np.ones((1, 1)), None)) for cell in (0, 2))
    assert moved(one, other) == tuple_of(histogram.replaced()) and moved([0] * 3, one) == tuple_of(histogram.added())


def test_ball_sum_is_attained():
    """Opposite ends of a diameter along an axis (L2, L∞) and along the diagonal (L1, up to the grid)."""
    ball = Ball(4, 2.0)
    along, against = (ball.totals(np.array([[s * 2.0, 0, 0, 0]])) for s in (1, -1))
    assert moved(along, against)[1:] == tuple_of(ball.replaced())[1:]
    assert moved([0] * 4, along)[1:] == tuple_of(ball.added())[1:]
    diagonal, opposite = (ball.totals(np.full((1, 4), s * 1.0)) for s in (1, -1))
    assert moved(diagonal, opposite)[0] == ball.replaced().l1 and moved([0] * 4, diagonal)[0] == ball.added().l1


def test_gram_sum_is_attained():
    """Orthogonal rows (Frobenius √2·C²), one row on an axis (C²), and two sign patterns of the diagonal (L1, up to the grid)."""
    gram = Gram(4, 3.0)
    first, second = (gram.totals(3.0 * np.eye(4)[i : i + 1]) for i in (0, 1))
    assert moved(first, second, gram.relative)[1] == gram.replaced().l2_squared
    assert moved([0] * gram.size, first, gram.relative)[1] == gram.added().l2_squared
    assert moved(first, second)[2] == gram.replaced().linf == gram.added().linf
    even = gram.totals(np.full((1, 4), 1.5))
    assert gram.added().l1 - 2 <= moved([0] * gram.size, even)[0] <= gram.added().l1
    turned = gram.totals(np.array([[1.5, 1.5, -1.5, -1.5]]))
    assert moved(even, turned)[0] <= gram.replaced().l1


@pytest.mark.parametrize("k", [1, 3, 7])
def test_person_average_is_attained(k):
    """A person's k rows move the total as far as one record would, less one grid unit a row for rounding."""
    unit, asked = pel.Unit("id", max_rows=k), over(Records())
    ids = np.array([0] * (2 * k) + [1])
    low, high = (totals([v] * (2 * k) + [0.5], asked, unit=unit, ids=ids)[0] for v in (0.0, 1.0))
    claimed = sensitivity(asked, "replace", unit.rows_per_unit).linf
    assert claimed - 2 * k <= high - low <= claimed
    without = totals([0.5], asked, "add-remove", unit=unit, ids=np.array([1]))[0]
    claimed = sensitivity(asked, "add-remove", unit.rows_per_unit).linf
    assert claimed - k <= high - without <= claimed
    cells = Cells(4)
    told = [totals([v] * (2 * k) + [0.6], Sum(cell_of_v, cells, columns=("v",)), unit=unit, ids=ids) for v in (0.0, 0.9)]
    assert cells.replaced().l1 - 2 * k <= moved(*told)[0] <= cells.replaced().l1


def test_pairs_is_attained():
    """Replace: a 1 among zeros turns its own term and its receiver's. Add-remove: it brings a term and turns another."""
    pairs = over(Pairs())
    before, after = (totals([0.0] * 5 + [v], pairs, "replace", range(6)) for v in (0.0, 1.0))
    assert moved(before, after) == tuple_of(sensitivity(pairs, "replace"))
    without, inserted = totals([0.0, 0.0], pairs, "add-remove", [0, 2]), totals([0.0, 0.0, 1.0], pairs, "add-remove", [0, 2, 1])
    assert moved(without, inserted) == tuple_of(sensitivity(pairs, "add-remove"))


def test_couples_is_attained():
    """One record of a couple decides whether the two differ; a second couple stays as it is."""
    couples = Sum(differs, Box(1, 0, 1), over=Couples(), columns=("v",))
    before, after = (totals([0.0] * 3 + [v], couples, "replace", range(4)) for v in (0.0, 1.0))
    assert moved(before, after) == tuple_of(sensitivity(couples, "replace"))


def test_blocks_is_attained():
    """Alone in its block, a record decides what the block says; under add-remove the default may be at the far end."""
    blocks = over(Blocks(2))
    before, after = (totals([v, 0.5], blocks, "replace", [0, 1]) for v in (0.0, 1.0))
    assert moved(before, after) == tuple_of(sensitivity(blocks, "replace"))

    def default_at_the_end(rows):
        return [rows["v"].mean()] if len(rows) else [0.0]

    far = Sum(default_at_the_end, Box(1, 0, 1), over=Blocks(2), columns=("v",))
    without, added = totals([0.5], far, "add-remove", [1]), totals([0.5, 1.0], far, "add-remove", [1, 0])
    assert moved(without, added) == tuple_of(sensitivity(far, "add-remove"))


def test_joint_sum_is_attained():
    """One record moves a sum over records and a sum over pairs to their ends at once: all three norms are reached."""
    joint = Joint([over(Records()), over(Pairs()), over(Pairs())])
    before, after = (totals([0.0] * 5 + [v], joint, "replace", range(6)) for v in (0.0, 1.0))
    assert moved(before, after) == tuple_of(sensitivity(joint, "replace"))


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_group_rows_is_attained(relation):
    """k rows at their far end, all at once; the scores of a choice move k times as far too."""
    k, asked, rest = 3, over(Records()), [0.5, 0.5]
    low = [0.0] * k if relation == "replace" else []
    before, after = totals([*rest, *low], asked, relation), totals([*rest, *[1.0] * k], asked, relation)
    assert moved(before, after) == tuple_of(sensitivity(asked, relation, k))

    choice = Choice(Sum(cell_of_v, Cells(4), columns=("v",)), QuantileScore(Fraction(1, 2)))
    # The second border is under the middle, the third over it: k rows moved to the first cell raise one score and lower another.
    people = [0.0] * 2 + [0.5] * 6 + [0.9] * 3
    rows = [0.9] * k if relation == "replace" else []
    scores = [choice.score.of(totals([*people, *some], choice.of, relation)) for some in (rows, [0.0] * k)]
    change = [b - a for a, b in zip(*scores)]
    public = Public(ONE, relation, pel.Unit(max_rows=k), Spend("epsilon", Fraction(1)), len(people) + k)
    engine = LocalEngine({"v": np.array(people)}, ONE, relation, pel.Unit())
    door = Ask(engine.totals, Plan(public, (public.stage("only", choice),)))
    door.choose("only")
    told = float(door.charges[0].sensitivity.split()[0]) * UNITS
    assert max(change) - min(change) == pytest.approx(told)


def two_sided(scale, reach):
    law = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    return law / law.sum()


@pytest.mark.parametrize(("l1", "epsilon"), [(1, Fraction(1, 2)), (3, Fraction(7, 5)), (10, Fraction(1, 3))])
def test_discrete_laplace_is_attained(l1, epsilon):
    """A shift of the whole L1 norm in one coordinate loses exactly ε, by the enumerated law at the calibrated scale."""
    mechanism = noise._laplace(Norms(l1, l1**2, l1), 4, epsilon)
    law = two_sided(float(mechanism.scale), 60 * l1)
    loss = np.abs(np.log(law[l1:] / law[:-l1])).max()
    assert loss == pytest.approx(float(epsilon), rel=1e-9) and mechanism.cost <= epsilon


def chi_square(sample, law, reach):
    counts = np.bincount(np.clip(np.asarray(sample) + reach, 0, 2 * reach), minlength=2 * reach + 1)
    expected = law * len(sample)
    keep = expected > 8
    statistic = ((counts - expected) ** 2 / np.maximum(expected, 1e-300))[keep].sum()
    return stats.chi2.sf(statistic, keep.sum() - 1)


def test_discrete_noise_has_its_law_on_a_coarse_lattice():
    """The draws that OpenDP makes are the discrete laws that the proofs are about, at scales where a rounded one would show."""
    system = source.SystemSource()
    x = np.arange(-60, 61)
    gauss = np.exp(-(x**2) / (2 * 1.3**2))
    assert chi_square(system.laplace(1.7, 20_000), two_sided(1.7, 60), 60) > 1e-9
    assert chi_square(system.gaussian(1.3, 20_000), gauss / gauss.sum(), 60) > 1e-9
    assert chi_square(system.laplace(0.85, 20_000), two_sided(1.7, 60), 60) < 1e-9
    assert chi_square(system.gaussian(0.65, 20_000), gauss / gauss.sum(), 60) < 1e-9


def renyi(p, q, alpha):
    """Rényi divergence of two enumerated laws, in logarithms: their tails are far below the smallest float."""
    keep = (p > 0) & (q > 0)
    return float(special.logsumexp(alpha * np.log(p[keep]) + (1 - alpha) * np.log(q[keep]))) / (alpha - 1)


@pytest.mark.parametrize(("squared", "rho"), [(9, Fraction(1, 10)), (4, Fraction(1, 3)), (25, Fraction(1, 50))])
def test_discrete_gaussian_is_attained(squared, rho):
    """The Rényi divergence of the enumerated law at the calibrated scale is αρ: reached at integer α·shift, never passed."""
    mechanism = noise._gaussian(Norms(9 * squared, squared, math.isqrt(squared)), 4, rho, ())
    scale, shift = float(mechanism.scale), math.isqrt(squared)
    x = np.arange(-int(25 * scale) - 60, int(25 * scale) + 61)
    law = np.exp(-(x**2) / (2 * scale**2))
    law /= law.sum()
    for alpha in (1.5, 2.0, 3.0):
        assert renyi(law[:-shift], law[shift:], alpha) == pytest.approx(alpha * float(rho), rel=1e-6)
    assert mechanism.cost <= rho


@pytest.mark.parametrize("size", [1, 2, 3])
def test_k_norm_lattice_is_attained(size):
    """A shift of every coordinate by Δ loses exactly ε at points outside the cube, by the enumerated law."""
    linf, epsilon = 3, Fraction(7, 10)
    mechanism = noise._k_norm(Norms(size * linf, size * linf**2, linf), size, epsilon)
    points = np.array(list(np.ndindex(*(21,) * size))) - 10
    law = lambda z: -np.abs(z).max(axis=1) / float(mechanism.scale)  # noqa: E731
    loss = np.abs(law(points) - law(points + linf)).max()
    assert loss == pytest.approx(float(epsilon), rel=1e-12)


def permute_and_flip_law(scores, rate):
    """P(r) = w_r ∫ ∏ (1 - s·w_i) ds, the integral of a polynomial."""
    weights = np.exp(rate * (np.array(scores, dtype=float) - max(scores)))
    chances = []
    for r, w in enumerate(weights):
        polynomial = np.polynomial.Polynomial([1.0])
        for other in np.delete(weights, r):
            polynomial *= np.polynomial.Polynomial([1.0, -other])
        chances.append(w * polynomial.integ()(1.0))
    return np.array(chances)


def test_permute_and_flip_is_attained():
    """A losing candidate falls by Δ while all others rise by Δ: the loss is ε exactly."""
    change, epsilon = 2, Fraction(3, 2)
    how = calibrate_choice(2 * change, change, Spend("epsilon", epsilon))
    assert how.flip
    laws = [permute_and_flip_law(scores, float(how.rate)) for scores in ([0, 3, 5], [-2, 5, 7])]
    assert math.log(laws[0][0] / laws[1][0]) == pytest.approx(float(epsilon), rel=1e-9)
    assert sum(laws[0]) == pytest.approx(1.0)


def test_exponential_bounded_range_is_attained():
    """Pure: a rare candidate rises by the whole span and loses rate·span. ρ: an even coin tilted by a small span costs ρ."""
    law = lambda scores, rate: np.exp(rate * np.array(scores)) / np.exp(rate * np.array(scores)).sum()  # noqa: E731
    span, epsilon = 3, Fraction(6, 5)
    how = calibrate_choice(span, span, Spend("epsilon", epsilon))  # span < 2·largest: the exponential mechanism
    a, b = law([0, 40], float(how.rate)), law([3, 40], float(how.rate))
    assert math.log(b[0] / a[0]) == pytest.approx(float(epsilon), rel=1e-4)
    rho = Fraction(1, 1000)
    how = calibrate_choice(span, span, Spend("rho", rho))
    a, b = law([1.5, 0], float(how.rate)), law([0, 1.5], float(how.rate))
    for alpha in (1.5, 2.0, 4.0):
        assert 0.97 * alpha * float(rho) <= renyi(a, b, alpha) <= alpha * float(rho)


@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10), Fraction(1, 20)])
def test_quantile_span_is_attained(q):
    """Some candidates lie below the quantile and others above it: one record raises the ones and lowers the others."""
    score = QuantileScore(q)
    p, r = q.numerator, q.denominator
    # 400 records; the first border is 5 records under the quantile, the second 5 over it.
    under = int(400 * q) - 5
    people = [under, 10, 390 - under]
    replaced = [under + 1, 10, 390 - under - 1]
    change = [b - a for a, b in zip(score.of(people), score.of(replaced))]
    assert max(change) - min(change) == score.span("replace", 1) and max(map(abs, change)) == score.largest("replace", 1)
    # The new record is counted below both borders when 1 - q is the larger part, above both when q is.
    grown = [under + 1, 10, 390 - under] if r - p >= p else [under, 10, 390 - under + 1]
    change = [b - a for a, b in zip(score.of(people), score.of(grown))]
    assert max(change) - min(change) == score.span("add-remove", 1) and max(map(abs, change)) == score.largest("add-remove", 1)


def test_zcdp_conversion_is_attained():
    """An independent accountant finds the Gaussian at that ρ just private: at most 10 % of ε is given away."""
    rho = float(rho_of_epsilon_delta(1.0, 1e-6))
    gaussian = pld.privacy_loss_distribution.from_gaussian_mechanism(1 / math.sqrt(2 * rho), pessimistic_estimate=True)
    assert 0.9 < gaussian.get_epsilon_for_delta(1e-6) <= 1.0
    assert epsilon_of_rho(rho, 1e-6) == pytest.approx(1.0, rel=1e-6)


def test_relation_conversion_is_attained():
    """A sum of ±1 with discrete noise: adding moves it by 1, replacing by 2. Pure ε doubles, ρ quadruples."""
    epsilon, rho = 0.5, 0.02
    law = two_sided(1 / epsilon, 200)
    assert to_replace(epsilon=epsilon)["epsilon"] == pytest.approx(np.abs(np.log(law[2:] / law[:-2])).max())
    sigma = 1 / math.sqrt(2 * rho)
    x = np.arange(-400, 401)
    gauss = np.exp(-(x**2) / (2 * sigma**2))
    gauss /= gauss.sum()
    assert 2 * to_replace(rho=rho)["rho"] == pytest.approx(renyi(gauss[2:], gauss[:-2], 2.0), rel=1e-6)
    # Three laws on two outcomes, each (ε, δ)-close to the next: the ends are (2ε, (1 + e^ε)δ)-close and no closer.
    delta = 1e-3
    laws = [np.array([c, 1 - c]) for c in (0.0, delta, (1 + math.exp(epsilon)) * delta)]
    stick = lambda p, q, e: float(np.maximum(p - math.exp(e) * q, 0).sum())  # noqa: E731
    for p, q in zip(laws[1:], laws[:-1]):
        assert max(stick(p, q, epsilon), stick(q, p, epsilon)) <= delta * (1 + 1e-12)
    converted = to_replace(epsilon=epsilon, delta=delta)
    assert stick(laws[2], laws[0], converted["epsilon"]) == pytest.approx(converted["delta"])


def test_composition_is_attained():
    """Two draws of discrete Laplace lose ε1 + ε2 together, two Gaussians ρ1 + ρ2: what totals and ledgers add up."""
    e1, e2 = 0.3, 0.5
    laws = [two_sided(1 / e, 40) for e in (e1, e2)]
    before = np.outer(laws[0][1:], laws[1][1:])
    after = np.outer(laws[0][:-1], laws[1][:-1])
    lost = np.abs(np.log(before / after)).max()
    session = pel.Session({"v": [0.1, 0.9] * 20}, ONE, budget=pel.Budget(epsilon=0.8))
    made = [session.release(pel.Distribution("v", bins=2), epsilon=e).certificate for e in (e1, e2)]
    assert pel.total(made).epsilon == pytest.approx(lost) and session.spent == pytest.approx(lost)
    with pytest.raises(pel.BudgetExceeded):
        session.release(pel.Distribution("v", bins=3), epsilon=1e-9)
    rho = pel.Session({"v": [0.1, 0.9] * 20}, ONE, budget=pel.Budget(epsilon=1.0, delta=1e-6, accounting="zcdp"))
    made = [rho.release(pel.Distribution("v", bins=b), share=Fraction(2, 5)).certificate for b in (2, 3)]
    assert pel.total(made).rho == pytest.approx(float(rho.budget.amount * Fraction(4, 5)))
    assert delta_of_rho(pel.total(made).rho, pel.total(made).epsilon) <= 1e-6 * (1 + 1e-9)


def test_stages_add_up_to_the_reservation(model, schema, people):
    """Claim: composition. Stages chosen adaptively inside a release spend exactly what was reserved before it."""
    session = pel.Session(people.iloc[:200], schema, budget=pel.Budget(epsilon=1.0))
    made = session.release(pel.AccumulatedEffects(model, ["age", "bmi"]), epsilon=0.7)
    assert sum(charge["amount"] for charge in made.certificate.charges) == pytest.approx(0.7) == session.spent
    assert len(made.certificate.charges) == 4


def test_either_account_is_attained():
    """Randomized response loses at the account's order all that a pure release is charged for there, and ε pointwise."""
    budget = pel.Budget(1.0, 1e-6, accounting="either")
    order = float(budget.order)
    for epsilon in ("0.01", "0.1", "0.5", "1"):
        p = 1 / (1 + math.exp(-float(epsilon)))
        lost = math.log(p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)) / (order - 1)
        with Ledger(None) as ledger:
            ledger.open_account("a", **budget.terms, relation="replace", unit="person")
            ledger.reserve("a", charge_units(Fraction(epsilon)), key="", request="{}", currency="epsilon")
            standing = ledger.account("a")
        assert lost <= order * standing.spent / SCALE <= lost * (1 + 1e-6)
        assert math.log(p / (1 - p)) == pytest.approx(standing.pure_spent / SCALE)


STEP = pel.Schema({"x": pel.Number(0, 2, integer=True), "sign": pel.Category(["down", "up"])})


def test_ale_ties_is_attained():
    """A record tied at a border divides its step between two intervals; together they use τ, and a neighbour uses −τ."""
    climb = pel.Model(
        lambda d: 0.5 + np.where(d["sign"] == "up", 1, -1) * (d["x"] - 1) / 2,
        output=(0, 1), features=["x", "sign"], trained_on="other data",
    )  # fmt: skip
    intervals = accumulate.Intervals(
        np.array([0, 1]), np.array([1, 2]), np.array([[1.0, 0.25, 0.0], [0.0, 0.75, 1.0]]), np.array([5.0, 5.0])
    )
    steps = ClippedSteps(climb, "x", np.arange(3.0), intervals, 0.5)
    asked = Sum(steps, Cells(2, value=0.5, count_weight=0), columns=("x", "sign"))

    def of(signs):
        return LocalEngine({"x": [1] * len(signs), "sign": signs}, STEP, "replace", pel.Unit()).totals(asked)

    assert of(["up"]) == [UNITS // 4, 3 * UNITS // 4]
    assert moved(of(["down", "up"]), of(["up", "up"]))[0] == sensitivity(asked, "replace").l1
    assert moved(of(["up"]), of(["up", "up"]))[0] == sensitivity(asked, "add-remove").l1


def test_curve_variation_is_attained():
    """A small step down at the upper end of the range against one up at the lower end; both use all that they may."""
    grid, size = np.linspace(0, 1, 101), 0.01
    corners = pel.Model(
        lambda d: np.where(d["sign"] == "up", size * (d["x"] >= 1), 1 - size * (d["x"] >= 1)),
        output=(0, 1), features=["x", "sign"], trained_on="other data",
    )  # fmt: skip
    schema = pel.Schema({"x": pel.Number(0, 1), "sign": pel.Category(["up", "down"])})
    along = Along("x", schema["x"], grid, "variation", size)
    for relation in ("replace", "add-remove"):
        public = Public(schema, relation, pel.Unit(), Spend("epsilon", Fraction(1)), 2 if relation == "replace" else None, 2)
        (part,) = parts_of_curves(public, (along,), 1.0)
        asked = Sum(LevelsAndDifferences(corners, (part,)), Cells(part.size, value=1.0, count_weight=0), columns=("x", "sign"))

        def of(signs, asked=asked, relation=relation):
            return LocalEngine({"x": [0.5] * len(signs), "sign": signs}, schema, relation, pel.Unit()).totals(asked)

        other = of(["down", "up"]) if relation == "replace" else of(["up"])
        most, found = sensitivity(asked, relation).l1, moved(other, of(["up", "up"]))[0]
        lost = 2 * part.level * size / len(grid) * most if relation == "replace" else 4
        assert most - lost - 4 <= found <= most


def half(norms):
    return Norms(norms.l1 // 2, norms.l2_squared // 4, norms.linf // 2)


def halve_norms(*classes):
    def sabotage(patch):
        for kind in classes:
            for name in ("added", "replaced"):
                original = getattr(kind, name)
                patch.setattr(kind, name, lambda self, original=original: half(original(self)))

    return sabotage


def halve_rounding(patch):
    whole = Read.rounding.fget
    patch.setattr(Read, "rounding", property(lambda self: whole(self) / 2))


def halve_changes(patch):
    original = sensitivities.changes
    # One of the contributions that a unit touches is forgotten.
    patch.setattr(sensitivities, "changes", lambda over, relation: tuple(max(n - 1, 0) for n in original(over, relation)))


def halve_beside(patch):
    original = Norms.beside
    patch.setattr(Norms, "beside", lambda self, other: half(original(self, other)))


def forget_group(patch):
    patch.setattr(Norms, "times", lambda self, k: self)


def halve_scale(name):
    def sabotage(patch):
        original = getattr(noise, name)

        def smaller(*arguments):
            made = original(*arguments)
            return type(made)(**{**vars(made), "scale": made.scale / 2})

        patch.setattr(noise, name, smaller)

    return sabotage


def halve_choice(patch):
    original = calibrate_choice
    halved = lambda span, linf, spend, k=1: original(Fraction(span, 2), Fraction(linf, 2), spend, k)  # noqa: E731
    patch.setitem(globals(), "calibrate_choice", halved)


def halve_span(patch):
    for name in ("span", "largest"):
        original = getattr(QuantileScore, name)
        patch.setattr(QuantileScore, name, lambda self, r, u, original=original: original(self, r, u) // 2)


def halve_conversion(patch):
    # Half the noise is four times the ρ.
    patch.setattr(calibration, "delta_of_rho", lambda rho, epsilon: delta_of_rho(rho / 4, epsilon))


def halve_relation(patch):
    patch.setitem(globals(), "to_replace", lambda **given: {k: v / 2 for k, v in calibration.to_replace(**given).items()})


def halve_pure(patch):
    patch.setattr(values, "rho_of_pure", lambda epsilon, order: rho_of_pure(epsilon, order) / 2)


def halve_total(patch):
    original = certificate._compose
    patch.setattr(certificate, "_compose", lambda *group: tuple(None if v is None else v / 2 for v in original(*group)))


def test_borda_ballots_is_attained():
    """An order and its reversal are furthest apart in every norm at once; one of them alone is furthest from all tied."""
    for items in (2, 3, 6, 9):
        bound = Ballots(items)
        one, other = (np.array(bound.totals([scores]), dtype=object) for scores in (range(items), range(items, 0, -1)))
        for change, norms in ((one, bound.added()), (one - other, bound.replaced())):
            assert (abs(change).sum(), (change**2).sum(), abs(change).max()) == tuple_of(norms)


def test_cross_cells_is_attained():
    """One record is in one cell of every attribute; another one can be in another cell of every attribute."""
    bound = CrossCells(2, (3, 2))
    one = np.array(bound.totals((np.array([0]), [np.array([2]), np.array([1])])))
    other = np.array(bound.totals((np.array([1]), [np.array([0]), np.array([0])])))
    for moved, norms in ((one, bound.added()), (one - other, bound.replaced())):
        assert int(np.abs(moved).sum()) == norms.l1 and int(np.abs(moved).max()) == norms.linf
        assert int((moved.astype(object) ** 2).sum()) == norms.l2_squared


def halve_upper_ends(patch):
    def halved(tape, lo, hi, forward=Tape.forward):
        values = forward(tape, lo, hi)
        # Half the bound on boxes, none on points: a value is what it is.
        wide = (hi > lo).any(axis=0)
        for place in tape.outputs:
            values[place] = (values[place][0], np.where(wide, values[place][1] / 2, values[place][1]))
        return values

    patch.setattr(Tape, "forward", halved)


def halve_outward(patch):
    patch.setattr(intervals, "outward", lambda lo, hi: (lo, hi))


def halve_loss(patch):
    original = test_individual.individual_loss
    patch.setattr(test_individual, "individual_loss", lambda *args: IndividualLoss(original(*args).rho / 2))


def halve_price(patch):
    original = IndividualFilter._price
    patch.setattr(IndividualFilter, "_price", lambda self, *args: original(self, *args) // 2)


def halve_radii(patch):
    halved = lambda original: lambda *args: Radii(*(v / 2 for v in vars(original(*args)).values()))  # noqa: E731
    patch.setattr(shapley_bound, "shapley_radii", halved(shapley_bound.shapley_radii))
    patch.setattr(Design, "radii", halved(Design.radii))


def halve_shapley_span(patch):
    original = ShapleyScore.span
    patch.setattr(ShapleyScore, "span", lambda self, relation, units: original(self, relation, units) // 2)


def test_integer_leaves_is_attained():
    """Sixty-four leaves that lie half a unit above zero."""
    schema = pel.Schema({"x": pel.Number(0, 1)})
    forest = RandomForestRegressor(64, max_depth=1, random_state=0).fit([[0.0], [1.0]] * 50, [0.0, 1.0] * 50)
    made = read(pel.Model(forest, output=(0, 1), features=["x"], trained_on="other data").ready(schema))
    odd = [replace(tree, value=tree.value + made.unit / 2) for tree in made.trees.trees]
    made = replace(made, trees=replace(made.trees, trees=odd), settled=settle(made.trees.encoding, odd))
    exact = sum(Fraction(float(tree.value[tree.left[0]])) for tree in odd)
    (found,) = walks.sums(made.groups[0], made.atoms({"x": np.zeros(1)}))
    assert 0.95 * made.rounding <= abs(exact - int(found) * Fraction(made.unit)) <= made.rounding


SABOTAGE = {
    "integer-leaves": (test_integer_leaves_is_attained, (), halve_rounding),
    "box-sum": (test_box_sum_is_attained, (), halve_norms(Box)),
    "counted-sum": (test_counted_sum_is_attained, (1, True, True), halve_norms(CountedBox)),
    "cell-sum": (test_cell_sum_is_attained, (), halve_norms(Cells)),
    "ball-sum": (test_ball_sum_is_attained, (), halve_norms(Ball)),
    "gram-sum": (test_gram_sum_is_attained, (), halve_norms(Gram)),
    "person-average": (test_person_average_is_attained, (3,), halve_norms(Box)),
    "pairs": (test_pairs_is_attained, (), halve_changes),
    "couples": (test_couples_is_attained, (), halve_changes),
    "blocks": (test_blocks_is_attained, (), halve_changes),
    "joint-sum": (test_joint_sum_is_attained, (), halve_beside),
    "group-rows": (test_group_rows_is_attained, ("replace",), forget_group),
    "discrete-laplace": (test_discrete_laplace_is_attained, (3, Fraction(7, 5)), halve_scale("_laplace")),
    "discrete-gaussian": (test_discrete_gaussian_is_attained, (9, Fraction(1, 10)), halve_scale("_gaussian")),
    "k-norm-lattice": (test_k_norm_lattice_is_attained, (2,), halve_scale("_k_norm")),
    "permute-and-flip": (test_permute_and_flip_is_attained, (), halve_choice),
    "exponential-bounded-range": (test_exponential_bounded_range_is_attained, (), halve_choice),
    "quantile-span": (test_quantile_span_is_attained, (Fraction(9, 10),), halve_span),
    "zcdp-conversion": (test_zcdp_conversion_is_attained, (), halve_conversion),
    "relation-conversion": (test_relation_conversion_is_attained, (), halve_relation),
    "composition": (test_composition_is_attained, (), halve_total),
    "either-account": (test_either_account_is_attained, (), halve_pure),
    "parts": (test_parts.test_parts_is_attained, (), test_parts.forget_to_double),
    "ale-ties": (test_ale_ties_is_attained, (), halve_norms(Cells)),
    "curve-variation": (test_curve_variation_is_attained, (), halve_norms(Cells)),
    "borda-ballots": (test_borda_ballots_is_attained, (), halve_norms(Ballots)),
    "cross-cells": (test_cross_cells_is_attained, (), halve_norms(CrossCells)),
    "cluster-combination-span": (
        test_cluster_scores.test_cluster_combination_span_is_attained,
        (),
        test_cluster_scores.halve_combination_span,
    ),
    "cluster-candidates-span": (
        test_cluster_scores.test_cluster_candidates_span_is_attained,
        (),
        test_cluster_scores.halve_candidates_span,
    ),
    "combination-exponential": (
        test_assignment.test_combination_exponential_is_attained,
        (),
        test_assignment.halve_combination_rate,
    ),
    "enabling-set": (test_flow.test_enabling_set_is_attained, (), test_flow.forget_to_split),
    "interval-enclosure": (test_intervals.test_interval_enclosure_is_attained, (), halve_outward),
    "certified-supremum": (test_solver.test_certified_supremum_is_attained, (), halve_upper_ends),
    "output-range": (test_output_range.test_output_range_is_attained, (), test_output_range.halve_range),
    "shapley-set": (test_shapley_bound.test_shapley_set_is_attained, (5,), halve_norms(ShapleyVectors)),
    "shapley-radii": (test_shapley_bound.test_shapley_radii_is_attained, (5,), halve_radii),
    "shapley-groups": (test_shapley_groups.test_shapley_groups_is_attained, (), halve_radii),
    "shapley-span": (test_shapley_bound.test_shapley_span_is_attained, (4, "replace"), halve_shapley_span),
    "shapley-design": (test_shapley_estimators.test_shapley_design_is_attained, (4,), halve_radii),
    "integer-shapley": (test_tree_vectors.test_integer_shapley_is_attained, (), test_tree_vectors.halve_rounding),
    "local-moments": (test_local_bound.test_local_moments_is_attained, (), halve_norms(Moments)),
    "local-gradient": (test_local_bound.test_local_gradient_is_attained, (), test_local_bound.halve_slope),
    "local-start": (test_local_bound.test_local_start_is_attained, (), test_local_bound.halve_start),
    "local-drift": (test_local_weights.test_local_drift_is_attained, (Stable(), 1.0), test_local_weights.halve_drift),
    "local-constant": (test_local_weights.test_local_constant_is_attained, (), test_local_weights.halve_constant),
    "individual-loss": (test_individual.test_individual_loss_is_attained, (), halve_loss),
    "individual-filter": (test_individual.test_individual_filter_is_attained, (), halve_price),
}


@pytest.mark.parametrize("claim", SABOTAGE)
def test_half_the_bound_is_refuted(claim):
    attained, arguments, sabotage = SABOTAGE[claim]
    attained(*arguments)
    kept = (rho_of_epsilon_delta, epsilon_of_rho)
    try:
        with pytest.MonkeyPatch.context() as patch:
            for function in kept:
                function.cache_clear()
            sabotage(patch)
            with pytest.raises(AssertionError):
                attained(*arguments)
    finally:
        for function in kept:
            function.cache_clear()
