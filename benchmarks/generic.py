"""Any explainer made private by blocks (PrivatePlot) against the published generic plots: ratios of mean squared errors.

    python benchmarks/generic.py            the table: 23 features, 5 budgets, partial dependence and accumulated effects
    python benchmarks/generic.py --study    the same by the number of blocks, to check the default
    python benchmarks/generic.py --quick    a few features, one draw

Pure epsilon, replace-one, data and references of curves.py. The functions are those a user would write: partial dependence of a
block on the public grid, and accumulated effects with 20 quantile intervals of the block, interpolated to the grid (categories:
steps on the records of the first category, or on all records of a block that has none), output declared as [-R, R]. Grids are
public: every declared category, and 20 points from bound to bound by the package's rule. Sessions, blocks, bounds, calibration
and post-processing are the package's own. Model answers are looked up, functions run in this process, and noise has the same law
but comes from NumPy; --releases real releases, with a process for every block, are compared with that.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import mean, median, stdev
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from protocol import OUTPUT, arguments, has_data, task  # isort: skip
from curves import EPSILONS, FEATURES, Comparison, row, show
from sources import Seeded

import pellucid as pel
from pellucid.engine import kernel, trial
from pellucid.mechanisms import source
from pellucid.public.grids import edge_candidates, spread_points
from pellucid.query.functions import BlockFunction
from pellucid.release.door import Ask

POINTS = INTERVALS = 20
KINDS = {"PDP": "pdp_generic_mise", "ALE": "ale_generic_mise"}
STUDIED = (50, 100, 200, 400, 800, 1600, 3200)
QUICK = {"adult": ["age", "race"], "bike": ["hr", "atemp", "yr"]}
REAL = (("adult", "age", 1), ("bike", "hr", 5))


def records(rows: Mapping[str, Any]) -> np.ndarray:
    return np.asarray(rows["record"], dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Dependence:
    """Partial dependence of a block: the mean answer at each place of the grid. `answers`: records × places."""

    answers: np.ndarray

    def __call__(self, rows: Mapping[str, Any]) -> np.ndarray:
        return self.answers[records(rows)].mean(axis=0, dtype=float)


@dataclass(frozen=True, eq=False)
class NumericEffects:
    """Accumulated effects of a block between its own quantiles, centred by its records.

    `answers`: records × values of the column, `place`: which of these values is a record's own.
    """

    answers: np.ndarray
    place: np.ndarray
    values: np.ndarray

    def __call__(self, rows: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        record = records(rows)
        own = self.place[record]
        borders = np.unique(np.quantile(own, np.linspace(0, 1, INTERVALS + 1), method="inverted_cdf"))
        if len(borders) == 1:
            return self.values[borders], np.zeros(1)
        inside = np.clip(np.searchsorted(borders, own) - 1, 0, len(borders) - 2)
        steps = self.answers[record, borders[inside + 1]].astype(float) - self.answers[record, borders[inside]]
        counts = np.bincount(inside, minlength=len(borders) - 1)
        effects = np.bincount(inside, steps, len(borders) - 1) / np.maximum(counts, 1)
        heights = np.concatenate([[0.0], np.cumsum(effects)])
        return self.values[borders], heights - np.average((heights[1:] + heights[:-1]) / 2, weights=counts)


@dataclass(frozen=True, eq=False)
class CategoryEffects:
    """Accumulated effects of a block over categories in declared order, centred by the plain mean."""

    answers: np.ndarray
    place: np.ndarray

    def __call__(self, rows: Mapping[str, Any]) -> np.ndarray:
        record = records(rows)
        own, steps = self.place[record], np.diff(self.answers[record].astype(float), axis=1)
        # For a category that nobody in the block has, the next best is what the step does to everybody.
        means = [steps[own == i, i].mean() if (own == i).any() else steps[:, i].mean() for i in range(steps.shape[1])]
        heights = np.concatenate([[0.0], np.cumsum(means)])
        return heights - heights.mean()


def in_this_process(of: BlockFunction, blocks: Iterable[Any], count: int, note: Any) -> Iterator[np.ndarray]:
    """Stands in for a process and a data frame per block; the functions here keep no state, so the answers are the same."""
    for rows in blocks:
        yield of.adapt(of.function(rows.columns))


class Plots(Comparison):
    """One feature: private plots by blocks and their errors."""

    def plot(self, kind: str, blocks: int | None) -> pel.PrivatePlot:
        lo, hi = OUTPUT[self.task.data]
        grid = edge_candidates(self.feature) if self.categorical else spread_points(self.feature, POINTS)
        x = [self.feature.value_at(v) for v in grid]
        if kind == "PDP":
            return pel.PrivatePlot(Dependence(np.clip(self.task.at(self.name, grid), lo, hi)), x, output=(lo, hi), blocks=blocks)
        values = grid if self.categorical else self.distinct
        answers, place = np.clip(self.task.at(self.name, values), lo, hi), np.searchsorted(values, self.values)
        function = CategoryEffects(answers, place) if self.categorical else NumericEffects(answers, place, values)
        return pel.PrivatePlot(function, x, output=(lo - hi, hi - lo), blocks=blocks)

    def open_session(self, epsilon: float) -> pel.Session:
        rows = len(self.values)
        schema = pel.Schema({"record": pel.Number(0, rows - 1, integer=True)})
        return pel.Session({"record": np.arange(rows)}, schema, budget=pel.Budget(epsilon=epsilon))

    def error(self, kind: str, curve: Any) -> float:
        y = self.on_reference(curve)
        if kind == "ALE" and self.categorical:
            y = y - y.mean()
        return float(((y - (self.dependence if kind == "PDP" else self.effects["average"])) ** 2).mean())

    def errors(self, kind: str, epsilon: float, draws: int, blocks: int | None = None) -> list[float]:
        """Errors of plots through the package's plan, blocks, bounds, calibration and post-processing."""
        session, plot = self.open_session(epsilon), self.plot(kind, blocks)
        with (
            mock.patch.object(kernel, "run_on_blocks", in_this_process),
            mock.patch.object(trial, "try_function", lambda *_: None),
        ):
            plan = session.plan(plot, epsilon=epsilon)
            return [self.error(kind, plot.run(Ask(session._engine.totals, plan))) for _ in range(draws)]


