"""The pairs of a data set and a model that private Shapley rankings are judged on, with their per-record vectors kept on disk.

Data and models follow the published protocol: two synthetic sets of 20 columns, Adult one-hot (105 columns) and credit default
(23 columns), 4,000 rows for training; columns standardised by training rows, rows scaled into the ball of radius 3. The ball
gives every column the public range [-3, 3]. Background records and records asked about are other rows than those of training,
so means and deviations belong to the public model. Not in the publication, and decided here: which pairs of columns interact
in the second synthetic set, and that synthetic targets are cut at 0 for classifiers (their logistic models need classes; the
sizes of their values suggest regression, so both are shown).
"""

from __future__ import annotations

import json
import pickle
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor

import pellucid as pel
from pellucid.explainers.shapley.estimator import Chosen, estimator_for
from pellucid.public.rows import Rows

SEED = 20260415
TRAINING, BACKGROUND, ASKED, RADIUS = 4000, 1000, 30, 3.0
KINDS = ("LR", "MLP", "RF", "GB")
CLASSIFIED = ("synth_additive", "synth_interaction", "adult", "credit_default")
REGRESSED = ("synth_additive, numbers", "synth_interaction, numbers")
SECONDS = 20.0
REFERENCE_TIMES = 2
"""The reference of an estimate is one with so many times the permutations, drawn anew."""


