"""Ranking features by the H-statistic: a direct private release against subsample and aggregate.

    python benchmarks/interaction.py                           a markdown table (about five minutes on one core)
    python benchmarks/interaction.py --rows 30162 --draws 100  every record of Adult, which takes longer

The truth is Friedman and Popescu's H over an empirical distribution, without privacy: that of all records for the H of each
feature, that of 1,500 random ones for pairs, whose cost is quadratic. (Two samples of 1,500 agree by 0.97 to 1 on pairs of Bike,
but only by 0.91 on the H of each feature.) Agreement is (Kendall's tau + 1) / 2 with its ranking: 1 is the same ranking, 1/2 an
unrelated one. Pure epsilon, replace-one, all 17,379 records of Bike and `--rows` random complete records of Adult. Models:
gradient boosting of 30 trees on Adult, the network of the published comparison on Bike.

Direct: plans, grids, maps, bounds, calibration and post-processing are the package's own; sums that were asked before are kept,
and noise has the same laws but comes from NumPy. Generic: records divided into blocks, H on up to 32 records of every block, one
ballot of Borda points a block, K-norm noise of L-infinity sensitivity M - 1. It is shown with the better of two numbers of
blocks, chosen with hindsight for every epsilon, which a private release could not do.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.stats import kendalltau, rankdata

from protocol import OUTPUT, Task, arguments, has_data, task  # isort: skip
from sources import Seeded

import pellucid as pel
from pellucid.explainers.interaction.pairwise import OnTables
from pellucid.mechanisms import source
from pellucid.public.rows import Rows
from pellucid.query.bounds import Box
from pellucid.release.door import Ask

EPSILONS = (0.5, 1, 2, 5, 10)
BLOCKS = (100, 300)
ASKED = {"bike": ("hr", "workingday", None), "adult": (None, "age")}


def predictor(of: Task):
    if of.data == "bike":
        network = of.model
        return lambda table: np.clip(of.answer(network, table), *OUTPUT["bike"])
    from sklearn.ensemble import HistGradientBoostingClassifier

    boosted = HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=16, random_state=0).fit(of.codes, of.target)
    return lambda table: boosted.predict_proba(table)[:, 1]


def mean_at(predict, table: np.ndarray, columns: list[int], values: np.ndarray, batch: int = 100_000) -> np.ndarray:
    """The mean prediction over the table with some columns set to each row of values."""
    means, step = np.empty(len(values)), max(1, batch // len(table))
    for start in range(0, len(values), step):
        some = values[start : start + step]
        large = np.tile(table, (len(some), 1))
        large[:, columns] = np.repeat(some, len(table), axis=0)
        means[start : start + step] = predict(large).reshape(len(some), -1).mean(axis=1)
    return means


def own_dependence(predict, table: np.ndarray, columns: list[int]) -> np.ndarray:
    """Centred partial dependence at the records' own values."""
    values, place = np.unique(table[:, columns], axis=0, return_inverse=True)
    means = mean_at(predict, table, columns, values)[place.ravel()]
    return means - means.mean()


def pair_h(predict, table: np.ndarray, j: int) -> np.ndarray:
    """Squared H of column j with every other one, over the empirical distribution: quadratic in the number of records."""
    single = own_dependence(predict, table, [j])
    found = []
    for k in (k for k in range(table.shape[1]) if k != j):
        both = own_dependence(predict, table, [j, k])
        found.append(_ratio(both - single - own_dependence(predict, table, [k]), both))
    return np.array(found)


def overall_h(predict, table: np.ndarray) -> np.ndarray:
    """Squared H of every column with all others."""
    plain = predict(table)
    plain = plain - plain.mean()
    found = []
    for j in range(table.shape[1]):
        values, counts = np.unique(table[:, j], return_counts=True)
        large = np.repeat(table, len(values), axis=0)
        large[:, j] = np.tile(values, len(table))
        others = predict(large).reshape(len(table), -1) @ (counts / len(table))
        found.append(_ratio(plain - own_dependence(predict, table, [j]) - (others - others.mean()), plain))
    return np.array(found)


def _ratio(rest: np.ndarray, whole: np.ndarray) -> float:
    return float((rest**2).sum() / max((whole**2).sum(), 1e-300))


def agreement(values: np.ndarray, truth: np.ndarray) -> float:
    tau = kendalltau(values, truth).statistic
    return (1 + (0.0 if np.isnan(tau) else tau)) / 2


