"""The order of interactions: `ranking=True` against the direct release, votes of blocks, and public records alone.

    python benchmarks/interaction_ranking.py --tables adult bike            the tables that settings were chosen on
    python benchmarks/interaction_ranking.py --tables german diabetes acs   tables that were looked at once, afterwards

Boosted trees of scikit-learn with its defaults, at most `--rows` random records, pure epsilon, replace-one. The truth is
Friedman and Popescu's H over all of these records, exactly: trees answer alike between two of their thresholds, so that a table
of all such cells is enough. Agreement is (Kendall's tau + 1) / 2 with its order: 1 is the same order, 1/2 an unrelated one.

Public: H of 4,096 records drawn from the schema, which costs nothing. Direct: `FeatureInteraction` as it is without `ranking=`.
Votes: as in interaction.py, with the better number of blocks, picked with hindsight. Ranking: `ranking=True`. Maps, bounds,
calibration and post-processing are the package's own, noise has the same laws but comes from NumPy.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd

from protocol import arguments, task  # isort: skip
import fresh_tables
import interaction
from interaction import KeptSums, agreement, generic
from sources import Seeded

import pellucid as pel
from pellucid.explainers.interaction.ranked import VALUES, RankedH
from pellucid.explainers.interaction.rounding import Rounding, fine_cell, public_points
from pellucid.mechanisms import source
from pellucid.public.rows import Rows
from pellucid.release.door import Ask

EPSILONS = (0.5, 1, 2, 5)
ASKED = {
    "adult": (None, "age", "hours-per-week"),
    "bike": (None, "hr", "workingday"),
    "german": (None, "credit_amount"),
    "diabetes": (None, "number_inpatient"),
    "acs": (None, "AGEP"),
}


def loaded(table: str, rows: int, shared, cache) -> SimpleNamespace:
    """Codes, schema and a fitted model."""
    if table in ("adult", "bike"):
        of = task(table, "anchors", shared, cache)
        codes, target, schema = of.codes.astype(float), of.target, of.schema
    else:
        inputs, target = fresh_tables.load(table, shared)
        codes = inputs.to_numpy()
        declared = fresh_tables.NUMERIC[table]
        schema = pel.Schema(
            {
                name: declared.get(name) or pel.Category(list(range(int(inputs[name].min()), int(inputs[name].max()) + 1)))
                for name in inputs
            }
        )
        for j, name in enumerate(inputs):
            if name not in declared:
                codes[:, j] -= codes[:, j].min()
    some = np.random.default_rng(0).permutation(len(codes))[:rows]
    codes, target, names = codes[some], target[some], list(schema)
    fitted = fresh_tables.fitted(table, pd.DataFrame(codes, columns=names), target)
    output = fresh_tables.OUTPUT.get(table, (0.0, 1.0))
    model = pel.Model(fitted, output=output, features=names, trained_on="other data", input="codes")
    frame = {
        name: [schema[name].values[int(v)] for v in column] if isinstance(schema[name], pel.Category) else column
        for name, column in zip(names, codes.T)
    }
    return SimpleNamespace(
        codes=codes, names=names, schema=schema, fitted=fitted, model=model, frame=frame, predict=predictor(fitted, output)
    )


def predictor(fitted, output: tuple[float, float]):
    """As votes ask it."""
    ask = (lambda x: fitted.predict_proba(x)[:, 1]) if hasattr(fitted, "classes_") else fitted.predict
    return lambda x: np.clip(ask(x), *output)


def cells(of: SimpleNamespace, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A value for every cell between two thresholds that somebody is in, and the cell of each record."""
    j, splits = of.names.index(name), set()
    for tree in (tree for trees in of.fitted._predictors for tree in trees):
        inner = (tree.nodes["feature_idx"] == j) & (tree.nodes["is_leaf"] == 0)
        splits.update(tree.nodes["num_threshold"][inner].tolist())
    place = np.searchsorted(sorted(splits), of.codes[:, j], side="left")
    _, first, cell = np.unique(place, return_index=True, return_inverse=True)
    return of.codes[first, j], cell


def means(rows: Rows, model: pel.Model, asked: list[dict[str, float]], step: int = 300) -> np.ndarray:
    return np.concatenate([rows.predict_table(model, asked[i : i + step]).mean(axis=0) for i in range(0, len(asked), step)])


