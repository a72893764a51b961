"""Numba that is installed and does not load, as where its cache cannot be written or a file is named like a module it imports."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import numpy as np, pandas as pd, pellucid as pel
from sklearn.ensemble import RandomForestRegressor
from pellucid.query import compiled
compiled.LOADING = 0
x = np.random.default_rng(0).uniform(size=(200, 2))
forest = RandomForestRegressor(3, random_state=0).fit(pd.DataFrame(x, columns=["a", "b"]), x[:, 0])
people = pd.DataFrame(x, columns=["a", "b"])
session = pel.Session(people, pel.Schema({"a": pel.Number(0, 1), "b": pel.Number(0, 1)}), budget=pel.Budget(epsilon=5))
model = pel.Model(forest, output=(0, 1), trained_on="other data")
print(len(session.release(pel.PartialDependence(model, "a", points=5), epsilon=1).x))
print(len(session.release(pel.ShapImportance(model, public_background=people[:1], permutations=2), epsilon=1).features))
print(len(session.release(pel.Distribution("a", bins=4), epsilon=1).x))
"""


def test_releases_are_made_without_it(tmp_path):
    broken = tmp_path / "numba"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise AttributeError('module coverage has no attribute types')")
    root = str(Path(__file__).parents[1] / "src")
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, cwd=root, env={"PYTHONPATH": f"{tmp_path}:{root}"}
    )
    assert ran.stdout.split() == ["5", "2", "4"], ran.stderr
