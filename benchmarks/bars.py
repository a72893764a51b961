"""The bars study over many seeds: does DP-SGD disperse partial sensitivities and centre them near zero?

    OMP_NUM_THREADS=1 python benchmarks/bars.py [--seeds 12] [--workers 1]

Prints, for every reading of the paper and every training length, medians over seeds of what `network_bars` measures,
and in how many seeds the paper's finding holds (more dispersed *and* nearer to zero than under SGD, both by 10 %).
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from network_bars import APPENDIX, CONTROLS, MARGIN, MEASURES, NOTEBOOK, Look, Privacy, bars_study, gaussian_epsilon

from pellucid.engine.progress import track

STRONG = 167.0
"""The noise multiplier of (1, 1e-5)-DP over 2,000 steps."""
PLANS: dict[str, dict[str, Any]] = {
    "appendix": {"reading": APPENDIX, "steps": (1000, 2000, 5000)},
    "notebook": {"reading": NOTEBOOK, "steps": (2000,), "sgd_steps": 1000},
    "white is 1": {"reading": dataclasses.replace(APPENDIX, name="white is 1", ink=0.0), "steps": (2000,)},
    "epsilon 1": {"reading": dataclasses.replace(APPENDIX, name="epsilon 1", multiplier=STRONG), "steps": (2000,)},
}


def numbers(look: Look) -> dict[str, Any]:
    """What is kept of one seed: plain numbers, by network and measure."""
    kept: dict[str, Any] = {"loss": look.loss, "accuracy": look.accuracy, "sgd_steps": look.sgd_steps}
    for measure in MEASURES:
        kept[measure] = {}
        for name in ("SGD", *CONTROLS):
            found, contrast = look.statistics[name][measure], look.contrast(name, measure)
            kept[measure][name] = {
                **vars(contrast),
                "wider": contrast.spread > MARGIN,
                "nearer": contrast.centre < 1 / MARGIN,
                "as_reported": contrast.as_reported,
                "agreement": float(np.median(found.agreement)),
                "on_other": sum(found.on_other_bar()),
                "maxima": found.other_and_unrelated(),
            }
    return kept


def one(job: tuple[str, int]) -> list[tuple[str, int, dict[str, Any]]]:
    plan, seed = job
    study = bars_study(seed=seed, progress=False, **PLANS[plan])
    return [(plan, look.steps, numbers(look)) for look in study.looks]


def middle(seeds: list[dict[str, Any]], measure: str, name: str, key: str) -> float:
    return float(np.median([seed[measure][name][key] for seed in seeds]))


def show(plan: str, steps: int, seeds: list[dict[str, Any]]) -> None:
    reading, n = PLANS[plan]["reading"], len(seeds)
    multiplier = reading.multiplier * 2000 / (reading.noise_over or 2000)
    cost = Privacy(steps, multiplier)
    print(f"\n{plan}: DP-SGD {steps:,} steps, SGD {seeds[0]['sgd_steps']:,}; {n} seeds; ρ = {cost.rho:.4g}, ", end="")
    print(f"ε = {cost.epsilon:.1f} (zCDP), {cost.exact_epsilon:.1f} (exact) at δ = {cost.delta:g}")
    for name in ("SGD", *CONTROLS):
        loss, right = (np.median([seed[key][name] for seed in seeds]) for key in ("loss", "accuracy"))
        print(f"  {name:18} loss {loss:8.2g}   test accuracy {right:.2f}   learnt (≥ 0.99): ", end="")
        print(f"{sum(seed['accuracy'][name] >= 0.99 for seed in seeds)}/{n}")
    head = (
        f"{'spread':>9} {'|mean|':>8} {'|mean|/std':>11} {'same sign':>10} {'on other bar':>13} {'max there':>10} {'max off':>9}"
    )
    for measure in MEASURES:
        print(f"  {measure:19} {head}   wider  nearer  both, as reported")
        for name in ("SGD", *CONTROLS):
            values = [middle(seeds, measure, name, k) for k in ("spread", "centre", "concentration", "agreement", "on_other")]
            there, off = np.median([seed[measure][name]["maxima"] for seed in seeds], axis=0)
            row = "    {:17} {:9.3f} {:8.3f} {:11.2f} {:10.2f} {:9.1f} of 8".format(name, *values) + f" {there:10.4f} {off:9.4f}"
            held = [f"{sum(seed[measure][name][key] for seed in seeds)}/{n}" for key in ("wider", "nearer", "as_reported")]
            print(row + ("" if name == "SGD" else "   {:>5}  {:>6}  {:>5}".format(*held)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--workers", type=int, default=1)
    chosen = parser.parse_args()
    print("spread and |mean| are relative to SGD: medians over pixels and classes, then over seeds. 'on other bar': how many of")
    print("the 2 × 4 largest maxima lie on the other class's bar (chance: 1.3); 'max there' and 'max off': the mean maximum on")
    print("that bar, and on pixels of neither bar. 'wider' and 'nearer': in how many seeds, by 10 %; the paper reports both.")
    assert gaussian_epsilon(math.sqrt(2000) / STRONG, 1e-5) <= 1
    jobs = [(plan, seed) for plan in PLANS for seed in range(chosen.seeds)]
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    with ProcessPoolExecutor(chosen.workers) as pool:
        for results in track(pool.map(one, jobs), len(jobs), "bars"):
            for plan, steps, kept in results:
                found.setdefault((plan, steps), []).append(kept)
    for (plan, steps), seeds in found.items():
        show(plan, steps, seeds)


if __name__ == "__main__":
    main()