def exact(of: SimpleNamespace, feature: str | None) -> np.ndarray:
    rows = Rows(of.schema, {name: np.ascontiguousarray(column) for name, column in zip(of.names, of.codes.T)})
    found, size = [], len(rows)
    if feature is None:
        plain = rows.predict(of.model)
        for name in of.names:
            values, cell = cells(of, name)
            at = rows.predict_table(of.model, [{name: v} for v in values])
            rest = plain - at.mean(axis=0)[cell] - at @ (np.bincount(cell) / size)
            found.append(rest.var() / plain.var())
        return np.array(found)
    first, own = cells(of, feature)
    single = means(rows, of.model, [{feature: v} for v in first])
    for name in (name for name in of.names if name != feature):
        second, cell = cells(of, name)
        together = np.zeros((len(first), len(second)))
        np.add.at(together, (own, cell), 1 / size)
        used = np.argwhere(together > 0)
        both = means(rows, of.model, [{feature: first[a], name: second[b]} for a, b in used])
        other = means(rows, of.model, [{name: v} for v in second])
        rest, weights = both - single[used[:, 0]] - other[used[:, 1]], together[tuple(used.T)]
        variances = [weights @ (v - weights @ v) ** 2 for v in (rest, both)]
        found.append(variances[0] / max(variances[1], 1e-300))
    return np.array(found)


def public(of: SimpleNamespace, feature: str | None) -> np.ndarray:
    """H² of records that are drawn from the schema."""
    rows = Rows(of.schema, of.schema.sample(4096, seed=6))
    features = []
    for name in of.names:
        points = public_points(of.schema[name])
        counts = np.bincount(fine_cell(points, rows[name]), minlength=len(points)).astype(float)
        features.append(Rounding.of(name, of.schema[name], counts, VALUES))
    statistic = RankedH(of.model, None, feature)
    squares = statistic._overall(rows, features) if feature is None else statistic._pairs(rows, features)
    return np.array(list(squares.values()))


class KeptTable(Rows):
    """Records whose predictions with one column changed are kept."""

    def __init__(self, rows: Rows):
        super().__init__(rows.schema, rows.columns)
        self.kept: dict = {}

    def predict_table(self, model, each):
        asked = [tuple((name, float(value)) for name, value in changes.items()) for changes in each]
        if any(len(key) > 1 for key in asked):
            return super().predict_table(model, [dict(key) for key in asked])
        new = [key for key in asked if key not in self.kept]
        if new:
            self.kept.update(zip(new, super().predict_table(model, [dict(key) for key in new]).T.copy()))
        return np.stack([self.kept[key] for key in asked], axis=1)


class Engine(KeptSums):
    """Stands in for the engine, as in interaction.py."""

    def __init__(self, engine):
        super().__init__(engine)
        self.rows = KeptTable(self.rows)


def released(of: SimpleNamespace, engine, explainer, truth: np.ndarray, draws: int) -> list[np.ndarray]:
    found = []
    for epsilon in EPSILONS:
        session = pel.Session(of.frame, of.schema, budget=pel.Budget(epsilon=epsilon))
        plan = session.plan(explainer, epsilon=epsilon)
        results = (explainer.run(Ask(engine.totals, plan)) for _ in range(draws))
        found.append(np.array([agreement(result.squares, truth) for result in results]))
    return found


def measured(of: SimpleNamespace, engine, label: str, feature: str | None, truth: np.ndarray, draws: int) -> list[np.ndarray]:
    if label == "public":
        return [np.array([agreement(public(of, feature), truth)])] * len(EPSILONS)
    if label == "votes":
        return generic(of, of.predict, feature, truth, draws)
    explainer = pel.FeatureInteraction(of.model, feature, ranking=label == "ranking", anyway=True)
    return released(of, engine, explainer, truth, draws)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--tables", nargs="+", default=["adult", "bike"], choices=list(ASKED))
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--only", nargs="+", default=["public", "direct", "votes", "ranking"])
    chosen = parser.parse_args()
    if not (chosen.shared / "data").exists():
        sys.exit("the data sets are not in --shared; nothing to measure.")
    source.current = Seeded(1)
    interaction.EPSILONS = EPSILONS
    print("| data | H of | release | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |")
    print("|---|---|---|" + "---|" * len(EPSILONS))
    for table in chosen.tables:
        of = loaded(table, chosen.rows, chosen.shared, chosen.cache)
        engine = Engine(pel.Session(of.frame, of.schema, budget=pel.Budget(epsilon=1.0))._engine)
        for feature in ASKED[table]:
            truth, name = exact(of, feature), "each feature" if feature is None else feature
            for label in chosen.only:
                found = measured(of, engine, label, feature, truth, chosen.draws)
                print(f"| {table} | {name} | {label} | " + " | ".join(f"{a.mean():.3f}" for a in found) + " |", flush=True)


if __name__ == "__main__":
    main()
