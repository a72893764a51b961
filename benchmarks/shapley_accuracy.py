"""Accuracy of private Shapley rankings on pairs of data and model, and the law that it follows."""

from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from shapley_pairs import CLASSIFIED, KINDS, REGRESSED, SIZES, Pair, pair, vectors

import pellucid as pel
from pellucid.explainers.shapley.estimator import Chosen
from pellucid.explainers.shapley.queries import picks_rate, values_law
from pellucid.explainers.shapley.scores import ShapleyScore
from pellucid.mechanisms import Choosing, NoiseLaw, Spend, calibrate_choice, choose, exact

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
NODES = np.polynomial.legendre.leggauss(200)
GAP = 0.02
"""Of the output range: records whose first feature leads by less are not judged by the target at n = 1,000."""

PAIRS = [(data, kind) for data in CLASSIFIED + REGRESSED for kind in KINDS]
TABLE_11 = {
    ("synth_additive", "LR"): (0.18, 0.91, 0.35, 0.05), ("synth_additive", "MLP"): (0.10, 0.79, 0.33, 0.00),
    ("synth_additive", "RF"): (0.16, 0.84, 0.31, 0.03), ("synth_additive", "GB"): (0.15, 0.81, 0.31, 0.01),
    ("synth_interaction", "LR"): (0.10, 0.83, 0.29, 0.01), ("synth_interaction", "MLP"): (0.11, 0.78, 0.31, 0.00),
    ("synth_interaction", "RF"): (0.13, 0.84, 0.37, 0.01), ("synth_interaction", "GB"): (0.09, 0.68, 0.32, 0.01),
    ("adult", "LR"): (0.04, 0.31, 0.08, 0.01), ("adult", "MLP"): (0.01, 0.23, 0.06, 0.00),
    ("adult", "RF"): (0.39, 0.99, 0.41, 0.00), ("adult", "GB"): (0.03, 0.51, 0.06, -0.01),
    ("credit_default", "LR"): (0.10, 0.51, 0.25, 0.00), ("credit_default", "MLP"): (0.04, 0.38, 0.26, 0.00),
    ("credit_default", "RF"): (0.09, 0.68, 0.24, 0.00), ("credit_default", "GB"): (0.07, 0.33, 0.24, 0.01),
}  # fmt: skip
"""Published with 100 background records and sensitivities that are estimates: top-1 at ε = 1 and 10, top-5 and tau at ε = 1."""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def verdicts(checks: Sequence[tuple[str, bool, str]]) -> None:
    print("\nTargets:")
    for what, met, numbers in checks:
        print(f"- {'met' if met else 'MISSED'}: {what} ({numbers})")


def picks(scores: np.ndarray, how: Choosing, draws: int, rng: np.random.Generator) -> np.ndarray:
    """(draws, k): picks one after the other, each with fresh noise.

    Permute-and-flip is the largest score with exponential noise, the exponential mechanism the largest with Gumbel noise.
    """
    value = np.tile(float(how.rate) * (scores - scores.max()), (draws, 1))
    found = np.empty((draws, min(how.k, len(scores))), dtype=int)
    for place in range(found.shape[1]):
        noise = rng.standard_exponential(value.shape) if how.flip else rng.gumbel(size=value.shape)
        found[:, place] = (value + noise).argmax(axis=1)
        value[np.arange(draws), found[:, place]] = -np.inf
    return found


def right_first(leads: np.ndarray, how: Choosing) -> float:
    """The exact chance that the first pick is right; `leads` are rate times the leads over all others."""
    weight = np.exp(-np.minimum(leads, 700.0))
    if not how.flip:
        return float(1 / (1 + weight.sum()))
    at, share = NODES
    return float(share / 2 @ np.prod(1 - (at[:, None] + 1) / 2 * weight, axis=1))


@dataclass
class Cell:
    """One record at one epsilon: accuracies over draws, and what the law says."""

    data: str
    kind: str
    n: int
    epsilon: float
    gap: float
    """Lead of the first feature, in output ranges, by the reference."""
    first: float
    first_own: float
    five: float
    five_picks: float
    five_values: float
    tau: float
    x: float
    exact: float
    bound: float
    loose: float
    features: int
    way: tuple[str, ...]


