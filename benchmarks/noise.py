"""Exact draws per processor second, in bulk and one after another: `python benchmarks/noise.py`."""

import secrets
import statistics
import time
from fractions import Fraction

from pellucid.explainers.local.bound import Moments
from pellucid.mechanisms import Spend, add_noise, bulk, samplers
from pellucid.mechanisms.source import _opendp
from pellucid.query import Sum, calibrated

SIZES = (64, 500, 5_000, 125_000)
SCALES = (Fraction(17, 10), Fraction(2**33 + 1))


def per_second(draw, size):
    """Draws of so many numbers at a time, for half a second at least."""
    draw(size)
    start, made = time.process_time(), 0
    while (spent := time.process_time() - start) < 0.5:
        draw(size)
        made += size
    return made / spent


def main():
    below, bits = secrets.randbelow, secrets.token_bytes
    print(f"{'law':<10}{'scale':>12}{'at once':>10}{'bulk':>12}{'OpenDP':>12}{'one by one':>12}{'bulk / OpenDP':>15}")
    for name in ("laplace", "gaussian", "cube"):
        # A cube that is small for its dimensions takes for ever to accept, on a lattice so coarse that nothing is released on it.
        for scale in SCALES[name == "cube" :]:
            for size in SIZES[: 3 if name == "cube" else 4]:
                if name == "cube":
                    ways = [lambda n, s=scale: bulk.cube(1 / s, n, bits), None, lambda n, s=scale: samplers.cube(1 / s, n, below)]
                else:
                    in_bulk, single, library = getattr(bulk, name), getattr(samplers, name), _opendp(name, float(scale))
                    ways = [
                        lambda n, s=scale, draw=in_bulk: draw(s, n, bits),
                        lambda n, draw=library: draw([0] * n),
                        lambda n, s=scale, draw=single: [draw(s, below) for _ in range(n)],
                    ]
                found = [per_second(way, size) if way else float("nan") for way in ways]
                numbers = "".join(f"{value:>12,.0f}" for value in found)
                print(f"{name:<10}{float(scale):>12.3g}{size:>10,}{numbers}{found[0] / found[1]:>15.1f}", flush=True)
    question()


def question(words=500):
    """The noise of one question about a text of so many words: the products of all pairs of them, in one draw."""
    query = Sum(len, Moments(words, 1.0, 1.0, 1.0))
    print(f"\none question of {words} words ({query.size:,} numbers)")
    for spend in (Spend("epsilon", Fraction(1)), Spend("rho", Fraction(1, 10))):
        mechanism = calibrated(query, "replace", 1, spend)
        took = []
        for _ in range(5):
            start = time.process_time()
            add_noise([0] * query.size, mechanism)
            took.append(time.process_time() - start)
        print(f"{mechanism.kind:<10}{statistics.median(took):6.2f} s of processor time")


if __name__ == "__main__":
    main()
