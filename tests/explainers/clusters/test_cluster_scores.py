"""Integer cluster scores: equal to the paper's definitions, and never moved by a neighbour more than their spans say."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from pellucid.errors import PlanError
from pellucid.explainers.clusters.scores import CandidateScore, CombinationScore, combinations_of
from pellucid.mechanisms.amounts import Spend

UNITS = 2**30
RELATIONS = ("add-remove", "replace")
WEIGHTS = [(1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 1, 8)]


def flat(tables):
    """Totals in the order of the score: attribute, cluster, value."""
    return [int(v) for table in tables for row in table for v in row]


def paper(tables, clusters):
    """Int, Suf and d in floats, as Definitions 4.3, 4.6 and 4.8 say them."""
    interest, sufficiency, diversity = np.zeros((clusters, len(tables))), np.zeros((clusters, len(tables))), {}
    for a, h in enumerate(np.asarray(t, dtype=float) for t in tables):
        size, whole, n = h.sum(axis=1), h.sum(axis=0), h.sum()
        for c in range(clusters):
            interest[c, a] = np.abs(h[c] - (size[c] / n if n else 0) * whole).sum() / 2
            sufficiency[c, a] = sum(x * x / y for x, y in zip(h[c], whole) if x)
            for e in range(c):
                p, q = h[c] / (size[c] or 1), h[e] / (size[e] or 1)
                diversity[e, c, a] = min(size[c], size[e]) * np.abs(p - q).sum() / 2
    return interest, sufficiency, diversity, np.asarray(tables[0]).sum(axis=1)


def global_score(parts, weights, combination):
    interest, sufficiency, diversity, size = parts
    clusters, picks = len(combination), len(combination[0])
    i, s, d = (w / sum(weights) for w in weights)
    total = sum(i * interest[c, a] + s * sufficiency[c, a] for c, row in enumerate(combination) for a in row) / (clusters * picks)
    for e, c in itertools.combinations(range(clusters), 2):
        pairs = (diversity[e, c, a] if a == b else min(size[e], size[c]) for a in combination[e] for b in combination[c])
        total += d * sum(pairs) * 2 / (clusters * (clusters - 1) * picks**2)
    return total


def random_tables(rng, clusters, sizes, largest=1000):
    """Tables with equal cluster sizes over the attributes; clusters may be empty, values rare or everywhere."""
    size = np.where(rng.random(clusters) < 0.2, 0, np.exp(rng.random(clusters) * np.log(largest)).astype(int))
    return [np.array([rng.multinomial(n, rng.dirichlet(np.full(m, rng.choice([0.05, 1])))) for n in size]) for m in sizes]


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("clusters, picks", [(1, 1), (2, 1), (3, 1), (3, 2), (5, 1)])
def test_scores_are_the_papers(weights, clusters, picks):
    """Differences between combinations, since the integer score leaves out what is the same for all of them."""
    rng, sizes = np.random.default_rng(clusters), (2, 3, 4)
    score = CombinationScore(clusters, sizes, *weights, per_cluster=picks)
    for _ in range(3):
        tables = random_tables(rng, clusters, sizes)
        parts, made = paper(tables, clusters), score.tables([UNITS * v for v in flat(tables)])
        combinations = list(combinations_of(score))
        ours = np.array([made.of(c) / (score.scale * UNITS) for c in combinations])
        theirs = np.array([global_score(parts, weights, c) for c in combinations])
        assert np.abs((ours - ours[0]) - (theirs - theirs[0])).max() < 1e-6


def test_candidate_scores_are_the_papers():
    rng, sizes = np.random.default_rng(0), (2, 5)
    for clusters in (1, 2, 4):
        tables = random_tables(rng, clusters, sizes)
        interest, sufficiency, _, _ = paper(tables, clusters)
        ours = np.array(CandidateScore(clusters, sizes, 2, 3).of([UNITS * v for v in flat(tables)]), dtype=float) / UNITS
        assert np.abs(ours - 2 * interest - 3 * sufficiency).max() < 1e-6


def test_the_number_type_does_not_matter():
    """Totals without a common factor use big integers, others 64 bits: the same rounded numbers."""
    rng, sizes = np.random.default_rng(1), (3, 2)
    tables = flat(random_tables(rng, 3, sizes))
    score, huge = CombinationScore(3, sizes, 1, 2, 3), 2**40
    small, large = score.tables(tables), score.tables([huge * v for v in tables])
    for a, b in zip(itertools.chain(*small.unary), itertools.chain(*large.unary)):
        assert b >> 40 == a
    assert score.tables(np.array(tables)) == small


def test_empty_data_and_empty_clusters():
    score = CombinationScore(3, (2, 2), 1, 1, 1)
    assert score.tables([0] * 12).unary == [[0, 0]] * 3
    alone = score.tables([5, 0, 0, 0, 0, 0, 2, 3, 0, 0, 0, 0])
    assert alone.unary == [[2 * 5, 2 * 5], [0, 0], [0, 0]]
    assert all(v == 0 for m in alone.penalty for row in m for v in row)


def move(rng, tables, weight, parts):
    """Add `weight` units, split over `parts` rows, each in a cluster of its own choice with values of its own choice."""
    out = [t.copy() for t in tables]
    for _ in range(parts):
        cluster = rng.integers(len(out[0]))
        for t in out:
            t[cluster, rng.integers(t.shape[1])] += weight // parts
    return out


def changes(score, tables, other):
    """The change of every combination's integer score, enumerated at once."""
    before, after = score.tables(flat(tables)), score.tables(flat(other))
    unary = np.array(after.unary, dtype=object) - np.array(before.unary, dtype=object)
    penalty = np.array(after.penalty, dtype=object) - np.array(before.penalty, dtype=object)
    grid = np.array(list(combinations_of(score)))  # combination, cluster, pick
    total = sum(unary[c, grid[:, c, i]] for c in range(grid.shape[1]) for i in range(grid.shape[2]))
    for e, c in itertools.combinations(range(grid.shape[1]), 2):
        for i, j in itertools.product(range(grid.shape[2]), repeat=2):
            same = grid[:, e, i] == grid[:, c, j]
            total = total - np.where(same, penalty[grid[:, e, i], e, c], 0)
    return total