def plots(options, work: dict[str, list[str]]) -> Iterator[Plots]:
    for data, names in work.items():
        of = task(data, "anchors", options.shared, options.cache)
        for name in names:
            source.current = Seeded(zlib.crc32(name.encode()))
            yield Plots(of, name)
            print(f"done: {data} {name}", file=sys.stderr, flush=True)


def published(options) -> pd.DataFrame:
    table = pd.read_csv(options.shared / "anchors" / "curves_mise.csv")
    return table[table["dataset"].isin(["Adult Income", "Bike Sharing"])].set_index(["feature", "epsilon"])


def measure(options, work: dict[str, list[str]]) -> None:
    """Every case with the default number of blocks."""
    anchors, tables = published(options), {f"{kind} by blocks, pure ε": {} for kind in KINDS}
    for one in plots(options, work):
        for (kind, column), table in zip(KINDS.items(), tables.values()):
            table[f"{one.task.data} {one.name}"] = [
                mean(one.errors(kind, eps, options.draws)) / float(anchors.loc[(one.name, eps), column]) for eps in EPSILONS
            ]
    show(tables)
    print("\n| share of cases at most half the published error | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " | all |")
    print("|---" * (len(EPSILONS) + 2) + "|")
    chosen = {kind: np.array(list(table.values())) <= 0.5 for kind, table in zip(KINDS, tables.values())}
    for kind, good in {**chosen, "both": np.vstack(list(chosen.values()))}.items():
        print(row(kind, [*good.mean(axis=0), good.mean()]))
    both = np.vstack([list(table.values()) for table in tables.values()])
    print(row("median ratio, both", [*np.median(both, axis=0), np.median(both)]))
    met = "met" if (both <= 0.5).mean() >= 0.75 else "MISSED"
    print(f"\n- {met}: at most half the published error in 75 % of {both.size} cases")


def study(options, work: dict[str, list[str]]) -> None:
    """Median ratios by the number of blocks, and with the default."""
    anchors, counts = published(options), [*STUDIED, None]
    found: dict[tuple[str, float, int | None], list[float]] = {}
    for one in plots(options, work):
        for kind, column in KINDS.items():
            for eps in EPSILONS:
                for blocks in counts:
                    error = mean(one.errors(kind, eps, options.draws, blocks))
                    found.setdefault((kind, eps, blocks), []).append(error / float(anchors.loc[(one.name, eps), column]))
    for title, of in (("median ratio", median), ("share at most 0.5", lambda r: mean(v <= 0.5 for v in r))):
        print(f"\n| {title} | " + " | ".join(str(b or "default") for b in counts) + " |\n|---" + "|---" * len(counts) + "|")
        for kind in KINDS:
            for eps in EPSILONS:
                print(row(f"{kind}, ε = {eps:g}", [of(found[kind, eps, b]) for b in counts]))


def compare_with_releases(options) -> None:
    """Real releases beside the shortcut of this file: the same errors, give or take their spread."""
    print("\n| real releases | mean error | in this process | spread of one | blocks | seconds each |\n|---" + "|---" * 5 + "|")
    for data, name, epsilon in REAL:
        one = next(plots(options, {data: [name]}))
        usual = one.errors("ALE", epsilon, max(20, options.draws))
        source.current = source.SystemSource()
        found, begun = [], time.perf_counter()
        for _ in range(options.releases):
            curve = one.open_session(epsilon).release(one.plot("ALE", None), epsilon=epsilon)
            found.append(one.error("ALE", curve))
        seconds = (time.perf_counter() - begun) / options.releases
        print(
            f"| ALE, {data} {name}, ε = {epsilon:g} | {mean(found):.3g} | {mean(usual):.3g} | {stdev(usual):.2g} "
            f"| {curve.count:.0f} | {seconds:.1f} |"
        )


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--draws", type=int, default=10, help="divisions into blocks, each with a draw of noise")
    parser.add_argument("--releases", type=int, default=5, help="real releases to compare with; 0 for none")
    parser.add_argument("--study", action="store_true", help="by the number of blocks")
    parser.add_argument("--quick", action="store_true", help="a few features, one draw")
    options = parser.parse_args()
    if not has_data(options.shared):
        print(f"skipped: no data in {options.shared}; give the folder with --shared.")
        return 0
    work = QUICK if options.quick else FEATURES
    options.draws, options.releases = (1, min(options.releases, 1)) if options.quick else (options.draws, options.releases)
    print(f"{options.draws} draws; ratios of mean errors to the published generic plots; noise from NumPy")
    (study if options.study else measure)(options, work)
    if options.releases and not options.study:
        compare_with_releases(options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
