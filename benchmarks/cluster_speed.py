"""Time of a whole cluster release as a ratio to one cluster × value `np.bincount` pass over the same encoded columns, in one run.

    python benchmarks/cluster_speed.py [--repeats 3]

Needs the ACS person table beside the repository. The clustering is a label that is already in the table, so that its own
time does not count.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pellucid as pel
from pellucid.engine.decode import decode

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "acs2024_person_49st"


def declared() -> dict:
    """Columns with documented categories or bounds; code 0 stands for "not applicable"."""
    columns = json.loads(DATA.with_suffix(".json").read_text(encoding="utf-8"))["columns"]
    features: dict = {}
    for name, entry in columns.items():
        if "documented_categories" in entry:
            codes = [0, *(int(c) for c in entry["documented_categories"] if c.isdigit() and int(c))]
            features[name] = pel.Category(codes, missing=0, unknown=0)
        elif "documented_bounds" in entry and name != "PWGTP":
            features[name] = pel.Number(*entry["documented_bounds"], integer=True, missing=float("nan"))
    return features


def given_label(frame):
    return frame["cluster"].to_numpy()


def best(action, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return min(times)


def release(table, schema, explainer):
    return pel.Session(table, schema, budget=pel.Budget(epsilon=1.0)).release(explainer, epsilon=0.2)


def one_pass(encoded, cells, label, clusters) -> None:
    for name, column in encoded.items():
        np.bincount(label * cells[name] + column, minlength=clusters * cells[name])


def measure(raw: pa.Table, features: dict, clusters: int, repeats: int) -> None:
    age = np.nan_to_num(decode(pel.Number(0, 99), raw.column("AGEP")))
    label = (age * clusters // 100).astype(np.int8)
    last = pel.Number(0, clusters - 1, integer=True)
    groups = pel.Clustering(given_label, clusters=range(clusters), features=["cluster"], trained_on="other data")
    schema, explainer = pel.Schema({**features, "cluster": last}), pel.ClusterHistograms(groups, attributes=list(features))
    bins = dict(explainer.cells(schema))
    cells = {name: b.cells for name, b in bins.items()}
    encoded = {name: bins[name].index(decode(features[name], raw.column(name))).astype(np.int64) for name in features}
    codes = pa.table({**{name: pa.array(column) for name, column in encoded.items()}, "cluster": pa.array(label)})
    coded_schema = pel.Schema({**{name: pel.Category(range(cells[name])) for name in encoded}, "cluster": last})
    groups_again = pel.Clustering(given_label, clusters=range(clusters), features=["cluster"], trained_on="other data")
    coded = pel.ClusterHistograms(groups_again, attributes=list(encoded))
    table, wide = raw.append_column("cluster", pa.array(label)), label.astype(np.int64)
    release(codes.slice(0, 5000), coded_schema, coded)  # the trial of the clustering, and first imports
    release(table.slice(0, 5000), schema, explainer)
    times: dict[str, list[float]] = {"base": [], "codes": [], "raw": []}
    for _ in range(repeats):
        times["base"].append(best(lambda: one_pass(encoded, cells, wide, clusters), 2))
        times["codes"].append(best(lambda: release(codes, coded_schema, coded), 1))
        times["raw"].append(best(lambda: release(table, schema, explainer), 1))
    base, from_codes, from_raw = (min(times[key]) for key in ("base", "codes", "raw"))
    print(
        f"{clusters} clusters, {raw.num_rows:,} rows × {len(encoded)} columns: bincount {base:.2f} s; whole release from codes "
        f"{from_codes:.2f} s = {from_codes / base:.2f} ×, from the raw table {from_raw:.2f} s = {from_raw / base:.2f} ×"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    features = declared()
    raw = pq.read_table(DATA.with_suffix(".parquet"), columns=list(features))
    for clusters in (9, 15):
        measure(raw, features, clusters, options.repeats)


if __name__ == "__main__":
    main()
