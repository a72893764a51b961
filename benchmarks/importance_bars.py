"""Do error bars and tiers of importances hold what their names say? Against the explanation without noise, caps and chance.

    python benchmarks/importance_bars.py                                   the tables that settings were chosen on
    python benchmarks/importance_bars.py --tables german diabetes          tables that nothing was chosen on

Each cell is many whole releases: plan, private cap, looks, calibration and noise are the package's own, unseeded. To make
them cheap the model's answers are remembered, only a few secret shuffles are drawn for each cap, and each release takes one of
them at random. The reference is uncapped: the mean over many exact shuffles, or over all records (Shapley).
"""

from __future__ import annotations

import hashlib
import sys
import time
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from protocol import arguments, has_data  # isort: skip
from sources import Seeded

import pellucid as pel
from pellucid.mechanisms import source
from pellucid.query import parts_of
from pellucid.release.door import Ask

PRICES = {"ε = .1": (0.1, 0.0), "ε = .5": (0.5, 0.0), "ε = 1": (1.0, 0.0), "(1, 1e-6)": (1.0, 1e-6)}
TUNED, FRESH = ("small", "adult", "bike", "heavy"), ("german", "diabetes")


@dataclass
class Table:
    """Columns as codes, a target, the range of both, and the rows that the model was not fitted on."""

    names: list[str]
    codes: np.ndarray
    target: np.ndarray
    top: float

    def __post_init__(self) -> None:
        self.highest = np.maximum(2.0 ** np.ceil(np.log2(np.maximum(self.codes.max(axis=0), 1.0) + 1)), 2.0)
        # Domains are documented ones, rounded up: which ones does not matter here.
        columns = {name: pel.Number(-1, high) for name, high in zip(self.names, self.highest)}
        self.schema = pel.Schema(columns | {"target": pel.Number(0, self.top)})


def coded(frame: pd.DataFrame) -> np.ndarray:
    return np.column_stack(
        [pd.Categorical(frame[c]).codes if not pd.api.types.is_numeric_dtype(frame[c]) else frame[c] for c in frame]
    ).astype(float)


