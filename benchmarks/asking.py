"""What asking in one shape and trying before every charge costs: `python benchmarks/asking.py`, or with checkouts BEFORE NOW.

Whole releases on a table of 45,211 made-up people, by models of three kinds behind a pipeline, in turns, so that a busy machine
is as busy for one as for the other. Without arguments a release is compared with itself where models are asked about records as
they come and are not tried before the charge. Two checkouts, each with its own `.venv`, may differ in much else.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

RELEASE = """
import json, sys, time, warnings
import numpy as np, pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
import pellucid as pel
kind, relation, job = sys.argv[1:4]
rng = np.random.default_rng(0)
rows = 45_211
numbers = [f"x{i}" for i in range(7)]
words = [f"c{i}" for i in range(6)]
table = pd.DataFrame({name: rng.random(rows) for name in numbers})
table[words] = rng.choice(["a", "b", "c", "d"], (rows, len(words)))
table["y"] = np.where(table["x0"] + table["x1"] + (table["c0"] == "a") + rng.normal(size=rows) > 1.2, "yes", "no")
schema = pel.Schema({name: pel.Number(0, 1) for name in numbers} | {name: pel.Category(["a", "b", "c", "d"]) for name in words}
                    | {"y": pel.Category(["no", "yes"])})
estimator = {"forest": RandomForestClassifier(100, min_samples_leaf=5, random_state=0), "logistic": LogisticRegression(),
             "boosting": HistGradientBoostingClassifier(random_state=0)}[kind]
encode = make_column_transformer((OneHotEncoder(), words), (StandardScaler(), numbers))
some = table[:10_000].astype({name: object for name in words})
fitted = make_pipeline(encode, estimator).fit(some[numbers + words], some["y"])
model = pel.Model(fitted, features=numbers + words, trained_on="other data", name=kind)
session = pel.Session(table, schema, budget=pel.Budget(epsilon=1000.0), neighbors=relation)
explainer = {"curve": pel.PartialDependence(model, "x0", points=20), "importance": pel.PermutationImportance(model, "y"),
             "effects": pel.AccumulatedEffects(model, "x0")}[job]
session.release(explainer, epsilon=0.1, fresh=True)
if len(sys.argv) > 4:
    from pellucid.public import asking, row_wise
    usual, tried, found = session._engine.asking, row_wise._as_before, {"with": [], "without": []}
    for _ in range(int(sys.argv[4])):
        for way, asked, trial in (("with", usual, tried), ("without", asking.AS_THEY_ARE, lambda *_: True)):
            session._engine.asking, row_wise._as_before = asked, trial
            start = time.process_time()
            session.release(explainer, epsilon=0.1, fresh=True)
            found[way].append(time.process_time() - start)
    print(json.dumps({way: min(times) for way, times in found.items()}))
    sys.exit()
times = []
for _ in range(3):
    start = time.process_time()
    session.release(explainer, epsilon=0.1, fresh=True)
    times.append(time.process_time() - start)
print(json.dumps(min(times)))
"""


def seconds(checkout, *case):
    """Processor seconds of the cheapest of three releases after a first one: others may be busy on the machine."""
    python = str(Path(checkout, ".venv/bin/python"))
    return json.loads(
        subprocess.run([python, "-c", RELEASE, *case], cwd=checkout, capture_output=True, text=True, check=True).stdout
    )


CASES = [
    (kind, relation, job)
    for kind in ("forest", "logistic", "boosting")
    for relation, job in (("replace", "curve"), ("add-remove", "curve"), ("replace", "importance"), ("replace", "effects"))
]


def with_and_without(rounds):
    """In one thread: threads of OpenMP that wait for one another count as busy on a busy machine."""
    for case in CASES:
        ran = subprocess.run(
            [sys.executable, "-c", RELEASE, *case, str(rounds)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(ran.stdout)
        ratio = found["with"] / found["without"]
        print(f"{' '.join(case)}: {found['without']:.2f} → {found['with']:.2f} s, ratio {ratio:.2f}", flush=True)


def main(before, now, rounds=5):
    for case in CASES:
        pairs = [tuple(seconds(c, *case) for c in (before, now)) for _ in range(rounds)]
        old, new = (statistics.median(times) for times in zip(*pairs))
        ratios = sorted(b / a for a, b in pairs)
        middle = statistics.median(ratios)
        print(f"{' '.join(case)}: {old:.2f} → {new:.2f} s, ratio {middle:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        with_and_without(*map(int, sys.argv[1:] or ["3"]))
    else:
        main(*sys.argv[1:3], *map(int, sys.argv[3:]))
