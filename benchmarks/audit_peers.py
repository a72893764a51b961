"""Other libraries and published mechanisms under our audit: what they claim, and what can be measured of it.

Neighbours are chosen to be told apart, outputs are scored as they are (a learned score), and bounds hold at 95 % for the whole
table. A measured ε above the claim refutes the claim for that relation. Peers that are not installed are left out and said to be:

    pip install diffprivlib interpret-core     # diffprivlib 0.6 wants scikit-learn below 1.6, which interpret-core no longer does
    python benchmarks/audit_peers.py [--runs 6000] [--only histogram]

Claims: diffprivlib says ε of every function; which neighbours it means is not always said, so that both are tried. DP-EBM
says (ε, δ). The published mechanisms (`pellucid.baselines`) claim what their papers print.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.audit.learned import told_apart
from pellucid.baselines import clusters, shapley


@dataclass(frozen=True)
class Peer:
    """One release of somebody else's, beside two neighbouring tables."""

    name: str
    relation: str
    claimed: float
    release: Callable[[Any], Any]
    tables: tuple[Any, Any]
    delta: float = 0.0
    part: float = 1.0
    """Of the runs: those that take long get fewer."""


def diffprivlib_peers() -> Iterator[Peer]:
    from diffprivlib import models, tools

    def histogram(values: Any) -> Any:
        return tools.histogram(np.array(values), epsilon=1.0, bins=2, range=(0, 1))[0]

    def mean(values: Any) -> Any:
        return tools.mean(np.array(values), epsilon=1.0, bounds=(0, 1))

    def median(values: Any) -> Any:
        return tools.median(np.array(values), epsilon=1.0, bounds=(0, 1))

    def regression(table: Any) -> Any:
        x, y = np.array(table)[:, :1], np.array(table)[:, 1].astype(int)
        fitted = models.LogisticRegression(epsilon=1.0, data_norm=1.0, C=1.0, max_iter=50).fit(x, y)
        return np.concatenate([fitted.coef_.ravel(), fitted.intercept_])

    yield Peer("diffprivlib, histogram", "add-remove", 1.0, histogram, ([0.25], [0.25, 0.75]))
    yield Peer("diffprivlib, histogram", "replace", 1.0, histogram, ([0.25, 0.25], [0.25, 0.75]))
    yield Peer("diffprivlib, mean", "replace", 1.0, mean, ([0.0, 0.0], [0.0, 1.0]))
    yield Peer("diffprivlib, mean", "add-remove", 1.0, mean, ([0.0], [0.0, 1.0]))
    yield Peer("diffprivlib, median", "replace", 1.0, median, ([0.0, 0.0, 1.0], [0.0, 1.0, 1.0]))
    few = [[1.0, 1], [-1.0, 0]]
    yield Peer("diffprivlib, logistic regression", "replace", 1.0, regression, ([*few, [1.0, 1]], [*few, [1.0, 0]]), part=0.25)


