"""The published cluster mechanisms, against numbers worked out by hand and against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

from pellucid.baselines import clusters
from pellucid.baselines.clusters import EQUAL, GlobalScore, Quality, Weights

# Two clusters of 4 and 6 records. First attribute: (4, 0) and (3, 3), all records (7, 3). Second: (1, 3) and (3, 3), all (4, 6).
SMALL = [np.array([[4, 0], [3, 3]]), np.array([[1, 3], [3, 3]])]


def random_counts(rng: np.random.Generator, n_clusters: int, attributes: int, records: int = 60) -> list[np.ndarray]:
    labels = rng.integers(n_clusters, size=records)
    out = []
    for _ in range(attributes):
        m = int(rng.integers(2, 5))
        lean = rng.dirichlet(np.full(m, 0.5), size=n_clusters)
        h = np.zeros((n_clusters, m), dtype=np.int64)
        for c in labels:
            h[c, rng.choice(m, p=lean[c])] += 1
        out.append(h)
    return out


def test_scores_by_hand():
    np.testing.assert_allclose(clusters.total_variation(SMALL), [[0.3, 0.15], [0.2, 0.1]])
    np.testing.assert_allclose(clusters.interest(SMALL), [[1.2, 0.6], [1.2, 0.6]])
    # 16/7; 9/7 + 9/3; 1/4 + 9/6; 9/4 + 9/6
    np.testing.assert_allclose(clusters.sufficiency(SMALL), [[16 / 7, 1.75], [30 / 7, 3.75]])
    # min(4, 6)·TVD((1, 0), (1/2, 1/2)) = 4·1/2; 4·TVD((1/4, 3/4), (1/2, 1/2)) = 4·1/4
    np.testing.assert_allclose(clusters.pair_diversity(SMALL)[:, 0, 1], [2, 1])
    np.testing.assert_allclose(clusters.single_scores(SMALL)[0], [(1.2 + 16 / 7) / 2, (0.6 + 1.75) / 2])


def test_global_score_by_hand():
    assert clusters.global_score(SMALL, (0, 1)) == pytest.approx(((1.2 + 0.6) / 2 + (16 / 7 + 3.75) / 2 + 4) / 3)
    assert clusters.global_score(SMALL, (0, 0)) == pytest.approx((1.2 + (16 / 7 + 30 / 7) / 2 + 2) / 3)
    assert clusters.global_score(SMALL, (1, 1), Weights(0, 0, 1)) == pytest.approx(1)


def test_quality_by_hand():
    assert clusters.interestingness(SMALL, (0, 1)) == pytest.approx(0.2)
    assert clusters.sufficiency_share(SMALL, (0, 0)) == pytest.approx((16 / 7 + 30 / 7) / 10)
    assert clusters.diversity(SMALL, (0, 1)) == pytest.approx(1)
    assert clusters.diversity(SMALL, (0, 0)) == pytest.approx((1 + 0.5) / 2)
    assert clusters.quality(SMALL, (0, 0)) == pytest.approx((0.25 + (46 / 7) / 10 + 0.75) / 3)


def test_sufficiency_is_the_mean_over_records_of_the_original():
    """Equations 2 and 3 record by record, not the shortcut of Proposition 4.7."""
    counts, combination = random_counts(np.random.default_rng(0), 3, 2), (0, 1, 0)
    n = counts[0].sum()
    total = 0.0
    for c, a in enumerate(combination):
        h = counts[a]
        # r(t', A) of the definition, for the records that have cluster c's share of their value
        share = h[c] / np.maximum(h.sum(axis=0), 1)
        total += h[c].sum() * (h[c] * share).sum() / (h.sum(axis=0) * share).sum()
    assert clusters.sufficiency_share(counts, combination) == pytest.approx(total / n)


def test_diversity_is_the_mean_over_permutations():
    counts = random_counts(np.random.default_rng(1), 5, 3)
    distance = clusters.pair_distance(counts)
    for combination in [(0, 0, 0, 0, 0), (0, 1, 0, 1, 0), (2, 2, 1, 2, 2), (0, 1, 2, 1, 0)]:
        total = 0.0
        for a in set(combination):
            members = [c for c, b in enumerate(combination) if b == a]
            orders = [
                sum(min((distance[a, x, y] for y in order[:i]), default=1.0) for i, x in enumerate(order))
                for order in itertools.permutations(members)
            ]
            total += float(np.mean(orders))
        assert clusters.diversity(counts, combination) == pytest.approx(total / 5)


@pytest.mark.parametrize("kind", [GlobalScore, Quality])
def test_the_grid_is_every_combination(kind):
    counts = random_counts(np.random.default_rng(2), 4, 6)
    objective = kind(counts)
    candidates = [[0, 3, 5], [3, 1, 0], [2, 3, 4], [5, 0, 3]]
    grid = objective.grid(candidates)
    for where in itertools.product(range(3), repeat=4):
        assert grid[where] == pytest.approx(objective.of([row[i] for row, i in zip(candidates, where)]))


def exact_law(counts, epsilon_candidates: float, epsilon_combination: float, k: int) -> dict[tuple[int, ...], float]:
    """Two-stage probabilities: ordered candidates by successive exponential choices, then the exponential mechanism."""
    n_clusters, score = len(counts[0]), GlobalScore(counts)
    scale = 2 * k * n_clusters / epsilon_candidates
    weight = np.exp(clusters.single_scores(counts) / scale)
    ordered = []
    for row in weight:
        law = {}
        for picks in itertools.permutations(range(len(row)), k):
            chance, left = 1.0, row.sum()
            for a in picks:
                chance *= row[a] / left
                left -= row[a]
            law[picks] = chance
        ordered.append(law)
    out: dict[tuple[int, ...], float] = {}
    for sets in itertools.product(*ordered):
        chance = float(np.prod([law[s] for law, s in zip(ordered, sets)]))
        combinations = list(itertools.product(*sets))
        mass = np.exp([epsilon_combination / 2 * score.of(x) for x in combinations])
        for x, p in zip(combinations, chance * mass / mass.sum()):
            out[x] = out.get(x, 0.0) + float(p)
    return out


@pytest.mark.parametrize("grid", [2_000_000, 3])
def test_paper_choice_has_the_published_law(grid, monkeypatch):
    """Also when combinations are drawn in pieces."""
    monkeypatch.setattr(clusters, "GRID", grid)
    counts = [np.array([[4, 0], [3, 3]]), np.array([[1, 3], [3, 3]]), np.array([[2, 2], [0, 6]])]
    law = exact_law(counts, 6.0, 2.0, k=2)
    assert sum(law.values()) == pytest.approx(1)
    rng, draws = np.random.default_rng(3), 2500
    seen = dict.fromkeys(law, 0)
    for _ in range(draws):
        seen[clusters.paper_choice(counts, 6.0, 2.0, k=2, rng=rng)] += 1
    assert chisquare(list(seen.values()), [draws * p for p in law.values()]).pvalue > 1e-3
    # the same frequencies must not pass for a mechanism with half the noise
    wrong = exact_law(counts, 12.0, 4.0, k=2)
    assert chisquare(list(seen.values()), [draws * p for p in wrong.values()]).pvalue < 1e-6


def test_best_combination_is_the_maximum():
    rng = np.random.default_rng(4)
    for case in range(50):
        n_clusters, attributes = int(rng.integers(1, 6)), int(rng.integers(1, 6))
        weights = [EQUAL, Weights(0.1, 0.1, 0.8), Weights(0.5, 0.5, 0), Weights(0.2, 0, 0.8)][case % 4]
        counts = random_counts(rng, n_clusters, attributes)
        score = GlobalScore(counts, weights)
        most = max(score.of(x) for x in itertools.product(range(attributes), repeat=n_clusters))
        assert score.of(clusters.best_combination(counts, weights)) == pytest.approx(most)
        assert score.of(clusters.best_combination(counts, weights, k=attributes)) == pytest.approx(most)


def test_best_combination_of_many_clusters_is_fast():
    rng = np.random.default_rng(5)
    counts = random_counts(rng, 12, 47, records=2000)
    score = GlobalScore(counts)
    best = clusters.best_combination(counts)
    assert score.of(best) >= score.of(clusters.best_combination(counts, k=3)) - 1e-9


def test_tabee_takes_the_best_of_its_candidates():
    counts = random_counts(np.random.default_rng(6), 3, 5)
    objective = Quality(counts)
    most = max(objective.of(x) for x in itertools.product(range(5), repeat=3))
    assert objective.of(clusters.tabee(counts, k=5)) == pytest.approx(most)
    alone = clusters.tabee(counts, k=1)
    assert alone == tuple(objective.single.argmax(axis=1))


def test_with_a_huge_budget_every_baseline_finds_its_target():
    rng = np.random.default_rng(7)
    counts = [h * 1000 for h in random_counts(rng, 3, 5)]
    assert clusters.naive_choice(counts, 1e6, rng=rng) == clusters.tabee(counts)
    assert clusters.dp_tabee(counts, 1e9, 1e9, rng=rng) == clusters.tabee(counts)
    assert clusters.paper_choice(counts, 1e6, 1e6, rng=rng) == clusters.best_combination(counts, k=3)


def test_an_empty_cluster_has_no_score():
    counts = [np.array([[0, 0], [3, 3]]), np.array([[0, 0], [2, 4]])]
    for score in (clusters.interest(counts), clusters.sufficiency(counts)):
        np.testing.assert_array_equal(score[0], 0)
    assert np.isfinite(clusters.quality(counts, (0, 1)))


def test_weights_without_a_single_cluster_score_are_refused():
    with pytest.raises(ValueError, match="interestingness or sufficiency"):
        clusters.single_scores(SMALL, Weights(0, 0, 1))


def test_mae():
    assert clusters.mae((1, 2, 3, 4), (1, 2, 4, 3)) == 0.5
