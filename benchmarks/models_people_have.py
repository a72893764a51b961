"""How many models of common libraries are explained as they are: one curve of each is released.

    python benchmarks/models_people_have.py

Seconds are of processor time, the trial of the model on public records among them.
Needs torch, onnxruntime and skl2onnx beside the extras for development.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import skl2onnx
import torch
import xgboost
from sklearn.ensemble import RandomForestClassifier

import pellucid as pel

SCHEMA = pel.Schema({"age": pel.Number(0, 90), "pay": pel.Number(-3, 3), "ward": pel.Category(["A", "B", "C"])})
NUMBERS = ["age", "pay"]


def people(rows: int = 5000) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(0, 90, rows), "pay": rng.normal(size=rows), "ward": rng.choice(list("ABC"), rows)})
    return table, np.digitize(table["age"] + 5 * table["pay"], [30, 60])


def networks() -> dict[str, Any]:
    """Twenty-five small networks in single precision, trained for a moment: 3 to 67 wide, one to five layers deep."""
    table, group = people()
    inputs = torch.as_tensor(np.array(table[NUMBERS], dtype=np.float32))
    target = torch.as_tensor((group > 0).astype(np.float32))[:, None]
    made = {}
    for seed in range(25):
        torch.manual_seed(seed)
        width, act = (3, 8, 16, 33, 67)[seed % 5], (torch.nn.ReLU, torch.nn.Tanh, torch.nn.GELU)[seed % 3]
        layers: list[torch.nn.Module] = [torch.nn.Linear(2, width), act()]
        for _ in range(seed // 5):
            layers += [torch.nn.Linear(width, width), act()]
        net = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1), torch.nn.Sigmoid())
        optimiser = torch.optim.Adam(net.parameters(), 0.01)
        for _ in range(20):
            optimiser.zero_grad()
            torch.nn.functional.binary_cross_entropy(net(inputs), target).backward()
            optimiser.step()
        made[f"network {seed + 1} ({width} wide, {1 + seed // 5} deep)"] = pel.Model(
            net, features=NUMBERS, trained_on="this data"
        )
    return made


def others(folder: Path) -> dict[str, Any]:
    table, group = people()
    native = table.astype({"ward": "category"})
    forest = RandomForestClassifier(20, max_depth=5, random_state=0)
    three = RandomForestClassifier(20, max_depth=5, random_state=0).fit(table[NUMBERS], np.array(["low", "mid", "high"])[group])
    kinds = [("x", skl2onnx.common.data_types.FloatTensorType([None, 2]))]
    made = skl2onnx.convert_sklearn(forest.fit(table[NUMBERS], group > 0), initial_types=kinds)
    (folder / "forest.onnx").write_bytes(made.SerializeToString())
    boosted = xgboost.XGBClassifier(n_estimators=20, enable_categorical=True).fit(native, group > 0)
    light = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1).fit(native, group > 0)
    return {
        "XGBoost, native categories": pel.Model(boosted, trained_on="this data"),
        "LightGBM, native categories": pel.Model(light, trained_on="this data"),
        "forest of 3 classes": pel.Model(three, positive="high", trained_on="this data"),
        "ONNX file": pel.Model(folder / "forest.onnx", features=NUMBERS, trained_on="this data"),
    }


def main() -> None:
    table, _ = people()
    with tempfile.TemporaryDirectory() as folder:
        explained = 0
        models = {**networks(), **others(Path(folder))}
        for name, model in models.items():
            start = time.process_time()
            session = pel.Session(table, SCHEMA, budget=pel.Budget(epsilon=1))
            try:
                found = session.release(pel.PartialDependence(model, "age"), epsilon=1)
            except pel.PellucidError as error:
                print(f"{name}: refused: {error}")
                continue
            explained += 1
            took = time.process_time() - start
            print(f"{name}: {found.certificate.status}, {len(found.x)} points, {took:.1f} s")
        print(f"{explained} of {len(models)} explained")


if __name__ == "__main__":
    main()
