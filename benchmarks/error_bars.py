"""Honest error bars: how often 95 % intervals hold the value without noise, over thousands of noise draws on fixed totals.

    python benchmarks/error_bars.py

Partial dependence and distributions: every point must be covered 93 to 97 % of the time. Accumulated effects: on average over
points, against the curve of the same released intervals and the same clip with exact sums and exact counts; how far that
curve is from the unclipped one is printed beside it. Smoothing is off. People are generated (tests/people.py); Adult's
age, hours-per-week and marital-status join when the data is there. Plans, maps, calibration and intervals are the
package's; noise has the same laws but comes from NumPy.
"""

from __future__ import annotations

import functools
import zlib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from protocol import KeptTotals, arguments, has_data, lookup_session, task  # isort: skip
from people import make_people, risk
from sources import Seeded

import pellucid as pel
from pellucid.explainers.curves import accumulate
from pellucid.explainers.curves.steps import ClippedSteps
from pellucid.mechanisms import NoiseLaw, source
from pellucid.public.grids import edge_candidates
from pellucid.query import Sum
from pellucid.query.bounds import Cells
from pellucid.release.door import Ask
from pellucid.release.plan import Plan

LOW, HIGH = 0.93, 0.97
SCHEMA = {
    "age": pel.Number(17, 90, integer=True),
    "children": pel.Number(0, 6, integer=True),
    "bmi": pel.Number(10, 60),
    "school": pel.Category(["none", "primary", "secondary", "tertiary"], ordered=True),
}


_draws = NoiseLaw.draws


@functools.lru_cache(maxsize=64)
def _unit_draws(kind: str, size: int, count: int, seed: int) -> np.ndarray:
    return _draws(NoiseLaw(kind, 1.0, size), count, seed)


def kept_draws(law: NoiseLaw, count: int, seed: int = 0) -> np.ndarray:
    """The simulated noise behind the package's error bars is the same each time: it is drawn once and scaled."""
    return law.scale * _unit_draws(law.kind, law.size, count, seed)


@dataclass(frozen=True)
class Case:
    data: str
    feature: str
    neighbors: str
    epsilon: float
    delta: float
    kind: str

    @property
    def label(self) -> str:
        account = "zCDP" if self.delta else "pure ε"
        return f"{self.kind:<12} {self.data:<9} {self.feature:<15} {self.neighbors:<10} {account:<6} ε = {self.epsilon:<3g}"


def column(case: Case, options) -> tuple[pel.Number | pel.Category, np.ndarray, np.ndarray, np.ndarray]:
    """(feature, its values in inner form, a grid, the model's answer for every record at every grid value)."""
    if case.data == "adult":
        of = task("adult", "anchors", options.shared, options.cache)
        feature = of.schema[case.feature]
        values, grid = of.codes[:, of.names.index(case.feature)].astype(float), edge_candidates(feature)
        return feature, values, grid, of.at(case.feature, grid)
    people, feature = make_people(20_000, seed=3), SCHEMA[case.feature]
    words = [feature.value_at(v) for v in edge_candidates(feature)]
    if isinstance(feature, pel.Number) and not feature.integer:
        words = np.linspace(feature.lo, feature.hi, 2001)
    answers = np.column_stack([risk(people.assign(**{case.feature: word})) for word in words])
    values = people[case.feature].map(feature.position).to_numpy(float)
    return feature, values, np.array([feature.position(w) for w in words], dtype=float), answers


def coverage(case: Case, options) -> str:
    NoiseLaw.draws = kept_draws  # type: ignore[method-assign]
    source.current = Seeded(zlib.crc32(case.label.encode()))
    feature, values, grid, answers = column(case, options)
    budget = pel.Budget(epsilon=case.epsilon, delta=case.delta, accounting="zcdp" if case.delta else None)
    session, model = lookup_session(
        feature, case.feature, values, grid, answers, (0, 1), budget=budget, neighbors=case.neighbors, expected_rows=len(values)
    )
    made = {
        "distribution": lambda: pel.Distribution(case.feature),
        "dependence": lambda: pel.PartialDependence(model, case.feature, method="values"),
        "effects": lambda: pel.AccumulatedEffects(model, case.feature),
    }
    explainer = made[case.kind]()
    plan, engine = session.plan(explainer, epsilon=case.epsilon), KeptTotals(session._engine)
    if case.kind == "effects":
        return effects(case, explainer, plan, engine, options.effect_draws)
    exact = exact_answer(case, plan, engine)
    inside = np.zeros(len(exact))
    for _ in range(options.draws):
        lower, upper = explainer.run(Ask(engine.totals, plan)).interval()
        inside += (lower <= exact) & (exact <= upper)
    share = inside / options.draws
    good = share.min() >= LOW and share.max() <= HIGH
    span = f"{share.min():.3f} to {share.max():.3f}, mean {share.mean():.3f}"
    return f"{case.label}: {len(exact):3d} points, covered {span}  {verdict(good)}"


