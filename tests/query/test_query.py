"""Sensitivities of sums over records, pairs and blocks: never exceeded by real neighbours, and attained."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sources import Chosen

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.explainers.blocks.ballots import Ballots
from pellucid.mechanisms import Norms
from pellucid.mechanisms import labels as secret
from pellucid.query import Blocks, Choice, Couples, Joint, Pairs, Records, Sum, sensitivity, touched
from pellucid.query.bound import UNITS
from pellucid.query.bounds import Box, Cells
from pellucid.query.scores import QuantileScore

SCHEMA = pel.Schema({"v": pel.Number(0, 1)})
VALUES = st.lists(st.sampled_from([0.0, 1.0, 0.25]), min_size=1, max_size=9)


def own(rows):
    return rows["v"][:, None]


def differs(rows, donors):
    return (np.abs(rows["v"] - donors["v"]))[:, None]


def block_mean(rows):
    return [rows["v"].mean()] if len(rows) else [0.5]


def run(values, query, relation, labels):
    """Exact totals with the secret labels fixed: row i has label labels[i], whatever else is in the table."""
    engine = LocalEngine({"v": np.array(values, dtype=float)}, SCHEMA, relation, pel.Unit())
    original = secret.fresh
    secret.fresh = lambda: Chosen(labels)
    try:
        return engine.totals(query)
    finally:
        secret.fresh = original


def query(over):
    return Sum({Records: own, Pairs: differs, Blocks: block_mean}[type(over)], Box(1, 0, 1), over=over, columns=("v",))


@pytest.mark.parametrize("over", [Records(), Pairs(), Blocks(3)])
@given(values=VALUES, new=st.sampled_from([0.0, 1.0]), seed=st.integers(0, 10**6))
def test_adding_a_record(over, values, new, seed):
    """Claims: pairs, blocks. The new record comes last in the table, but anywhere in the secret order."""
    labels = np.random.default_rng(seed).permutation(len(values) + 1)
    before, after = (run(v, query(over), "add-remove", labels) for v in (values, [*values, new]))
    assert abs(after[0] - before[0]) <= sensitivity(query(over), "add-remove").linf


@pytest.mark.parametrize("over", [Records(), Pairs(), Blocks(3)])
@given(values=VALUES, new=st.sampled_from([0.0, 1.0]), seed=st.integers(0, 10**6), data=st.data())
def test_replacing_a_record(over, values, new, seed, data):
    labels = np.random.default_rng(seed).permutation(len(values))
    changed = list(values)
    changed[data.draw(st.integers(0, len(values) - 1))] = new
    before, after = (run(v, query(over), "replace", labels) for v in (values, changed))
    assert abs(after[0] - before[0]) <= sensitivity(query(over), "replace").linf


def test_the_bounds_are_attained():
    pairs = query(Pairs())
    zeros = [0.0] * 6
    assert run([*zeros[:5], 1.0], pairs, "replace", range(6))[0] - run(zeros, pairs, "replace", range(6))[0] == 4 * UNITS
    assert sensitivity(pairs, "replace").linf == 4 * UNITS
    # Inserted between a 0 and a 0, a 1 adds a term of 1 and turns another from 0 to 1: half the range plus the range.
    added = run([0.0, 0.0, 1.0], pairs, "add-remove", [0, 2, 1])[0] - run([0.0, 0.0], pairs, "add-remove", [0, 2])[0]
    assert added == 3 * UNITS == sensitivity(pairs, "add-remove").linf
    blocks = query(Blocks(1))
    assert run([1.0], blocks, "replace", [0])[0] - run([0.0], blocks, "replace", [0])[0] == 2 * UNITS


def parity(rows):
    return [float(rows["v"].sum() % 2)]


def test_a_balanced_shuffle_would_be_wrong_under_add_remove():
    """Claim: blocks. Cut by rank, one more record pushes another across the border and both blocks change."""
    blocks = Sum(parity, Box(1, 0, 1), over=Blocks(2), columns=("v",))
    by_rank = [run(v, blocks, "replace", [1, 2, 3, 0])[0] for v in ([1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0])]
    claimed = sensitivity(blocks, "add-remove").linf
    assert abs(by_rank[1] - by_rank[0]) == 2 * claimed
    for seed in range(200):
        rng = np.random.default_rng(seed)
        values, labels = rng.integers(0, 2, 4).astype(float).tolist(), rng.integers(0, 2**40, 4)
        ours = [run(v, blocks, "add-remove", labels)[0] for v in (values[:3], values)]
        assert abs(ours[1] - ours[0]) <= claimed


@given(
    values=VALUES, new=st.sampled_from([0.0, 1.0]), seed=st.integers(0, 10**6), repeats=st.integers(2, 5), adding=st.booleans()
)
def test_repeats_move_no_further_than_one_pairing(values, new, seed, repeats, adding):
    """Claim: pairs. The average over several secret orders has the sensitivity of one."""
    relation = "add-remove" if adding else "replace"
    changed = [*values, new] if adding else [new, *values[1:]]
    asked = Sum(differs, Box(1, 0, 1), over=Pairs(repeats), columns=("v",))
    once = sensitivity(query(Pairs()), relation)
    assert sensitivity(asked, relation) == once
    told = []
    for table in (values, changed):
        rng = np.random.default_rng(seed)
        with pytest.MonkeyPatch.context() as patch:
            # A fresh order at every turn, and the same one for the same record in both tables.
            patch.setattr(secret, "fresh", lambda rng=rng: Chosen(rng.integers(0, 2**60, 64)))
            told.append(LocalEngine({"v": np.array(table)}, SCHEMA, relation, pel.Unit()).totals(asked)[0])
    assert abs(told[1] - told[0]) <= once.linf


def test_a_repeated_pairing_is_an_average():
    values = np.random.default_rng(0).random(50)
    asked = [Sum(differs, Box(1, 0, 1), over=Pairs(r), columns=("v",)) for r in (1, 40)]
    single = [LocalEngine({"v": values}, SCHEMA, "replace", pel.Unit()).totals(asked[0])[0] / UNITS for _ in range(200)]
    many = LocalEngine({"v": values}, SCHEMA, "replace", pel.Unit()).totals(asked[1])[0] / UNITS
    assert abs(many - np.mean(single)) < 4 * np.std(single) * (1 / 40 + 1 / 200) ** 0.5


def cell_of_difference(rows, donors):
    return np.minimum((np.abs(rows["v"] - donors["v"]) * 4).astype(int), 3)[:, None], None, None


@given(values=VALUES, new=st.sampled_from([0.0, 0.3, 1.0]), seed=st.integers(0, 10**6), adding=st.booleans())
def test_a_quantile_over_pairs(values, new, seed, adding):
    """Claim: quantile-span. One unit touches two pairs, and a quantile of pairs is calibrated to both."""
    relation = "add-remove" if adding else "replace"
    choice = Choice(Sum(cell_of_difference, Cells(4), over=Pairs(), columns=("v",)), QuantileScore(Fraction(3, 4)))
    changed = [*values, new] if adding else [new, *values[1:]]
    labels = np.random.default_rng(seed).permutation(len(values) + 1)
    before, after = (choice.score.of(run(v, choice.of, relation, labels)) for v in (values, changed))
    how, units = touched(choice, relation)
    change = [b - a for a, b in zip(before, after)]
    assert max(change) - min(change) <= choice.score.span(how, units)
    assert max(map(abs, change)) <= choice.score.largest(how, units)


def test_a_quantile_over_pairs_needs_twice_the_weight():
    """Replaced between two others, a record moves both its own pair and its receiver's across the quantile."""
    choice = Choice(Sum(cell_of_difference, Cells(4), over=Pairs(), columns=("v",)), QuantileScore(Fraction(1, 2)))
    before, after = (choice.score.of(run([0.0] * 5 + [v], choice.of, "replace", range(6))) for v in (0.0, 1.0))
    one = QuantileScore(Fraction(1, 2)).largest("replace", UNITS)
    assert max(abs(b - a) for a, b in zip(before, after)) == 2 * one == choice.score.largest(*touched(choice, "replace"))