@dataclass
class Plan:
    """What the explainer decides from public numbers: the same for every record asked about, since sizes are."""

    way: str
    how: Choosing
    rate: float
    law: NoiseLaw

    @classmethod
    def of(cls, session: pel.Session, explainer: pel.ShapRanking, epsilon: float) -> Plan:
        plan = session.plan(explainer, epsilon=epsilon)
        public, way, asked = plan.public, plan.details.way, plan.details.asked
        return cls(way, asked["picks"].how, picks_rate(asked["picks"], public), values_law(asked["values"], public))

    def rankings(self, asked: Asked, k: int, draws: int, rng: np.random.Generator, way: str = "") -> np.ndarray:
        """(draws, k): features by place, found as the explainer finds them, or in a given way."""
        if (way or self.way) == "values":
            noisy = asked.means + self.law.draws(draws, seed=int(rng.integers(2**31)))
            return np.argsort(-np.abs(noisy), axis=1)[:, :k]
        found = picks(asked.scores, self.how, draws, rng)
        if found.shape[1] < min(k, len(asked.scores)):
            # The last one of all needs no pick.
            found = np.hstack([found, len(asked.scores) * (len(asked.scores) - 1) // 2 - found.sum(axis=1, keepdims=True)])
        return found


@dataclass
class Asked:
    """One record against n background records: exact totals as scores for picks, and as means for noisy values.

    `sizes` are the scores in units of the output: the sizes of values after clipping, without noise.
    """

    scores: np.ndarray
    means: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, chosen: Chosen, table: np.ndarray) -> Asked:
        n = len(table)
        ranked, plain = chosen.bound(ranked=True), chosen.bound()
        scores = np.array(ShapleyScore(ranked, records=n).of(ranked.totals(table)), dtype=float)
        return cls(scores, plain.mean(plain.totals(table), n), scores * ranked.unit / n)


def cells_of(of: Pair, options) -> Iterator[Cell]:
    kept = vectors(of, options.cache)
    d, rng = len(kept.features), np.random.default_rng(7)
    every = [of.chosen(i) for i in range(len(kept.vectors))]
    for n in SIZES:
        session = pel.Session(of.frame(n), of.schema, budget=pel.Budget(epsilon=1000.0))
        plans = {}
        for k in (1, 5, d):
            explainer = pel.ShapRanking(of.model, of.record(0), k=k, certified=of.model.output)
            plans |= {(k, epsilon): Plan.of(session, explainer, epsilon) for epsilon in EPSILONS}
        for i, table in enumerate(kept.vectors):
            asked = Asked.of(every[i], table[:n])
            reference, own = np.abs(kept.reference[n][i]), asked.sizes
            order = np.argsort(-reference)
            gap = float(reference[order[0]] - reference[order[1]]) / of.model.range
            leads = np.delete(own.max() - own, own.argmax())
            for epsilon in EPSILONS:
                one, five, whole = (plans[k, epsilon] for k in (1, 5, d))
                first = one.rankings(asked, 1, options.law_draws, rng)[:, 0]
                found = {way: five.rankings(asked, 5, options.draws, rng, way) for way in ("picks", "values")}
                exponents = np.minimum(one.rate * leads, 700.0)
                yield Cell(
                    of.data, of.kind, n, epsilon, gap,
                    first=float((first[: options.draws] == order[0]).mean()),
                    first_own=float((first == own.argmax()).mean()),
                    five=float(np.isin(found[five.way], order[:5]).mean()),
                    five_picks=float(np.isin(found["picks"], order[:5]).mean()),
                    five_values=float(np.isin(found["values"], order[:5]).mean()),
                    tau=tau(whole.rankings(asked, d, options.draws, rng), reference),
                    x=float(exponents.min()),
                    exact=right_first(exponents, one.how),
                    bound=float(np.exp(-exponents).sum()) / (2 if one.how.flip else 1),
                    loose=d * math.exp(-float(exponents.min())),
                    features=d,
                    way=(one.way, five.way, whole.way),
                )  # fmt: skip


def tau(found: np.ndarray, reference: np.ndarray) -> float:
    """Mean Kendall's tau of released orders with the reference: the share of pairs in the same order, from −1 to 1."""
    above, below = np.triu_indices(found.shape[1], 1)
    # Pairs in released order; those whose reference falls are right.
    falls = np.sign(reference[found[:, above]] - reference[found[:, below]])
    return float(falls.mean())


def cells(options, names: tuple[str, ...] = CLASSIFIED + REGRESSED) -> list[Cell]:
    found: list[Cell] = []
    for data in names:
        for kind in KINDS:
            path = options.cache / f"shapley_{data.replace(', ', '_')}_{kind}_cells_{options.draws}.pkl"
            if not path.exists():
                of = pair(data, kind, options.shared, options.cache)
                path.write_bytes(pickle.dumps(list(cells_of(of, options))))
                print(f"done: {data} {kind}", file=sys.stderr, flush=True)
            found += pickle.loads(path.read_bytes())
    return found


def mean_of(found: list[Cell], what: str, **where) -> float:
    some = [getattr(c, what) for c in found if all(getattr(c, k) == v for k, v in where.items())]
    return float(np.mean(some)) if some else math.nan


def useful(options) -> None:
    found = cells(options)
    _show_pairs(options)
    for n in SIZES:
        for what, title in (("first", "top-1"), ("five", "top-5 overlap"), ("tau", "Kendall's tau of all features")):
            print(f"\n{title}, n = {n:,}, all records")
            rows = []
            for data, kind in PAIRS:
                ours = [mean_of(found, what, data=data, kind=kind, n=n, epsilon=e) for e in EPSILONS]
                rows.append([data, kind, *(f"{v:.2f}" for v in ours), _published(data, kind, what)])
            table(["data", "model", *(f"ε = {e:g}" for e in EPSILONS), "published (n = 100)"], rows)
    print("\ntop-5 overlap over the 16 pairs, by how the ranking is found")
    sixteen = [c for c in found if c.data in CLASSIFIED]
    rows = [
        [f"{n:,}", words, *(f"{mean_of(sixteen, what, n=n, epsilon=e):.3f}" for e in EPSILONS)]
        for n in SIZES
        for what, words in (("five", "as the package decides"), ("five_picks", "picks"), ("five_values", "noisy values, sorted"))
    ]
    table(["n", "way", *(f"ε = {e:g}" for e in EPSILONS)], rows)
    _targets(found)


def _show_pairs(options) -> None:
    rows = []
    for data, kind in PAIRS:
        of = pair(data, kind, options.shared, options.cache)
        kept = vectors(of, options.cache)
        own, reference = np.array([v.mean(axis=0) for v in kept.vectors]), np.abs(kept.reference[1000])
        asked = [Asked.of(of.chosen(i), v) for i, v in enumerate(kept.vectors)]
        by_picks, by_values = np.array([a.sizes for a in asked]), np.array([np.abs(a.means) for a in asked])
        width, size = of.model.range, np.sort(reference, axis=1) / of.model.range
        count = kept.why.removeprefix("estimated: ").split(" ")[0]
        numbers = ["-"] * 4
        if not kept.exact:
            error = np.sqrt(np.mean((np.abs(own) - reference) ** 2)) / width
            moved = [np.abs(found - np.abs(own)).max() / width for found in (by_picks, by_values)]
            same = np.mean(by_picks.argmax(axis=1) == reference.argmax(axis=1))
            numbers = [f"{error:.1e}", *(f"{m:.1e}" for m in moved), f"{same:.2f}"]
        rows.append([
            data, kind, f"{of.features} ({len(kept.features)})", f"{of.score:.3f}", f"{of.model.range:.4g}",
            f"{np.median(size[:, -1] - size[:, -2]):.3f}", "exact" if kept.exact else f"{count} permutations", *numbers,
        ])  # fmt: skip
    clip = ["largest move by clipping for picks /R", "for values /R"]
    heads = ["data", "model", "d (used)", "held-out score", "R", "median lead / R", "estimator", "its RMSE/R", *clip]
    table([*heads, "noiseless first place right"], rows)


def _published(data: str, kind: str, what: str) -> str:
    one, ten, five, tau_one = TABLE_11[data.split(",")[0], kind]
    return {"first": f"ε = 1: {one:.2f}, 10: {ten:.2f}", "five": f"ε = 1: {five:.2f}", "tau": f"ε = 1: {tau_one:.2f}"}[what]


def _targets(found: list[Cell]) -> None:
    rows, checks = [], []
    for group, label, wanted in ((CLASSIFIED, "16 pairs", 12), (REGRESSED, "synthetic pairs as regressions (no target)", 6)):
        judged, wins, own_wins = [], 0, 0
        for data, kind in PAIRS:
            if data not in group:
                continue
            led = [c.first for c in found if (c.data, c.kind, c.n, c.epsilon) == (data, kind, 1000, 1.0) and c.gap >= GAP]
            ours = mean_of(found, "first", data=data, kind=kind, n=100, epsilon=10.0)
            own = mean_of(found, "first_own", data=data, kind=kind, n=100, epsilon=10.0)
            published = TABLE_11[data.split(",")[0], kind][1]
            judged, wins, own_wins = judged + led, wins + (ours >= published), own_wins + (own >= published)
            there = [f"{np.mean(led):.3f}", f"{min(led):.2f}"] if led else ["-", "-"]
            mark = "" if ours >= published else " (below)"
            rows.append([data, kind, f"{len(led)}", *there, f"{ours:.3f}{mark}", f"{own:.3f}", f"{published:.2f}"])
        mean, total = float(np.mean(judged)), len(group) * len(KINDS)
        lead = f"{label}: n = 1,000, ε = 1: top-1 at least 0.9 over records that lead by {GAP:g}·R"
        checks.append((lead, mean >= 0.9, f"{mean:.4f} over {len(judged)} records"))
        beside = f"{label}: n = 100, ε = 10: at least the published uncertified figure on {wanted}"
        checks.append((beside, wins >= wanted, f"{wins} of {total}; {own_wins} against the own noiseless order"))
    print(f"\nRecords that lead by {GAP:g}·R at n = 1,000, ε = 1 (left); all records at n = 100, ε = 10 (right)")
    left = ["such records", "top-1 there", "worst record"]
    heads = ["data", "model", *left, "top-1, n = 100, ε = 10", "against the own order", "published"]
    table(heads, rows)
    verdicts(checks)


def law(options) -> None:
    found = cells(options)
    edges = [0, 0.1, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, math.inf]
    print("\nBy the lead alone: x = ε·g·n/span")
    _by(found, [c.x for c in found], edges)
    print("\nBy all leads: s = Σ_j exp(−ε·lead_j·n/span), between (1 − exp(−s))/s (many rivals) and 1 − s/2 (a single one)")
    _by(found, [2 * c.bound for c in found], [0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, math.inf], band=True)
    print(f"\n{len(found):,} cells (data, model, n, ε, record) of {options.law_draws:,} draws; leads by the scores themselves.")
    limits = {
        "d·exp(−ε·g·n/span): Corollary 15, our span for its 2Δ∞": [c.loose for c in found],
        "½·Σ_j exp(−ε·lead_j·n/span)": [c.bound for c in found],
        "the exact law (0.13 % beyond by chance)": [1 - c.exact for c in found],
    }
    rows, counts = [], []
    for words, allowed in limits.items():
        said, excess = _excess(found, np.minimum(allowed, 1.0), options.law_draws)
        counts.append((int((excess > 3).sum()), said))
        rows.append([words, f"{said:,}", f"{counts[-1][0]}", f"{excess.max():.2f}"])
    table(["bound on P(first place wrong)", "cells where below 1", "beyond 3 standard errors", "largest excess"], rows)
    distance = min(min(c.bound, 1.0) - (1 - c.exact) for c in found)
    print(f"\nWithout draws: the smallest distance of the second bound from the exact chance of an error is {distance:.1e}.")
    _sampler_check()
    told = "the bound of Corollary 15 with our span is never exceeded beyond 3 standard errors"
    verdicts([(told, counts[0][0] == 0, f"{counts[0][0]} of {counts[0][1]:,}")])
    _plot(found, options.plot)


def _by(found: list[Cell], at: list[float], edges: list[float], band: bool = False) -> None:
    """Accuracy of cells by what should decide it."""
    rows = []
    for lo, hi in zip(edges[:-1], edges[1:]):
        some = [c for c, x in zip(found, at) if lo <= x < hi]
        if not some:
            continue
        right = np.array([c.first_own for c in some])
        wide = [np.mean([c.first_own for c in some if (c.features > 23) == many] or [math.nan]) for many in (False, True)]
        numbers = [right.mean(), right.std(), right.min(), right.max(), *wide, np.mean([c.exact for c in some])]
        if band:
            s = np.array([2 * c.bound for c in some])
            numbers += [np.mean(-np.expm1(-s) / s) if s.all() else 1.0, np.maximum(1 - s / 2, 0).mean()]
        else:
            numbers.append(np.mean([1 - math.exp(-c.x) / 2 for c in some]))
        rows.append([f"{lo:g} to {hi:g}", f"{len(some)}", *(f"{v:.3f}" for v in numbers)])
    last = ["many rivals", "a single rival"] if band else ["a single rival"]
    table(["s" if band else "x", "cells", "top-1", "sd", "smallest", "largest", "d ≤ 23", "d > 23", "exact law", *last], rows)


def _excess(found: list[Cell], allowed: np.ndarray, draws: int) -> tuple[int, np.ndarray]:
    """Cells where a bound says something, and by how many standard errors each is above it (one draw counts as one at least)."""
    error = np.sqrt(np.maximum(allowed * (1 - allowed), 1 / draws) / draws)
    return int((allowed < 1).sum()), (np.array([1 - c.first_own for c in found]) - allowed) / error


def _sampler_check(draws: int = 10_000) -> None:
    """The draws used here beside the package's own sampler."""
    rng, worst = np.random.default_rng(3), 0.0
    for d, span in ((5, 10**9), (20, 10**9), (60, 10**8)):
        scores = [int(v) for v in rng.integers(0, 3 * 10**9, d)]
        for k in (1, 3):
            how = calibrate_choice(span, span // 2, Spend("epsilon", exact("epsilon", k)), k)
            theirs = np.array([choose(scores, how) for _ in range(draws)])
            ours = picks(np.array(scores, dtype=float), how, 200_000, rng)
            for place in range(k):
                p, q = (np.bincount(a[:, place], minlength=d) / len(a) for a in (theirs, ours))
                some = q > 0.005
                worst = max(worst, float(np.max(np.abs(p - q)[some] / np.sqrt(q * (1 - q) / draws)[some])))
    print(f"\nThese draws beside the package's own sampler: largest difference of a frequency {worst:.1f} standard errors.")


def _plot(found: list[Cell], path: Path | None) -> None:
    if path is None:
        return
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    for data in CLASSIFIED + REGRESSED:
        some = [c for c in found if c.data == data]
        accuracy = [c.first_own for c in some]
        left.plot([max(c.x, 1e-3) for c in some], accuracy, ".", ms=2.5, alpha=0.5, label=data)
        right.plot([max(2 * c.bound, 1e-4) for c in some], accuracy, ".", ms=2.5, alpha=0.5)
    x, s = np.geomspace(1e-3, 1e3, 400), np.geomspace(1e-4, 200, 400)
    left.plot(x, 1 - np.exp(-x) / 2, "k-", lw=1, label="a single rival: 1 − ½·exp(−x)")
    for d in (20, 105):
        left.plot(x, np.clip(1 - d * np.exp(-x), 0, 1), "--", lw=1, label=f"bound 1 − d·exp(−x), d = {d}")
    right.plot(s, np.clip(1 - s / 2, 0, 1), "k-", lw=1, label="a single rival, and the bound: 1 − s/2")
    right.plot(s, -np.expm1(-s) / s, "k--", lw=1, label="many rivals: (1 − exp(−s))/s")
    left.set(xscale="log", xlabel="x = ε · g · n / span", ylabel="first place right", xlim=(1e-3, 1e3), ylim=(0, 1.02))
    right.set(xscale="log", xlabel="s = Σ exp(−ε · lead · n / span)", xlim=(200, 1e-4))
    left.legend(fontsize=7, markerscale=3)
    right.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