def exact_answer(case: Case, plan: Plan, engine) -> np.ndarray:
    query = plan.stages[0].query
    totals = np.array(engine.totals(query), dtype=float) / 2**30
    return totals if case.kind == "distribution" else 0.5 + 0.5 * totals[: query.bound.length] / len(engine.rows)


def effects(case: Case, explainer, plan: Plan, engine, draws: int) -> str:
    seen: list[ClippedSteps] = []

    class Watched(Ask):
        """Keeps the released intervals and clip of a run."""

        def total(self, stage, query=None):
            if stage == "steps":
                seen.append(query.sums[0].map)
            return super().total(stage, query)

    counts = np.array(engine.totals(plan["places"].query), dtype=float) / 2**30
    shares, biases, spans = [], [], []
    for _ in range(draws):
        curve = explainer.run(Watched(engine.totals, plan))
        step, (lower, upper) = seen.pop(), curve.interval()
        wanted = same_intervals(step, counts, engine, step.clip)
        shares.append(((lower <= wanted) & (wanted <= upper)).mean())
        if len(biases) < 200:
            free = same_intervals(step, counts, engine, 2 * step.model.range)
            biases.append(np.abs(wanted - free).max())
            spans.append(((upper - lower) / 2).mean())
    share, bias = float(np.mean(shares)), float(np.mean(biases))
    return (
        f"{case.label}: covered {share:.3f} on average over points  {verdict(LOW <= share <= HIGH)}; "
        f"clipping moves the curve by at most {bias:.5f}, {bias / np.mean(spans):.2f} of a half-width"
    )


def same_intervals(step: ClippedSteps, counts: np.ndarray, engine, clip: float) -> np.ndarray:
    """The curve of released intervals without noise: exact sums, exact counts."""
    bound = Cells(len(step.intervals), value=clip, count_weight=0)
    plain = ClippedSteps(step.model, step.name, step.grid, step.intervals, clip)
    sums = np.array(engine.totals(Sum(plain, bound)), dtype=float) * bound.unit
    mass = step.intervals.share @ counts[: step.intervals.share.shape[1]]
    weights = accumulate.centring_weights(step.intervals, counts[: len(step.grid)], step.grid)
    return accumulate.curve(accumulate.mean_effects(sums, np.maximum(mass, 1e-9), step.model.range), weights)


def verdict(good: bool) -> str:
    return "ok" if good else "OUTSIDE 93-97 %"


def cases(real: bool) -> list[Case]:
    listed = []
    tables = [("generated", ("age", "bmi", "school"))] + [("adult", ("age", "hours-per-week", "marital-status"))] * real
    for data, names in tables:
        for name in names:
            for delta in (0.0, 1e-6):
                for neighbors in ("replace", "add-remove") if name != "hours-per-week" else ("replace",):
                    listed.append(Case(data, name, neighbors, 1.0, delta, "dependence"))
                    listed.append(Case(data, name, neighbors, 1.0, delta, "distribution"))
                    if neighbors == "replace" or data == "generated":
                        listed.append(Case(data, name, neighbors, 1.0, delta, "effects"))
                if data == "adult":
                    listed.append(Case(data, name, "replace", 5.0, delta, "effects"))
    kinds = ("dependence", "distribution", "effects")
    return sorted(listed, key=lambda case: (kinds.index(case.kind), case.neighbors != "replace"))


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--draws", type=int, default=5000)
    parser.add_argument("--effect-draws", type=int, default=5000, help="draws for accumulated effects, which are slower")
    parser.add_argument("--jobs", type=int, default=1, help="cases measured at the same time")
    parser.add_argument("--only", help="only cases whose label contains this text")
    options = parser.parse_args()
    real = has_data(options.shared)
    print(
        f"{options.draws} draws, {options.effect_draws} for accumulated effects"
        + ("" if real else f"; no data in {options.shared}: generated people only")
    )
    chosen = [case for case in cases(real) if not options.only or options.only in case.label]
    bad = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for line in pool.map(coverage, chosen, [options] * len(chosen)):
            print(line, flush=True)
            bad += "OUTSIDE" in line
    print(f"{len(chosen) - bad} of {len(chosen)} inside 93 to 97 %")
    return 0 if not bad else 1


if __name__ == "__main__":
    raise SystemExit(main())
