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
from pellucid.table import decode

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    features = declared()
    raw = pq.read_table(DATA.with_suffix(".parquet"), columns=list(features))
    rows = raw.num_rows
    age = np.nan_to_num(decode(pel.Number(0, 99), raw.column("AGEP")))
    for clusters in (9, 15):
        label = (age * clusters // 100).astype(np.int8)
        schema = pel.Schema({**features, "cluster": pel.Number(0, clusters - 1, integer=True)})
        groups = pel.Clustering(given_label, clusters=range(clusters), features=["cluster"], trained_on="other data")
        explainer = pel.ClusterHistograms(groups, attributes=list(features))
        bins = dict(explainer.cells(schema))
        encoded = {name: bins[name].index(decode(features[name], raw.column(name))).astype(np.int64) for name in features}
        wide = label.astype(np.int64)

        def one_pass(encoded=encoded, bins=bins, wide=wide, clusters=clusters):
            for name, column in encoded.items():
                np.bincount(wide * bins[name].cells + column, minlength=clusters * bins[name].cells)

        codes = {**{name: pa.array(column) for name, column in encoded.items()}, "cluster": pa.array(label)}
        coded_schema = pel.Schema(
            {**{name: pel.Category(range(bins[name].cells)) for name in encoded}, "cluster": pel.Number(0, clusters - 1, integer=True)}
        )
        groups_again = pel.Clustering(given_label, clusters=range(clusters), features=["cluster"], trained_on="other data")
        coded = pel.ClusterHistograms(groups_again, attributes=list(encoded))

        def release(table, schema, explainer):
            session = pel.Session(table, schema, budget=pel.Budget(epsilon=1.0))
            return session.release(explainer, epsilon=0.2)

        table = raw.append_column("cluster", pa.array(label))
        release(pa.table(codes).slice(0, 5000), coded_schema, coded)  # trial of the clustering, compilation
        release(table.slice(0, 5000), schema, explainer)
        base = best(one_pass, options.repeats)
        from_codes = best(lambda: release(pa.table(codes), coded_schema, coded), options.repeats)
        from_raw = best(lambda: release(table, schema, explainer), options.repeats)
        base = min(base, best(one_pass, options.repeats))
        print(
            f"{clusters} clusters, {rows:,} rows × {len(encoded)} columns: bincount {base:.2f} s; whole release from codes "
            f"{from_codes / base:.2f} ×, from the raw table {from_raw / base:.2f} ×"
        )


if __name__ == "__main__":
    main()