@given(values=VALUES, new=st.sampled_from([0.0, 1.0]), seed=st.integers(0, 10**6), place=st.integers(0, 8))
def test_replacing_a_record_of_a_couple(values, new, seed, place):
    """Claim: couples"""
    asked = Sum(differs, Box(1, 0, 1), over=Couples(), columns=("v",))
    labels = np.random.default_rng(seed).permutation(len(values))
    changed = list(values)
    changed[place % len(values)] = new
    before, after = (run(v, asked, "replace", labels) for v in (values, changed))
    assert abs(after[0] - before[0]) <= sensitivity(asked, "replace").linf == 2 * UNITS


def test_everybody_is_in_one_couple_but_the_odd_one():
    seen = []

    def look(first, second):
        seen.append((first["v"], second["v"]))
        return np.zeros((len(first["v"]), 1))

    values = np.arange(7) / 10
    LocalEngine({"v": values}, SCHEMA, "replace", pel.Unit()).totals(Sum(look, Box(1, 0, 1), over=Couples(), columns=("v",)))
    both = np.concatenate(seen[0])
    assert len(both) == 6 == len(set(both)) and set(both) <= set(values)


def test_couples_are_refused_under_add_remove():
    asked = Sum(differs, Box(1, 0, 1), over=Couples(), columns=("v",))
    with pytest.raises(pel.PlanError, match="add-remove"):
        sensitivity(asked, "add-remove")
    for engine in (
        LocalEngine({"v": np.zeros(4)}, SCHEMA, "add-remove", pel.Unit()),
        LocalEngine({"v": np.zeros(4), "id": [0, 0, 1, 1]}, SCHEMA, "replace", pel.Unit("id", max_rows=2)),
    ):
        with pytest.raises(pel.ReleaseFailed):
            engine.totals(asked)