def neighbours(rng, clusters, sizes, relation):
    """Two neighbouring tables in units: random sizes, empty data, fractions of records, people with rows in several clusters."""
    common = [UNITS * t for t in random_tables(rng, clusters, sizes, rng.choice([2, 30, 10**4]))]
    if rng.random() < 0.05:
        common = [0 * t for t in common]
    weights = [int(rng.choice([UNITS, UNITS, UNITS // 3, UNITS // 7])) for _ in range(2)]
    other = move(rng, common, weights[0], int(rng.integers(1, 4)))
    return (move(rng, common, weights[1], int(rng.integers(1, 4))) if relation == "replace" else common), other


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    "clusters, picks, sizes", [(1, 1, (3, 2)), (2, 1, (3, 2, 2)), (3, 1, (2, 2, 3)), (4, 1, (2, 2)), (3, 2, (2, 2, 2))]
)
def test_no_neighbour_exceeds_the_combination_span(relation, clusters, picks, sizes):
    rng = np.random.default_rng(clusters)
    for weights in WEIGHTS:
        score = CombinationScore(clusters, sizes, *weights, per_cluster=picks)
        for _ in range(40):
            moved = changes(score, *neighbours(rng, clusters, sizes, relation))
            assert max(moved) - min(moved) <= score.span(relation, UNITS)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("clusters", [1, 2, 3, 5])
def test_no_neighbour_exceeds_the_candidates_span(relation, clusters):
    rng, sizes = np.random.default_rng(clusters), (2, 3, 2)
    for weights in ((1, 1), (1, 0), (0, 1), (3, 1)):
        score = CandidateScore(clusters, sizes, *weights)
        spans = score.spans(relation, UNITS)
        for _ in range(60):
            before, after = (np.array(score.of(flat(t)), dtype=object) for t in neighbours(rng, clusters, sizes, relation))
            ranges = [max(row) - min(row) for row in after - before]
            assert sum(ranges) <= sum(spans)
            assert sum(r * r for r in ranges) <= sum(s * s for s in spans)


def binary(sizes, zeros):
    """A table with two values; zeros[c] records of cluster c have the first."""
    return np.array([[z, n - z] for z, n in zip(zeros, sizes)], dtype=object)


def add_family(clusters, picks, shared):
    """Counts and two combinations that the arrival of a record in cluster 0, with the first value everywhere, pulls apart.

    Cluster 1 is huge. In the highest combination the new value is rare and only in cluster 0. In the lowest one cluster 0
    shares an attribute that separates it from another: with one cluster only, or (`shared`) with all of them.
    """
    small, huge, rare = 10**8, 10**16, 2000
    middle = 10**12 if shared else small
    size = [small, huge] + [middle] * (clusters - 2)
    tables = []

    def attribute(zeros):
        tables.append(binary(size, zeros))
        return len(tables) - 1

    def group(zeros):
        return tuple(attribute(zeros) for _ in range(picks))

    own = [small // rare] + [0] * (clusters - 1)
    if shared:
        top = [group(own) for _ in range(clusters)]
        low = [group([0, huge // rare] + [middle // rare] * (clusters - 2))] * clusters
    else:
        top = [group(own)] * clusters
        pair = group([0, huge // rare] + [0] * (clusters - 2))
        low = [pair, pair] + [group([middle // 2 if e == c else 0 for e in range(clusters)]) for c in range(2, clusters)]
    after = [t.copy() for t in tables]
    for t in after:
        t[0, 0] += 1
    return tables, after, top, low


def swap(size, columns):
    """Tables with three values before and after a record of cluster 0 with value 0 becomes one of cluster 1 with value 1.

    A column gives the numbers of records with value 0 and with value 1, cluster by cluster.
    """
    before = [np.array([[x, y, n - x - y] for n, x, y in zip(size, *column)], dtype=object) for column in columns]
    for t in before:
        t[0, 0] += 1
    after = [t.copy() for t in before]
    for t in after:
        t[0, 0] -= 1
        t[1, 1] += 1
    return before, after


def unary_swap(clusters):
    """Two small clusters exchange a record beside a huge one: counts, and the best and the worst attribute of each cluster."""
    size = [10**8, 10**8, 10**16] + [10**8] * (clusters - 3)

    def only(*users):
        return [n // 2000 if c in users else 0 for c, n in enumerate(size)]

    columns = [(only(1), only(1)), (only(2), only(2)), (only(0), only(0)), (only(2), only(1)), (only(0), only(2))]
    top, low = [(1,), (0,), (3,)], [(2,), (1,), (4,)]
    for c in range(3, clusters):
        columns += [(only(c), only()), (only(), only(c))]
        top.append((len(columns) - 2,))
        low.append((len(columns) - 1,))
    return *swap(size, columns), top, low


def shared_swap(clusters):
    """Clusters of one size that all share an attribute: in the first the exchange separates them, in the second it joins them."""
    n = 10**12
    rare, rarer = n // 1000, n // 2000
    rest = clusters - 2
    apart_ = ([0, rarer] + [rarer] * rest, [0, rare] + [0] * rest)
    joined = ([rare, 0] + [0] * rest, [rarer, 0] + [rarer] * rest)
    return *swap([n] * clusters, [apart_, joined]), [(0,)] * clusters, [(1,)] * clusters


def share_of(weights, family, relation="replace"):
    tables, after, top, low = family
    score = CombinationScore(len(top), tuple(t.shape[1] for t in tables), *weights, per_cluster=len(top[0]))
    before, now = (score.tables([UNITS * v for v in flat(t)]) for t in (tables, after))
    moved = (now.of(top) - before.of(top)) - (now.of(low) - before.of(low))
    return Fraction(moved, score.span(relation, UNITS))


def test_cluster_combination_span_is_attained():
    """Add-remove: every weighting, up to three attributes per cluster, to 1 %. Replace: interest and sufficiency; diversity."""
    for weights in WEIGHTS:
        for clusters, picks in ((2, 1), (3, 1), (5, 1), (9, 1), (3, 2), (5, 3)):
            best = max(share_of(weights, add_family(clusters, picks, shared), "add-remove") for shared in (False, True))
            assert 0.99 <= best <= 1, (weights, clusters, picks)
    for clusters in (3, 5, 9):
        for weights in ((1, 0, 0), (0, 1, 0), (1, 1, 0), (2, 3, 0)):
            assert 0.99 <= share_of(weights, unary_swap(clusters)) <= 1, (weights, clusters)
    for clusters in (2, 3, 5, 9):
        assert 0.99 <= share_of((0, 0, 1), shared_swap(clusters)) <= 1, clusters


def halve_combination_span(patch):
    honest = CombinationScore.span
    patch.setattr(CombinationScore, "span", lambda self, relation, units: honest(self, relation, units) // 2)


def ranges(score, tables, after):
    before, now = (np.array(score.of([UNITS * v for v in flat(t)]), dtype=object) for t in (tables, after))
    return [max(row) - min(row) for row in now - before]


def test_cluster_candidates_span_is_attained():
    """All clusters reach their range at once, so ε and ρ are both spent to 1 %: at the rate that the score asks for."""
    for clusters, (interest, sufficiency), k in itertools.product((3, 5, 9), ((1, 1), (1, 0), (0, 1), (3, 2)), (1, 2)):
        for relation, family in (("add-remove", add_family(clusters, 1, False)), ("replace", unary_swap(clusters))):
            tables, after, _, _ = family
            score = CandidateScore(clusters, tuple(t.shape[1] for t in tables), interest, sufficiency)
            moved = ranges(score, tables, after)
            for spend in (Spend("epsilon", Fraction(1, 3)), Spend("rho", Fraction(1, 50))):
                rate = score.rate(relation, UNITS, spend, k)
                pure, squares = k * rate * sum(moved), k * rate**2 * sum(r * r for r in moved) / 8
                spent = pure if spend.currency == "epsilon" else squares
                assert 0.99 <= spent / spend.amount <= 1, (clusters, relation, spend)


def halve_candidates_span(patch):
    honest = CandidateScore.spans
    patch.setattr(CandidateScore, "spans", lambda self, relation, units: [s // 2 for s in honest(self, relation, units)])


@pytest.mark.parametrize(
    "attained, sabotage",
    [
        (test_cluster_combination_span_is_attained, halve_combination_span),
        (test_cluster_candidates_span_is_attained, halve_candidates_span),
    ],
)
def test_half_the_span_is_refuted(attained, sabotage):
    with pytest.MonkeyPatch.context() as patch:
        sabotage(patch)
        with pytest.raises(AssertionError):
            attained()


def test_the_papers_constants_are_larger():
    """R of the equal weights at 5, 9 and 15 clusters, and the noise of the candidates against the paper's 2kC/ε."""
    for clusters, published in ((5, 0.767), (9, 0.565), (15, 0.470)):
        score = CombinationScore(clusters, (2,), 1, 1, 1)
        assert score.span("add-remove", UNITS) / (score.scale * UNITS) == pytest.approx(published, abs=5e-4)
        assert score.span("replace", UNITS) < 2 * score.span("add-remove", UNITS)
        candidates = CandidateScore(clusters, (2,), 1, 1)
        sigma = candidates.sigma("add-remove", UNITS, Spend("epsilon", Fraction(1)), 1) / (2 * UNITS)
        assert float(sigma) == pytest.approx((4 + clusters) / 2, rel=1e-6)


def test_costs_are_at_most_the_spend():
    score = CandidateScore(4, (2, 2, 2), 1, 2)
    for relation, currency, k in itertools.product(RELATIONS, ("epsilon", "rho"), (1, 3)):
        spend = Spend(currency, Fraction(7, 100))
        cost = score.cost(relation, UNITS, score.rate(relation, UNITS, spend, k), k, currency)
        assert spend.amount * (1 - Fraction(1, 10**15)) <= cost <= spend.amount


@pytest.mark.parametrize(
    "wrong",
    [
        {"clusters": 0},
        {"sizes": ()},
        {"sizes": (2, 0)},
        {"interest": -1},
        {"interest": 0, "sufficiency": 0, "diversity": 0},
        {"per_cluster": 3},
        {"per_cluster": 0},
        {"candidates": ((0,),)},
        {"candidates": ((0, 5), (0, 1))},
        {"candidates": ((0, 0), (0, 1)), "per_cluster": 2},
    ],
)
def test_wrong_requests_are_refused(wrong):
    with pytest.raises(PlanError):
        CombinationScore(**{"clusters": 2, "sizes": (2, 3), "interest": 1, "sufficiency": 1, "diversity": 1, **wrong})


def test_wrong_totals_and_candidates_are_refused():
    with pytest.raises(PlanError, match="one per cell"):
        CombinationScore(2, (2,), 1, 1, 1).tables([1, 2, 3])
    with pytest.raises(PlanError, match="out of 1"):
        CandidateScore(2, (2,), 1, 1).rate("replace", UNITS, Spend("epsilon", Fraction(1)), 2)
