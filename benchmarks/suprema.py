"""Certified suprema against SHGO and random search on the thirty functions with known suprema.

    python benchmarks/suprema.py [--tolerance 0.01] [--seconds 10]

SHGO and random search give *lower* bounds of a supremum: the table counts how often, and by how much, they fall below the
truth, which a sensitivity must never do.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import mpmath
import numpy as np
from scipy.optimize import shgo

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "sensitivity"))

from suite import SUITE

from pellucid.engine.progress import track
from pellucid.sensitivity import partial, supremum
from pellucid.sensitivity.expressions import formula


def run(known, tolerance: float, seconds: float) -> dict:
    asked = formula(known.formula, known.box)
    evaluate = asked.compiled()
    truth = float(known.truth)
    started = time.perf_counter()
    found = supremum(asked, known.box, tolerance=tolerance, seconds=seconds)
    ours = time.perf_counter() - started
    below = mpmath.mpf(found.upper) < known.truth

    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = shgo(lambda x: -float(evaluate(*x)[0]), list(known.box.values()), n=100, iters=3, sampling_method="simplicial")
    simplicial = time.perf_counter() - started
    best = -float(answer.fun) if answer.fun is not None else -np.inf

    rng = np.random.default_rng(0)
    columns = [rng.uniform(*ends, 100_000) for ends in known.box.values()]
    started = time.perf_counter()
    random = float(np.nanmax(evaluate(*columns)[0]))
    drawing = time.perf_counter() - started
    size = abs(truth)
    return {
        "name": known.name,
        "variables": len(known.box),
        "above": (found.upper - truth) / size,
        "below": below,
        "splits": found.splits,
        "seconds": ours,
        "shgo_below": mpmath.mpf(best) < known.truth,
        "random_below": mpmath.mpf(random) < known.truth,
        "shgo": (best - truth) / size,
        "shgo_seconds": simplicial,
        "random": (random - truth) / size,
        "random_seconds": drawing,
    }


def speed() -> None:
    """Compiled shares and gradients against hand-written NumPy on a million points, best of seven, in one run."""
    p = partial("a**2 + exp(2*b - a)", {"a": (1, 2), "b": (0.5, 3)})
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.uniform(1, 2, 10**6), rng.uniform(0.5, 3, 10**6)])

    def slopes(a, b):
        e = np.exp(2 * b - a)
        return e, 2 * a - e, 2 * e

    def share(x):
        _, ga, gb = slopes(x[:, 0], x[:, 1])
        norm = np.sqrt(ga * ga + gb * gb)
        return np.column_stack([ga / norm, gb / norm])

    def gradient(x):
        e, ga, gb = slopes(x[:, 0], x[:, 1])
        norm = np.sqrt(ga * ga + gb * gb)
        return np.column_stack([((2 + e) * ga - 2 * e * gb) / norm, (-2 * e * ga + 4 * e * gb) / norm])

    for name, ours, hand in (("share", p.share, share), ("gradient", p.gradient, gradient)):
        times: dict = {ours: [], hand: []}
        for _ in range(7):
            for function in times:
                started = time.perf_counter()
                function(points)
                times[function].append(time.perf_counter() - started)
        print(f"{name}: {min(times[ours]) / min(times[hand]):.2f} × hand-written NumPy on 1,000,000 points")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tolerance", type=float, default=0.01)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    rows = [run(known, options.tolerance, options.seconds) for known in track(SUITE, len(SUITE), "suprema")]
    print("| function | variables | certified, above the truth | splits | s | SHGO | s | random search, 100,000 points |")
    print("|---|---|---|---|---|---|---|---|")
    for r in rows:
        print(
            f"| {r['name']} | {r['variables']} | {r['above']:+.2e} | {r['splits']} | {r['seconds']:.2f} "
            f"| {r['shgo']:+.1e} | {r['shgo_seconds']:.2f} | {r['random']:+.1e} |"
        )
    shgo_low, random_low = sum(r["shgo_below"] for r in rows), sum(r["random_below"] for r in rows)
    ours = sum(r["below"] for r in rows)
    print(f"below the truth at all: certified {ours}, SHGO {shgo_low}, random search {random_low} of {len(rows)}")
    for margin in (1e-6, 1e-2):
        shgo_low = sum(r["shgo"] < -margin for r in rows)
        random_low = sum(r["random"] < -margin for r in rows)
        print(f"more than {margin:g} below the truth: certified 0, SHGO {shgo_low}, random search {random_low} of {len(rows)}")
    print(f"certified within 1 % of the truth: {sum(r['above'] <= 0.01 for r in rows)} of {len(rows)}")
    speed()


if __name__ == "__main__":
    main()