def table(name: str, shared) -> tuple[Table, Table]:
    """(rows to fit on, rows to explain)."""
    if name in ("adult", "small"):
        frame = pd.read_parquet(shared / "data" / "adult.parquet").drop(columns=["split", "fnlwgt"])
        target, top = (frame.pop("income").astype(str) == ">50K").to_numpy(float), 1.0
    elif name == "bike":
        frame = pd.read_parquet(shared / "data" / "bike_sharing_hour.parquet")
        target, top = frame["cnt"].to_numpy(float), 1000.0
        frame = frame[["yr", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit", "atemp", "hum", "windspeed"]]
    elif name == "german":
        frame = pd.read_parquet(shared / "data" / "german_credit.parquet")
        target, top = (frame.pop("class").astype(str) == "2").to_numpy(float), 1.0
    elif name == "diabetes":
        frame = pd.read_parquet(shared / "data" / "diabetes130.parquet").drop_duplicates("patient_nbr")
        target, top = (frame["readmitted"].astype(str) != "NO").to_numpy(float), 1.0
        frame = frame[
            ["gender", "age", "admission_type_id", "discharge_disposition_id", "admission_source_id", "time_in_hospital",
             "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient", "number_emergency",
             "number_inpatient", "number_diagnoses", "insulin", "change", "diabetesMed"]
        ]  # fmt: skip
    else:  # costs: most are small, a few very large, in a declared range far beyond
        rng = np.random.default_rng(5)
        codes = rng.integers(0, 10, (12_000, 8)).astype(float)
        x = codes.T
        target = np.exp(0.35 * x[0] + 0.2 * x[1] + 0.1 * x[2] * (x[3] > 5) + 0.8 * rng.normal(size=len(codes)))
        return Table([f"x{i}" for i in range(8)], codes[:6000], target[:6000], 5000.0), Table(
            [f"x{i}" for i in range(8)], codes[6000:], np.minimum(target[6000:], 5000.0), 5000.0
        )
    codes, order = coded(frame), np.random.default_rng(0).permutation(len(frame))
    rows = {"small": 300, "german": 500}.get(name, 6000)
    fit, explain = order[rows:][:10_000], order[:rows]
    return tuple(Table(list(frame), codes[some], target[some], top) for some in (fit, explain))


@dataclass
class Remembered:
    """A fitted model that keeps its answers to tables it has seen."""

    model: object
    top: float
    answers: dict[bytes, np.ndarray] = field(default_factory=dict)

    def __getstate__(self) -> dict:
        return {"model": self.model, "top": self.top, "answers": {}}

    def __call__(self, codes: np.ndarray) -> np.ndarray:
        codes = np.ascontiguousarray(codes, dtype=float)
        key = hashlib.blake2b(codes.tobytes(), digest_size=16).digest()
        if key not in self.answers:
            self.answers[key] = np.clip(self.model.predict(codes), 0.0, self.top).astype(np.float32)
        return self.answers[key].astype(float)


class Few:
    """Stands in for the engine of a session: its totals over a few secret shuffles instead of fresh ones."""

    def __init__(self, engine, shuffles: int):
        self.engine, self.shuffles, self.rng, self.kept = engine, shuffles, np.random.default_rng(1), {}

    def totals(self, query) -> list[int]:
        secret = any(not repr(part.over).startswith("Records") for part in parts_of(query))
        which = int(self.rng.integers(self.shuffles)) if secret else 0
        key = (which, *((repr(part.map), repr(part.bound), repr(part.over)) for part in parts_of(query)))
        if key not in self.kept:
            real, source.current = source.current, Seeded(which)
            try:
                self.kept[key] = self.engine.totals(query)
            finally:
                source.current = real
        return self.kept[key]


@dataclass
class Case:
    """One table with its model."""

    name: str
    options: object

    def __post_init__(self) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor

        fit, self.table = table(self.name, self.options.shared)
        self.model = HistGradientBoostingRegressor(max_iter=60, max_leaf_nodes=15, random_state=0).fit(fit.codes, fit.target)
        self.ask = Remembered(self.model, self.table.top)
        self.public = pel.Model(
            self.ask, output=(0, self.table.top), features=self.table.names, input="codes", trained_on="other data"
        )
        frame = pd.DataFrame(self.table.codes, columns=self.table.names)
        self.background = frame.iloc[:2].to_dict("records")
        self.frame = frame.assign(target=self.table.target)

    def explainers(self) -> dict[str, tuple[pel.Explainer, np.ndarray]]:
        made = {
            "importance": pel.PermutationImportance(self.public, "target"),
            "ranking": pel.PermutationImportance(self.public, "target", ranking=True),
            "Shapley importance": pel.ShapImportance(self.public, public_background=self.background, permutations=4),
        }
        return {name: made[name] for name in self.options.explainers}

    def truth(self, name: str, explainer: pel.Explainer) -> np.ndarray:
        if name.startswith("Shapley"):
            from pellucid.public.rows import Rows

            columns = {name: self.table.codes[:, j] for j, name in enumerate(self.table.names)}
            chosen = explainer.chosen(self.table.schema)
            sizes = dict(zip(chosen.features, np.abs(chosen(Rows(self.table.schema, columns, None))).mean(axis=0)))
            return np.array([sizes.get(name, 0.0) for name in self.table.names])
        codes, y, rng = self.table.codes, self.table.target, np.random.default_rng(2)
        base, sums = (y - self.ask(codes)) ** 2, np.zeros(codes.shape[1])
        times = max(20, 60_000 // len(codes))
        for _ in range(times):
            donors = rng.permutation(len(codes))
            for j in range(codes.shape[1]):
                moved = codes.copy()
                moved[:, j] = codes[donors, j]
                sums[j] += ((y - np.clip(self.model.predict(moved), 0, self.table.top)) ** 2 - base).mean()
        return sums / times

    def measure(self, name: str, explainer: pel.Explainer, price: str, truth: np.ndarray) -> dict[str, float]:
        epsilon, delta = PRICES[price]
        session = pel.Session(self.frame, self.table.schema, budget=pel.Budget(epsilon=epsilon, delta=delta))
        plan = session.plan(explainer, share=1)
        engine = Few(session._engine, self.options.shuffles)
        inside, wrong, tiers, off, width, leader, told = [], 0, [], [], [], [], explainer.expected(plan).error.max()
        for _ in range(self.options.releases):
            found = explainer.run(Ask(engine.totals, plan))
            lower, upper = found.interval()
            inside.append((lower <= truth) & (truth <= upper))
            leader.append(inside[-1][np.argmax(truth)])
            off.append(np.abs(found.values - truth).mean() / np.abs(truth).mean())
            width.append(np.ptp([lower, upper], axis=0).max() / 2)
            place = {n: i for i, tier in enumerate(found.tiers()) for n in tier}
            order = [place[n] for n in np.array(found.features)[np.argsort(-truth)]]
            # Importances that are the same to a millionth have no order.
            wrong += any(a > b and s > t + 1e-6 * truth.max() for a, b, s, t in zip(order, order[1:], *_neighbours(truth)))
            tiers.append(len(set(order)))
        return {
            "bars": float(np.mean(inside)), "leader": float(np.mean(leader)), "wrong tiers": wrong / self.options.releases,
            "tiers": float(np.mean(tiers)), "error": float(np.median(off)), "bar / preview": float(np.median(width) / told),
        }  # fmt: skip


def _neighbours(truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    falling = -np.sort(-truth)
    return falling[:-1], falling[1:]


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--tables", nargs="*", choices=[*TUNED, *FRESH], default=list(TUNED))
    parser.add_argument("--explainers", nargs="*", default=["importance", "ranking", "Shapley importance"])
    parser.add_argument("--prices", nargs="*", choices=list(PRICES), default=list(PRICES))
    parser.add_argument("--releases", type=int, default=300)
    parser.add_argument("--shuffles", type=int, default=6, help="secret shuffles for each cap that releases choose from")
    options = parser.parse_args()
    if not has_data(options.shared):
        print(f"skipped: no data in {options.shared}; give the folder with --shared.")
        return 0
    print("| table | explainer | price | bars hold | of the leader | wrong tiers | tiers | median error | bar / preview |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in options.tables:
        case = Case(name, options)
        for what, explainer in case.explainers().items():
            truth = case.truth(what, explainer)
            for price in options.prices:
                start = time.monotonic()
                m = case.measure(what, explainer, price, truth)
                print(f"| {name} | {what} | {price} | " + " | ".join(f"{v:.3f}" for v in m.values()) + " |", flush=True)
                print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
