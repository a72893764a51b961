"""Time of `import pellucid` and of a small release, of two checkouts in one run: `python benchmarks/rooms.py BEFORE NOW`.

Each argument is a checkout with its own `.venv`. Runs alternate, so that a busy machine is as busy for one as for the other.
"""

import json
import resource
import statistics
import subprocess
import sys
from pathlib import Path

RELEASE = """
import json, time
import numpy as np
from sklearn.linear_model import LinearRegression
import pellucid as pel
rng = np.random.default_rng(0)
age, bmi, sex = rng.integers(17, 91, 5000), rng.normal(27, 5, 5000), rng.integers(0, 2, 5000)
table = {"age": age.astype(float), "bmi": bmi, "sex": sex.astype(float)}
x = np.column_stack(list(table.values()))
fitted = LinearRegression().fit(x, x @ [0.004, 0.002, 0.1])
schema = pel.Schema({"age": pel.Number(17, 90), "bmi": pel.Number(10, 60), "sex": pel.Number(0, 1)})
model = pel.Model(fitted, output=(0, 1), features=list(table), trained_on="other data")
session = pel.Session(table, schema, budget=pel.Budget(epsilon=1000.0))
times = []
for turn in range(ROUNDS):
    start = time.process_time()
    session.release(pel.PartialDependence(model, "age", points=20), epsilon=0.1, fresh=True)
    times.append(time.process_time() - start)
print(json.dumps(sorted(times)[len(times) // 2]))
"""


def seconds(checkout, code):
    """Processor time of a program, and what it printed last."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    python = str(Path(checkout, ".venv/bin/python"))
    done = subprocess.run([python, "-c", code], cwd=checkout, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout.strip()


def main(before, now, rounds=7):
    code = RELEASE.replace("ROUNDS", "60")
    imports, releases = {before: [], now: []}, {before: [], now: []}
    for turn in range(rounds):
        for checkout in (before, now) if turn % 2 else (now, before):
            imports[checkout].append(seconds(checkout, "import pellucid")[0])
            releases[checkout].append(json.loads(seconds(checkout, code)[1]))
    for what, unit, found in (("import pellucid", 1, imports), ("a small partial dependence", 1000, releases)):
        old, new = (statistics.median(found[checkout]) for checkout in (before, now))
        ratios = sorted(b / a for a, b in zip(found[before], found[now]))
        print(
            f"{what}: {old * unit:.3g} → {new * unit:.3g} {'s' if unit == 1 else 'ms'} of processor time, "
            f"ratio {new / old:.2f} (pairs {ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


if __name__ == "__main__":
    main(*sys.argv[1:3])