class KeptRows(Rows):
    """Records whose predictions with one column changed are kept."""

    def __init__(self, rows: Rows):
        super().__init__(rows.schema, rows.columns)
        self.kept: dict = {}

    def predict(self, model, changes=None):
        key = tuple((name, float(value)) for name, value in (changes or {}).items())
        if len(key) > 1:
            return super().predict(model, changes)
        if key not in self.kept:
            self.kept[key] = super().predict(model, changes)
        return self.kept[key]


class KeptSums:
    """Stands in for the engine: totals of a table are sums of its points, and points asked before are not asked again."""

    def __init__(self, engine):
        names = tuple(engine.schema)
        self.rows, self.points = KeptRows(Rows.joined(engine.batches(names), engine.schema, names)), {}

    def totals(self, query):
        asked = query.map
        if not isinstance(asked, OnTables):
            return query.bound.totals(asked(self.rows))
        total = []
        for other in asked.others:
            for a in asked.first.values:
                for b in other.values:
                    key = (asked.first.name, a, other.name, b)
                    if key not in self.points:
                        column = self.rows.predict(asked.model, {asked.first.name: a, other.name: b})
                        single = Box(1, query.bound.lo, query.bound.hi)
                        self.points[key] = single.totals(column[:, None])[0]
                    total.append(self.points[key])
        return total


def direct(of: Task, predict, feature: str | None, truth: np.ndarray, draws: int) -> list[np.ndarray]:
    """Agreements for every epsilon and draw."""
    model = pel.Model(predict, output=OUTPUT[of.data], features=of.names, trained_on="other data", input="codes")
    frame = {
        name: [feature.values[int(v)] for v in column] if isinstance(feature, pel.Category) else column
        for (name, feature), column in zip(of.schema.items(), of.codes.T)
    }
    explainer = pel.FeatureInteraction(model, feature)
    engine, found = None, []
    for epsilon in EPSILONS:
        session = pel.Session(frame, of.schema, budget=pel.Budget(epsilon=epsilon))
        engine = engine or KeptSums(session._engine)
        plan = session.plan(explainer, epsilon=epsilon)
        results = [explainer.run(Ask(engine.totals, plan)) for _ in range(draws)]
        found.append(np.array([agreement(result.squares, truth) for result in results]))
    return found


def generic(of: Task, predict, feature: str | None, truth: np.ndarray, draws: int, seed: int = 0) -> list[np.ndarray]:
    """Agreements of noisy Borda points for every epsilon and draw, with the better number of blocks."""
    rng = np.random.default_rng(seed)
    per_count = []
    for blocks in BLOCKS:
        ballots = []
        for block in np.array_split(rng.permutation(len(of.codes)), blocks):
            table = of.codes[block[:32]].astype(float)
            h = overall_h(predict, table) if feature is None else pair_h(predict, table, of.names.index(feature))
            ballots.append(rankdata(h, method="ordinal") - 1)
        points, m = np.sum(ballots, axis=0), len(truth)
        noisy = [
            [points + rng.gamma(m + 1, (m - 1) / epsilon) * rng.uniform(-1, 1, m) for _ in range(draws)] for epsilon in EPSILONS
        ]
        per_count.append([np.array([agreement(v, truth) for v in some]) for some in noisy])
    return [max((count[i] for count in per_count), key=np.mean) for i in range(len(EPSILONS))]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--rows", type=int, default=10_000)
    chosen = parser.parse_args()
    if not has_data(chosen.shared):
        sys.exit("the data sets are not in --shared; nothing to measure.")
    source.current = Seeded(1)
    print("| data | H of | release | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |")
    print("|---|---|---|" + "---|" * len(EPSILONS))
    for data, asked in ASKED.items():
        of = task(data, "anchors", chosen.shared, chosen.cache)
        predict = predictor(of)
        if len(of.codes) > chosen.rows and data == "adult":
            of.codes = of.codes[np.random.default_rng(7).choice(len(of.codes), chosen.rows, replace=False)]
        sample = of.codes[np.random.default_rng(0).choice(len(of.codes), 1500, replace=False)].astype(float)
        for feature in asked:
            truth = (
                overall_h(predict, of.codes.astype(float))
                if feature is None
                else pair_h(predict, sample, of.names.index(feature))
            )
            name = "each feature" if feature is None else feature
            for label, measure in (("direct", direct), ("generic", generic)):
                means = [f"{a.mean():.3f}" for a in measure(of, predict, feature, truth, chosen.draws)]
                print(f"| {data} | {name} | {label} | " + " | ".join(means) + " |", flush=True)


if __name__ == "__main__":
    main()
