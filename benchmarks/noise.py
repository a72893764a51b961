"""Exact draws per processor second, in bulk and one after another: `python benchmarks/noise.py`."""

import secrets
import time
from fractions import Fraction

from pellucid.mechanisms import bulk, samplers
from pellucid.mechanisms.source import _opendp

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


if __name__ == "__main__":
    main()