def synthetic(name: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Columns in the ball, and a numeric target."""
    d = 20
    x = into_ball(rng.standard_normal((TRAINING + BACKGROUND + ASKED, d)))
    if name.startswith("synth_additive"):
        w = np.append([2.0, 1.4, 1.0, 0.7, 0.5], rng.normal(0, 0.1, d - 5))
        return x, x @ w + 0.2 * x[:, 0] * x[:, 1]
    target = x @ rng.normal(0, 0.4, d)
    for k, size in enumerate(rng.uniform(0.4, 0.6, d // 2)):
        product = x[:, 2 * k] * x[:, 2 * k + 1]
        target += size * (np.tanh(product) if k % 2 else product)
    return x, target


def into_ball(x: np.ndarray) -> np.ndarray:
    return x * np.minimum(1.0, RADIUS / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12))


def _real(name: str, shared: Path, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_parquet(shared / "data" / f"{name}.parquet")
    frame = frame.iloc[rng.permutation(len(frame))[: TRAINING + BACKGROUND + ASKED]].reset_index(drop=True)
    if name == "adult":
        target = (frame["income"].astype(str) == ">50K").to_numpy(float)
        documented = json.loads((shared / "data" / "adult.json").read_text())["columns"]
        columns = []
        for column in frame.columns.drop(["income", "split"]):
            values = documented[column].get("documented_categories")
            known = [v for v in values if v != "?"] if values else None
            text = frame[column].astype(str).to_numpy()
            columns += [frame[column].to_numpy(float)] if known is None else [(text == v).astype(float) for v in known]
    else:
        target = frame["default payment next month"].to_numpy(float)
        columns = [frame[c].to_numpy(float) for c in frame.columns.drop(["ID", "default payment next month"])]
    x = np.column_stack(columns)
    mean, deviation = x[:TRAINING].mean(axis=0), x[:TRAINING].std(axis=0)
    return into_ball((x - mean) / np.where(deviation > 0, deviation, 1.0)), target


def _estimator(kind: str, numbers: bool):
    if kind == "LR":
        return LinearRegression() if numbers else LogisticRegression(max_iter=2000)
    if kind == "MLP":
        network = MLPRegressor if numbers else MLPClassifier
        return network(hidden_layer_sizes=(32,), activation="tanh", max_iter=300, random_state=SEED % 1000)
    if kind == "RF":
        return (RandomForestRegressor if numbers else RandomForestClassifier)(100, max_depth=4, random_state=0)
    boosting = GradientBoostingRegressor if numbers else GradientBoostingClassifier
    return boosting(n_estimators=100, max_depth=3, learning_rate=0.1, random_state=0)


@dataclass
class Pair:
    """One data set with one fitted model: the certified range, background records, and the records asked about."""

    data: str
    kind: str
    background: np.ndarray
    asked: np.ndarray
    model: pel.Model
    schema: pel.Schema
    range_text: str
    seconds: float
    score: float

    @property
    def features(self) -> int:
        return self.background.shape[1]

    def frame(self, n: int) -> pd.DataFrame:
        return pd.DataFrame(self.background[:n], columns=list(self.schema))

    def record(self, i: int) -> dict[str, float]:
        return {name: float(v) for name, v in zip(self.schema, self.asked[i])}

    def rows(self, n: int) -> Rows:
        return Rows(self.schema, {name: self.background[:n, j] for j, name in enumerate(self.schema)})

    def chosen(self, i: int, times: int = 1, seed: int = 0) -> Chosen:
        made = estimator_for(self.model, self.schema, self.record(i), certified=self.model.output, seed=seed)
        if times > 1 and not made.exact:
            count = made.estimator.permutations * times
            made = estimator_for(
                self.model, self.schema, self.record(i), certified=self.model.output, seed=seed, permutations=count
            )
        return made


def schema_of(d: int) -> pel.Schema:
    return pel.Schema(
        {f"x{j}": pel.Number(-RADIUS, RADIUS, source="rows are scaled into the ball of radius 3") for j in range(d)}
    )


def pair(data: str, kind: str, shared: Path, cache: Path) -> Pair:
    path = cache / f"shapley_{data.replace(', ', '_')}_{kind}.pkl"
    if path.exists():
        return pickle.loads(path.read_bytes())
    rng = np.random.default_rng(SEED)
    numbers = data in REGRESSED
    x, target = synthetic(data, rng) if data.startswith("synth") else _real(data, shared, rng)
    if not numbers and data.startswith("synth"):
        target = (target > 0).astype(float)
    fit, rest = slice(0, TRAINING), slice(TRAINING, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predictor = _estimator(kind, numbers).fit(x[fit], target[fit])
    schema = schema_of(x.shape[1])
    start = time.monotonic()
    found = pel.sensitivity.output_range(predictor, schema, seconds=SECONDS)
    spent = time.monotonic() - start
    model = pel.Model(predictor, output=tuple(found), features=list(schema), input="array", trained_on="other data", name=kind)
    held = x[rest]
    made = Pair(
        data, kind, held[:BACKGROUND], held[BACKGROUND:], model, schema, found.text, spent, predictor.score(held, target[rest])
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(made))
    return made


@dataclass
class Vectors:
    """Per record asked about: the vectors of all background records, and reference means that do not share their chance."""

    vectors: list[np.ndarray]
    reference: dict[int, np.ndarray]
    exact: bool
    features: tuple[str, ...]
    why: str
    seconds: float


SIZES = (1000, 100)


def vectors(of: Pair, cache: Path) -> Vectors:
    path = cache / f"shapley_{of.data.replace(', ', '_')}_{of.kind}_vectors.pkl"
    if path.exists():
        return pickle.loads(path.read_bytes())
    rows, found, seconds = of.rows(BACKGROUND), [], 0.0
    reference: dict[int, list[np.ndarray]] = {n: [] for n in SIZES}
    for i in range(len(of.asked)):
        start = time.monotonic()
        chosen = of.chosen(i)
        found.append(chosen(rows))
        seconds += time.monotonic() - start
        other = found[-1] if chosen.exact else of.chosen(i, REFERENCE_TIMES, seed=1)(rows)
        for n in SIZES:
            reference[n].append(other[:n].mean(axis=0))
        print(f"vectors: {of.data} {of.kind} record {i}: {seconds:.1f} s", file=sys.stderr, flush=True)
    kept = Vectors(found, {n: np.array(r) for n, r in reference.items()}, chosen.exact, chosen.features, chosen.why, seconds)
    path.write_bytes(pickle.dumps(kept))
    return kept