def test_votes_are_cast_by_blocks():
    with pytest.raises(pel.PlanError, match="blocks"):
        Sum(own, Ballots(2), columns=("v",))


def test_joint_norms_of_permutation_importance():
    """L1 (2d + 1)·R, L2 √(4d + 1)·R for a base error over records and d permuted errors over pairs (replace)."""
    d = 5
    joint = Joint([query(Records())] + [query(Pairs())] * d)
    norms, unit = sensitivity(joint, "replace"), 2 * UNITS
    assert (norms.l1, norms.l2_squared, norms.linf) == ((2 * d + 1) * unit, (4 * d + 1) * unit**2, 2 * unit)


def test_several_rows_of_one_person_scale_everything():
    assert sensitivity(query(Records()), "replace", 5) == Norms(10 * UNITS, 100 * UNITS**2, 10 * UNITS)


@given(
    st.lists(st.integers(0, 5), min_size=0, max_size=8),
    st.integers(0, 5),
    st.integers(0, 5),
    st.sampled_from([Fraction(1, 2), Fraction(9, 10), Fraction(1, 20), Fraction(95, 100)]),
)
def test_quantile_span(values, new, other, q):
    """Claim: quantile-span"""
    score = QuantileScore(q)
    count = lambda v: [UNITS * c for c in np.bincount(np.array(v, dtype=int), minlength=6).tolist()]  # noqa: E731
    for relation, a, b in (("add-remove", values, [*values, new]), ("replace", [*values, new], [*values, other])):
        change = [x - y for x, y in zip(score.of(count(b)), score.of(count(a)))]
        assert max(change) - min(change) <= score.span(relation, UNITS)
        assert max(map(abs, change)) <= score.largest(relation, UNITS)


def test_quantile_span_is_attained():
    """A span of 1 would be wrong: one replacement raises one candidate by 1 and lowers another by 1."""
    score = QuantileScore(Fraction(1, 2))
    before, after = score.of([1, 0, 1, 2, 0]), score.of([2, 0, 1, 1, 0])
    change = [b - a for a, b in zip(before, after)]
    assert max(change) - min(change) == score.span("replace", 1) == 4


def test_quantile_finds_the_quantile():
    totals = np.bincount(np.random.default_rng(0).integers(0, 100, 5000), minlength=100).tolist()
    assert abs(int(np.argmax(QuantileScore(Fraction(9, 10)).of(totals))) - 89) <= 2


def test_cells_over_records_match_bincount():
    values = np.random.default_rng(0).random(1000)
    bound = Cells(10)
    cells = Sum(lambda rows: ((rows["v"] * 10).astype(int)[:, None], np.ones((len(rows), 1)), None), bound, columns=("v",))
    totals = LocalEngine({"v": values}, SCHEMA, "replace", pel.Unit(), batch_rows=37).totals(cells)
    assert [t // UNITS for t in totals] == np.bincount((values * 10).astype(int), minlength=10).tolist()


def test_only_reviewed_bounds_and_scores_are_asked():
    class Lie(Box):
        def replaced(self):
            return Norms(1, 1, 1)

    class Guess(QuantileScore):
        pass

    with pytest.raises(pel.PlanError, match="reviewed bounds"):
        Sum(own, Lie(1, 0, 1))
    with pytest.raises(pel.PlanError, match="reviewed score"):
        Choice(Sum(own, Cells(3)), Guess(Fraction(1, 2)))
    for of in (Sum(differs, Cells(3), over=Blocks(2)), Sum(own, Box(1, 0, 1)), Sum(own, Cells(3, value=1.0))):
        with pytest.raises(pel.PlanError, match="histogram over records"):
            Choice(of, QuantileScore(Fraction(1, 2)))
