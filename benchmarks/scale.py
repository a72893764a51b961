"""Twenty million rows on a small machine: memory and time of a release over a Parquet file, and exactness of its totals.

    python benchmarks/scale.py            writes, reads and removes a file of about 800 MB in the temporary folder

One process does nothing but the release (peak memory by getrusage, target 1.5 GB); another holds the same rows in memory and
computes the same totals, which must be equal bit for bit.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pellucid as pel

COLUMNS = [f"x{i}" for i in range(10)]
GROUP = 1_000_000
POINTS = 20
TARGET_GB = 1.5


def write(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    schema = pa.schema([(name, pa.float32()) for name in COLUMNS])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as file:
        for start in range(0, rows, GROUP):
            size = min(GROUP, rows - start)
            columns = [pa.array(rng.normal(size=size).astype(np.float32)) for _ in COLUMNS]
            file.write_table(pa.table(columns, schema=schema), row_group_size=GROUP)


def linear(table: np.ndarray) -> np.ndarray:
    """A fixed model of all ten columns. Written as a sum of products: a matrix product may round differently by batch."""
    total = np.full(len(table), 0.5)
    for i in range(table.shape[1]):
        total += table[:, i] * (0.02 if i % 2 else -0.03)
    return total


def open_session(data, rows_epsilon: float = 10.0) -> tuple[pel.Session, pel.PartialDependence]:
    schema = pel.Schema({name: pel.Number(-4, 4) for name in COLUMNS})
    model = pel.Model(linear, output=(0, 1), features=COLUMNS, trained_on="other data", input="array")
    return pel.Session(data, schema, budget=pel.Budget(epsilon=rows_epsilon)), pel.PartialDependence(model, "x0", points=POINTS)


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform != "darwin" else 1 << 30)


def role(name: str, path: Path) -> None:
    """What a child process does: release from the file, totals from the file, or totals from memory."""
    start = time.perf_counter()
    session, explainer = open_session(pq.read_table(path) if name == "memory" else path)
    if name == "release":
        session.release(explainer, epsilon=1.0)
        found = []
    else:
        query = session.plan(explainer, epsilon=1.0)["curve"].query
        found = [str(v) for v in session._engine.totals(query)]
    print(json.dumps({"seconds": time.perf_counter() - start, "gb": peak_gb(), "totals": found}))


def child(name: str, path: Path) -> dict:
    done = subprocess.run(
        [sys.executable, __file__, "--role", name, "--path", str(path)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--role", choices=("release", "file", "memory"), help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        role(options.role, options.path)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        start = time.perf_counter()
        write(path, options.rows)
        taken = time.perf_counter() - start
        print(f"{options.rows:,} rows x {len(COLUMNS)} columns, {path.stat().st_size / 1e9:.2f} GB written in {taken:.0f} s")
        release = child("release", path)
        small = release["gb"] <= TARGET_GB
        rate = options.rows * POINTS / release["seconds"] / 1e6
        print(
            f"release, {POINTS} points: {release['seconds']:.1f} s, {rate:.1f} million predictions a second, "
            f"peak memory {release['gb']:.2f} GB; target {TARGET_GB}: {'met' if small else 'MISSED'}"
        )
        from_file, from_memory = child("file", path), child("memory", path)
        same = from_file["totals"] == from_memory["totals"] and len(from_file["totals"]) == POINTS
        print(
            f"totals from the file and from memory ({from_memory['gb']:.2f} GB, {from_memory['seconds']:.1f} s): "
            f"{'equal bit for bit' if same else 'DIFFERENT'}; first total {from_file['totals'][0]}"
        )
    return 0 if small and same else 1


if __name__ == "__main__":
    raise SystemExit(main())