def ebm_peers() -> Iterator[Peer]:
    from interpret.privacy import DPExplainableBoostingClassifier

    def fitted(table: Any) -> Any:
        x, y = np.array(table)[:, :1], np.array(table)[:, 1].astype(int)
        made = DPExplainableBoostingClassifier(
            epsilon=1.0, delta=0.01, max_rounds=1, max_bins=4, n_jobs=1, random_state=None,
            privacy_bounds=np.array([[0.0, 1.0]]),
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made.fit(x, y)
        weights = np.concatenate([np.ravel(w) for w in made.bin_weights_])
        return np.resize(np.concatenate([weights, np.ravel(made.term_scores_[0])]), 10)

    rest = [[i / 20, i % 2] for i in range(20)]
    tables = [*rest, [0.0, 0]], [*rest, [1.0, 1]]
    yield Peer("DP-EBM (interpret), a bin to another", "replace", 1.0, fitted, tables, 0.01, 0.1)


def published_peers() -> Iterator[Peer]:
    rng = np.random.default_rng()

    def stump(rows: np.ndarray) -> np.ndarray:
        return (rows[:, 0] > 0).astype(float)

    design = shapley.regression(2, 50, np.random.default_rng(0))
    record = np.array([1.0, 0.0])
    # A thousand records whose mean one of them carries over the split of the stump.
    below, above = (np.array([[-1.0, 0.0]] * 499 + [[1.0, 0.0]] * 500 + [[last, 0.0]]) for last in (-1.0, 1.0))

    def values_with(sensitivity: float) -> Callable[[Any], Any]:
        sigma = shapley.analytic_sigma(sensitivity, 1.0, 0.01)
        exact = {id(t): shapley.mean_background_values(stump, record, t, design) for t in (below, above)}
        return lambda table: shapley.gaussian_values(exact[id(table)], sigma, rng)

    sound, heuristic = shapley.certified_sensitivity(design, 1.0), shapley.heuristic_sensitivity(design, 1.0, 1.0, len(below))
    yield Peer("Kernel SHAP, certified Δ (Lemma 20)", "replace", 1.0, values_with(sound), (below, above), 0.01)
    yield Peer("Kernel SHAP, Δ/n as in appendix E, n = 1000", "replace", 1.0, values_with(heuristic), (below, above), 0.01)

    # All values at a tie, one below: then the second largest and every value move against each other.
    low, high = np.array([1.0, 1.0, 1.0, 2.0, 2.0]), np.array([2.0, 2.0, 2.0, 1.0, 1.0])

    def first_above(how: Callable[..., Any], **more: Any) -> Callable[[Any], Any]:
        return lambda values: -1.0 if (found := how(values, 1.0, 1.0, rng, **more)) is None else float(found)

    published = shapley.above_threshold_as_published
    yield Peer("above threshold as published, largest first", "Δ = 1", 1.0, first_above(published), (low, high))
    yield Peer("above threshold, corrected", "Δ = 1", 1.0, first_above(shapley.above_threshold), (low, high))

    # A record whose one value tells its small cluster apart, and whose other value told it apart before.
    one = [np.array([[1, 0], [0, 40]]), np.array([[0, 1], [0, 40]])]
    other = [np.array([[0, 1], [0, 40]]), np.array([[1, 0], [0, 40]])]

    def chosen(how: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda counts: [float(a) for a in how(counts, 0.5, 0.5, k=2, weights=clusters.Weights(0.0, 1.0, 0.0), rng=rng)]

    for name, how in (("DPClustX", clusters.paper_choice), ("DP-TabEE", clusters.dp_tabee)):
        yield Peer(f"{name}, choice of attributes", "replace", 1.0, chosen(how), (one, other))


def sampled(peer: Peer, table: Any, runs: int) -> np.ndarray:
    return np.array([np.ravel(peer.release(table)) for _ in range(runs)], dtype=float)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--runs", type=int, default=6000)
    options.add_argument("--only", default="")
    given = options.parse_args()
    peers: list[Peer] = []
    for family in (diffprivlib_peers, ebm_peers, published_peers):
        try:
            peers += family()
        except ImportError as error:
            print(f"{family.__name__}: not installed ({error.name or error})")
    confidence = 1 - 0.05 / max(len(peers), 1)
    print("| peer | neighbours | claimed ε | measured ε ≥ | runs | |\n|---|---|---|---|---|---|")
    for peer in (peer for peer in peers if given.only.lower() in peer.name.lower()):
        runs = int(given.runs * peer.part)
        at = f" at δ = {peer.delta:g}" if peer.delta else ""
        try:
            measured = told_apart(*(sampled(peer, table, runs) for table in peer.tables), confidence, peer.delta)
        except Exception as error:
            print(f"| {peer.name} | {peer.relation} | {peer.claimed:g}{at} | – | – | failed: {type(error).__name__}: {error} |")
            continue
        said = "above the claim" if measured > peer.claimed else "holds"
        figures = f"{peer.claimed:g}{at} | {measured:.2f} | {runs:,}"
        print(f"| {peer.name} | {peer.relation} | {figures} | {said} |", flush=True)


if __name__ == "__main__":
    main()
