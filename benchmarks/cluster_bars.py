"""Do the bars of cluster histograms, the ranges of their sentences and the bars of centres hold what they say?

    python benchmarks/cluster_bars.py                # histograms and sentences, 300 releases a setting
    python benchmarks/cluster_bars.py centres        # PrivateKMeans, 300 releases a setting

Whole releases through the production noise, on totals that are computed once: identical clusters, clusters that differ, a small
table (300 rows), a middling and a heavy-tailed one, both methods, relations and currencies. "count", "share", "elsewhere" are the
95 % bars of single values; "sentence" is the share of sentences whose two ranges both hold, "told" that of sentences that say
their cluster differs from elsewhere.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.mechanisms import NoiseLaw, Spend
from pellucid.public.schema import Unit
from pellucid.query import released_parts
from pellucid.release.answer import Answer
from pellucid.release.door import Ask
from pellucid.release.plan import Public

SPENDS = {"ε": Spend("epsilon", Fraction(1)), "ρ": Spend("rho", Fraction(1, 30))}
LETTERS = list("abcdefghij")


def tables() -> dict[str, tuple[pd.DataFrame, pel.Schema]]:
    """Records with a cluster `g` and attributes: the same in all clusters, and different."""
    rng = np.random.default_rng(0)
    made = {}
    for name, size in (("300 rows", 300), ("5,000 rows", 5000), ("heavy tails", 3000)):
        g = rng.integers(0, 3, size)
        tail = rng.pareto(1.2, size) if name == "heavy tails" else rng.normal(30, 12, size) + 10 * g
        weights = 1 / np.arange(1, 11) ** 2
        data = {
            "g": g,
            "same": rng.choice(LETTERS, size, p=weights / weights.sum()),
            "other": np.where(rng.random(size) < 0.2 + 0.3 * (g == 1), "a", rng.choice(LETTERS, size)),
            "amount": np.clip(tail, 0, 100),
        }
        schema = pel.Schema(
            {
                "g": pel.Category([0, 1, 2]),
                "same": pel.Category(LETTERS),
                "other": pel.Category(LETTERS),
                "amount": pel.Number(0, 100),
            }
        )
        made[name] = (pd.DataFrame(data), schema)
    return made


def releases(explainer: Any, data: Any, schema: pel.Schema, relation: str, spend: Spend, runs: int) -> Iterator[Any]:
    """Runs of an explainer whose questions do not depend on earlier answers: totals are read once, noise is drawn anew."""
    for model in explainer.models:
        model.ready(schema)
    engine = LocalEngine(data, schema, relation, Unit())
    plan = explainer.plan(Public(schema, relation, Unit(), spend, engine.units if relation == "replace" else None, len(data)))
    known: list[list[int]] = []
    for _ in range(runs):
        turn = iter(range(10**6))

        def totals(query: Any, turn: Iterator[int] = turn) -> list[int]:
            place = next(turn)
            if place == len(known):
                known.append(engine.totals(query))
            return known[place]

        yield explainer.run(Ask(totals, plan))


def clustering() -> pel.Clustering:
    return pel.Clustering(lambda d: d["g"], clusters=range(3), features=["g"], trained_on="other data")


def truth(data: pd.DataFrame, histogram: Any) -> tuple[np.ndarray, np.ndarray]:
    """Exact counts inside the cluster and elsewhere."""
    values = data[histogram.feature].to_numpy()
    if histogram.edges:
        cells = np.clip(np.searchsorted(histogram.edges, values.astype(float), side="right") - 1, 0, len(histogram.x) - 1)
    else:
        cells = np.array([histogram.x.index(v) for v in values])
    own = data["g"].to_numpy() == histogram.cluster
    return tuple(np.bincount(cells[where], minlength=len(histogram.x)).astype(float) for where in (own, ~own))  # type: ignore[return-value]


def held(ends: tuple[np.ndarray, np.ndarray], value: np.ndarray) -> np.ndarray:
    return (ends[0] <= value + 1e-9) & (value <= ends[1] + 1e-9)


def coverage(
    data: pd.DataFrame, schema: pel.Schema, attribute: str, method: str, relation: str, spend: Spend, runs: int
) -> dict[str, float]:
    """Shares of bars and sentences that hold, over all clusters and releases."""
    explainer = pel.ClusterHistograms(clustering(), attributes=[attribute], method=method)
    found: dict[str, list[Any]] = {"count": [], "share": [], "elsewhere": [], "sentence": [], "told": []}
    exact: dict[int, Any] = {}
    for made in releases(explainer, data, schema, relation, spend, runs):
        for cluster in (0, 1):
            histogram = made.histograms[cluster][attribute]
            inside, rest = exact.setdefault(cluster, truth(data, histogram))
            found["count"] += held(histogram.interval(), inside).tolist()
            found["share"] += held(histogram.share_interval(), inside / inside.sum()).tolist()
            found["elsewhere"] += held(histogram.rest_interval(), rest / rest.sum()).tolist()
            said = histogram.finding
            shares = [side[said.values].sum() / side.sum() for side in (inside, rest)]
            found["sentence"].append(
                all(low <= s + 1e-9 and s <= high + 1e-9 for s, (_, low, high) in zip(shares, (said.inside, said.elsewhere)))
            )
            found["told"].append(said.told)
    return {name: float(np.mean(values)) for name, values in found.items()}


def histograms(runs: int) -> None:
    print("| table | attribute | method | relation | currency | count | share | elsewhere | sentence | told |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    settings = itertools.product(
        tables().items(), ("same", "other", "amount"), ("joint", "two-stage"), ("replace", "add-remove"), SPENDS
    )
    for (name, (data, schema)), attribute, method, relation, currency in settings:
        got = coverage(data, schema, attribute, method, relation, SPENDS[currency], runs)
        numbers = " | ".join(f"{value:.3f}" for value in got.values())
        print(f"| {name} | {attribute} | {method} | {relation} | {currency} | {numbers} |", flush=True)


def centre_coverage(data: Any, schema: pel.Schema, explainer: pel.PrivateKMeans, relation: str, spend: Spend, runs: int) -> float:
    """Bars of centres that hold the exact mean of the people who were nearest before the last move."""
    engine, last = LocalEngine(data, schema, relation, Unit()), {}
    plan = explainer.plan(Public(schema, relation, Unit(), spend, engine.units if relation == "replace" else None, len(data)))
    iteration = plan.details.iteration

    def totals(query: Any) -> list[int]:
        last["query"], last["totals"] = query, engine.totals(query)
        return last["totals"]

    held_by: list[np.ndarray] = []
    for _ in range(runs):
        made: Any = explainer.run(Ask(totals, plan))
        parts = tuple(part.released for part in released_parts(last["query"]))
        exact = iteration.totals(Answer(tuple(last["totals"]), parts, NoiseLaw("none", 0.0, 1), None))
        there = exact.counts > 0.5  # nobody has no mean
        lowest, width = made.space.scales()
        means = lowest + width * (exact.origin + exact.sums / np.maximum(exact.counts, 1.0)[:, None])
        held_by.append(held(made.interval(), means)[there].ravel())
    return float(np.mean(np.concatenate(held_by)))


def centres(runs: int) -> None:
    print("| table | k | start | relation | currency | centre |\n|---|---|---|---|---|---|")
    settings = itertools.product(tables().items(), (6,), ("fitted",), ("replace", "add-remove"), SPENDS)
    for (name, (data, schema)), k, start, relation, currency in settings:
        explainer = pel.PrivateKMeans(k, ["amount", "other"] if name != "heavy tails" else ["amount", "g"], start=start)
        got = centre_coverage(data, schema, explainer, relation, SPENDS[currency], runs)
        print(f"| {name} | {k} | {start} | {relation} | {currency} | {got:.3f} |", flush=True)


STUDIES: dict[str, Callable[[int], None]] = {"histograms": histograms, "centres": centres}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", default="histograms", choices=list(STUDIES))
    parser.add_argument("--runs", type=int, default=300)
    options = parser.parse_args()
    STUDIES[options.study](options.runs)


if __name__ == "__main__":
    main()
