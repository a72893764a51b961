"""What an attacker learns about the background from released Shapley values: published mechanisms and ours.

    python benchmarks/shapley_attack.py                       forest, boosting, logistic; 2,000 games each
    python benchmarks/shapley_attack.py --model forest --games 1000 --out attack.md

The setting of "Differentially Private Ranking Release for Kernel SHAP", section 8: 20 standard normal features clipped to radius
3, 100 background records, 400 coalitions, δ = 1e-5. Four games:

    planted    section 8.4: every record leans by 0.6·s_j, and s is guessed from signs of the values (published), or by
               lines fitted to secrets the attacker planted himself (informed). s belongs to the population, not to a person: no
               mechanism that is useful hides it, and privacy promises nothing about it.
    person     was this record in the background, or that one? The attacker knows the other 99 (likelihood ratio), or only
               the person and the population (tracing). Here ε bounds the accuracy by e^ε/(1 + e^ε).
    visible    the same question about the two people whose vectors lie furthest apart.
    worst      the same question about a stump and 99 records alike, the one other being unlike them.

Values by the mean background come from the regression with equal weights, whose noise is four times smaller than with the weights
as printed. The noise of the bootstrap is found once per model, with K_max = 0 and 400 draws; the largest change it saw is also
the sensitivity of the published ranking. The heuristic is the one of appendix E for trees, and equation 2 for the logistic model.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LogisticRegression

import pellucid as pel
from pellucid.baselines import shapley as published
from pellucid.explainers.shapley.bound import ShapleyVectors
from pellucid.explainers.shapley.estimator import Chosen, estimator_for
from pellucid.explainers.shapley.scores import ShapleyScore
from pellucid.mechanisms import Mechanism, Spend, add_noise, calibrate, rho_of_epsilon_delta
from pellucid.public.rows import Rows

D, N, COALITIONS, CLIP, DELTA, LEAN = 20, 100, 400, 3.0, 1e-5, 0.6
EPSILONS = (0.1, 1.0, 10.0)
NAMES = [f"x{j}" for j in range(D)]
SCHEMA = pel.Schema({name: pel.Number(-CLIP, CLIP) for name in NAMES})
PEOPLE, ASKED = 3000, 5


def gaussians(rng: np.random.Generator, n: int) -> np.ndarray:
    z = rng.standard_normal((n, D))
    return z * np.minimum(1, CLIP / np.linalg.norm(z, axis=1))[:, None]


def leaning(rng: np.random.Generator, secrets: np.ndarray) -> np.ndarray:
    """secrets × records × features."""
    return np.clip(rng.standard_normal((len(secrets), N, D)) + LEAN * secrets[:, None, :], -CLIP, CLIP)


@dataclass(frozen=True)
class Case:
    """A fitted model with everything public about it."""

    f: Callable[[np.ndarray], np.ndarray]
    handle: pel.Model
    largest: float
    slope: float
    """What stands for the slope in the sensitivities that shrink with the number of records."""
    half: float
    """M_LS of the bootstrap as a part of the certified sensitivity, where there is no true slope; else 0."""


def case(kind: str, rng: np.random.Generator) -> Case:
    table = gaussians(rng, 5000)
    weights = np.concatenate([[2.0, 1.4, 1.0, 0.7, 0.5], rng.normal(0, 0.1, D - 5)])
    target = table @ weights + 0.2 * table[:, 0] * table[:, 1]
    if kind == "logistic":
        model = LogisticRegression().fit(table, target > 0)
        w, b = model.coef_[0], model.intercept_[0]
        handle = pel.Model(model, output=(0.0, 1.0), features=NAMES, trained_on="other data")
        return Case(lambda r: 1 / (1 + np.exp(-(r @ w + b))), handle, 1.0, float(np.linalg.norm(w)) / 4, 0.0)
    made = (
        RandomForestRegressor(100, max_depth=4, random_state=0)
        if kind == "forest"
        else GradientBoostingRegressor(n_estimators=100, max_depth=3, learning_rate=0.1, random_state=0)
    ).fit(table, target)
    found = pel.sensitivity.output_range(made, SCHEMA, seconds=20, tolerance=1e-2)
    handle = pel.Model(made, output=found, features=NAMES, trained_on="other data")
    largest = published.largest_output(made)
    return Case(made.predict, handle, largest, largest, 0.5)


def vectors(chosen: Chosen, people: np.ndarray) -> np.ndarray:
    """Per-person Shapley vectors, features the model does not use at 0."""
    out = np.zeros((len(people), D))
    kept = [NAMES.index(name) for name in chosen.features]
    for start in range(0, len(people), 20_000):
        rows = people[start : start + 20_000]
        out[start : start + 20_000, kept] = chosen(Rows(SCHEMA, {name: rows[:, j] for j, name in enumerate(NAMES)}))
    return out


@dataclass(frozen=True)
class Released:
    """One mechanism on given totals (ours) or exact values (published), with what an attacker needs to know about it."""

    name: str
    draw: Callable[[np.ndarray], np.ndarray]
    """From an exact vector to a released one, in the same units; a ranking gives the position of the winner."""
    order: float = 2
    """The norm in which the noise falls off: the likelier origin is the nearer one."""
    std: float = 0.0
    law: Callable[[np.ndarray], np.ndarray] | None = None
    """For rankings: the probability of every winner."""


def ours(bound: ShapleyVectors, ranked: ShapleyVectors, epsilon: float) -> Iterator[Released]:
    """On totals of grid units: what a session releases when the number of records is public."""
    norms, size = bound.replaced(), bound.length
    pure = calibrate(norms, size, Spend("epsilon", Fraction(str(epsilon))))
    smooth = calibrate(norms, size, Spend("rho", rho_of_epsilon_delta(epsilon, DELTA)))
    for name, mechanism in (("ours: pure ε", pure), ("ours: Gaussian", smooth)):
        order = {"laplace": 1, "k-norm": np.inf, "gaussian": 2}[mechanism.kind]
        yield Released(f"{name} ({mechanism.kind})" if mechanism is pure else name, noisy(mechanism), order, mechanism.law.std)
    score = ShapleyScore(ranked, N)
    how = score.calibrate("replace", ranked.limits.linf, Spend("epsilon", Fraction(str(epsilon))), 1)
    rate = float(how.rate)

    def pick(totals: np.ndarray) -> np.ndarray:
        return np.array(score.pick([int(t) for t in totals], how))

    yield Released(
        "ours: ranking, first place", pick, law=lambda totals: flip_law(rate * np.array(score.of([int(t) for t in totals])))
    )


def noisy(mechanism: Mechanism) -> Callable[[np.ndarray], np.ndarray]:
    return lambda totals: np.array(add_noise([int(t) for t in totals], mechanism), dtype=float)


NODES, WEIGHTS = np.polynomial.legendre.leggauss(D)


def flip_law(scores: np.ndarray) -> np.ndarray:
    """Permute-and-flip is a maximum with exponential noise: P(i) = w_i·∫ Π_(j≠i) (1 − v·w_j) dv over [0, 1], w = exp(scores)."""
    w = np.exp(scores - scores.max())
    # A polynomial of degree D − 1 at most: the nodes give it exactly.
    factors = 1 - (NODES[:, None] + 1) / 2 * w
    others = np.stack([np.delete(factors, i, axis=1).prod(axis=1) for i in range(len(w))])
    return w * (others @ WEIGHTS) / 2


def theirs(
    design: published.Regression, largest: float, slope: float, boot: published.Bootstrap, epsilon: float
) -> Iterator[Released]:
    rng = np.random.default_rng()
    certified = published.certified_sensitivity(design, largest)
    heuristic = published.lipschitz_sensitivity(design, slope, CLIP, N)
    sigmas = {
        "published: Gaussian, certified": published.analytic_sigma(certified, epsilon, DELTA),
        "published: Gaussian, heuristic": published.analytic_sigma(heuristic, epsilon, DELTA),
        "published: bootstrap": published.classical_sigma(boot.envelope, epsilon, DELTA),
    }
    for name, sigma in sigmas.items():
        yield Released(name, lambda v, s=sigma: published.gaussian_values(v, s, rng), std=sigma)  # type: ignore[misc]
    rate = epsilon / (2 * boot.observed) if boot.observed > 1e-12 else 1e12

    def law(values: np.ndarray) -> np.ndarray:
        raised = np.exp(rate * (np.abs(values) - np.abs(values).max()))
        return raised / raised.sum()

    yield Released("published: ranking, observed Δ", lambda v: np.array([rng.choice(len(v), p=law(v))]), law=law)


NOTHING = Released("no privacy", lambda v: v)


def told_apart(mechanism: Released, one: np.ndarray, other: np.ndarray, released: np.ndarray, rng: np.random.Generator) -> bool:
    """Does the attacker say `one`? The more likely of two known origins; a coin where both are as likely."""
    if mechanism.law is not None:
        place = int(released[0])
        a, b = mechanism.law(one)[place], mechanism.law(other)[place]
    else:
        b, a = (float(np.linalg.norm(released - v, mechanism.order)) for v in (one, other))
    return bool(a > b if a != b else rng.random() < 0.5)


def accuracy(right: np.ndarray) -> tuple[float, float]:
    right = np.asarray(right, dtype=float)
    per_game = right.reshape(len(right), -1).mean(axis=1)
    return float(per_game.mean()), float(per_game.std() / math.sqrt(len(per_game)))


@dataclass(frozen=True)
class Line:
    game: str
    model: str
    mechanism: str
    epsilon: float | None
    attackers: tuple[tuple[str, tuple[float, float]], ...]
    noise: float | None = None


class Setting:
    """One model, five records asked about, people with known vectors."""

    def __init__(self, kind: str, games: int, seed: int):
        self.kind, self.games, self.rng = kind, games, np.random.default_rng(seed)
        self.case = case(kind, self.rng)
        self.design = published.regression(D, COALITIONS, self.rng, weighted=False)
        self.people = gaussians(self.rng, PEOPLE)
        self.asked = gaussians(self.rng, ASKED)
        self.chosen = [estimator_for(self.case.handle, SCHEMA, dict(zip(NAMES, map(float, x)))) for x in self.asked]
        background = self.people[:N]
        small = published.lipschitz_sensitivity(self.design, self.case.slope, CLIP, N)
        certified = published.certified_sensitivity(self.design, self.case.largest)
        self.boot = published.bootstrap_scale(
            self.case.f, self.asked[0], background, self.design, 1.0, self.rng,
            largest_change=self.case.half * certified if self.case.half else small, draws=400,
        )  # fmt: skip

    def kept(self, q: int) -> list[int]:
        return [NAMES.index(name) for name in self.chosen[q].features]

    def bounds(self, q: int) -> tuple[ShapleyVectors, ShapleyVectors]:
        return self.chosen[q].bound(), self.chosen[q].bound(ranked=True)

    @cached_property
    def values(self) -> list[np.ndarray]:
        return [vectors(chosen, self.people) for chosen in self.chosen]

    def pair(self, q: int) -> list[int]:
        """The two people furthest apart along the main direction of the vectors."""
        centred = self.values[q] - self.values[q].mean(axis=0)
        along = centred @ np.linalg.svd(centred, full_matrices=False)[2][0]
        return [int(along.argmax()), int(along.argmin())]

    def person(self, visible: bool) -> Iterator[Line]:
        """Games in which one record is this person's or another's: any two people, or the most visible two."""
        rng, games = self.rng, self.games
        coins = rng.random(games) < 0.5
        query = np.arange(games) % ASKED
        members = np.array([rng.choice(PEOPLE, size=N + 1, replace=False) for _ in range(games)])
        if visible:
            pairs = [self.pair(q) for q in range(ASKED)]
            for row, q in zip(members, query):
                two = pairs[q]
                rest = [i for i in row if i not in two][: N - 1]
                row[:] = two + rest
        values = self.values
        grids = [self.bounds(q)[0].integers(values[q][:, self.kept(q)]) for q in range(ASKED)]
        ranked = [self.bounds(q)[1].integers(values[q][:, self.kept(q)]) for q in range(ASKED)]

        def average(tables: list[np.ndarray]) -> list[list[np.ndarray]]:
            """Per game: totals with the person, with the other, and what the person adds to the usual total."""
            found = []
            for g in range(games):
                table = tables[query[g]]
                rest = table[members[g, 2:]].sum(axis=0)
                found.append([rest + table[members[g, 0]], rest + table[members[g, 1]], table[members[g, 0]]])
            return found

        totals, scores = average(grids), average(ranked)
        means = [np.stack([self.people[np.r_[m[who], m[2:]]].mean(axis=0) for m in members]) for who in (0, 1)]
        at = np.empty((2, games, D))
        usual, slopes, covers = [], [], []
        for q in range(ASKED):
            mine = query == q
            for who in (0, 1):
                at[who, mine] = published.values_at_means(self.case.f, self.asked[q], means[who][mine], self.design)
            # The attacker's own simulation: how values follow the mean of a background, by least squares.
            drawn = np.stack([self.people[rng.choice(PEOPLE, N, replace=False)].mean(axis=0) for _ in range(400)])
            got = published.values_at_means(self.case.f, self.asked[q], drawn, self.design)
            usual.append(got.mean(axis=0))
            slopes.append(np.linalg.lstsq(drawn - drawn.mean(axis=0), got - usual[q], rcond=None)[0])
            covers.append(np.cov(got.T))

        def by_mean(g: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
            q = query[g]
            lean = (self.people[members[g, 0]] - self.people.mean(axis=0)) @ slopes[q] / N
            return at[0, g], at[1, g], usual[q], lean, covers[q]

        typical = [t.mean(axis=0) for t in grids]
        spread = [np.cov(t.T.astype(float)) * N for t in grids]

        def by_average(g: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
            q = query[g]
            one, other, own = totals[g]
            return one, other, N * typical[q], own - typical[q], spread[q]

        def play(mechanisms: list[Released], game: Callable[[int], tuple[np.ndarray, ...]], epsilon: float | None) -> Line:
            exact, tracing = [], []
            for g in range(games):
                mechanism = mechanisms[query[g] % len(mechanisms)]
                one, other, middle, lean, cover = game(g)
                if mechanism.law is not None and mechanism.name.startswith("ours"):
                    one, other = scores[g][:2]
                out = mechanism.draw(one if coins[g] else other)
                exact.append(told_apart(mechanism, one, other, out, rng) == coins[g])
                if mechanism.law is None and not visible:
                    direction = np.linalg.lstsq(cover + mechanism.std**2 * np.eye(len(lean)), lean, rcond=1e-9)[0]
                    tracing.append(((out - middle - lean / 2) @ direction > 0) == coins[g])
            found = [("knows the others", accuracy(np.array(exact)))]
            if tracing:
                found.append(("knows the population", accuracy(np.array(tracing))))
            noise = mechanisms[0].std * (self.bounds(0)[0].unit / N if mechanisms[0].name.startswith("ours") else 1)
            return Line("visible" if visible else "person", self.kind, mechanisms[0].name, epsilon, tuple(found), noise or None)

        yield play([Released("no privacy, mean background", NOTHING.draw)], by_mean, None)
        yield play([Released("no privacy, average over records", NOTHING.draw)], by_average, None)
        if not visible:
            yield self.many(values, members, coins)
        for epsilon in EPSILONS:
            for mechanism in theirs(self.design, self.case.largest, self.case.slope, self.boot, epsilon):
                yield play([mechanism], by_mean, epsilon)
            per_query = [list(ours(*self.bounds(q), epsilon)) for q in range(ASKED)]
            for i in range(len(per_query[0])):
                yield play([row[i] for row in per_query], by_average, epsilon)

    def many(self, values: list[np.ndarray], members: np.ndarray, coins: np.ndarray) -> Line:
        """All five explanations of the same background at once, without privacy."""
        table = np.hstack(values)
        middle, cover = table.mean(axis=0), np.cov(table.T) / N
        inverse = np.linalg.pinv(cover, rcond=1e-9, hermitian=True)
        right = []
        for m, coin in zip(members, coins):
            out = table[np.r_[m[0] if coin else m[1], m[2:]]].mean(axis=0)
            lean = (table[m[0]] - middle) / N
            right.append(((out - middle - lean / 2) @ inverse @ lean > 0) == coin)
        found = (("knows the population", accuracy(np.array(right))),)
        return Line("person", self.kind, f"no privacy, {ASKED} explanations", None, found)

    def planted(self) -> Iterator[Line]:
        """Section 8.4."""
        rng, trials = self.rng, max(8, self.games // ASKED) * ASKED
        query = np.arange(trials) % ASKED
        secrets = rng.choice([-1, 1], size=(trials, D))
        by_mean, by_average = np.empty((trials, D)), np.empty((trials, D))
        base_mean, base_average = np.empty((ASKED, D)), np.empty((ASKED, D))
        totals: list[np.ndarray] = [np.empty(0)] * trials
        for q in range(ASKED):
            mine = np.flatnonzero(query == q)
            records = leaning(rng, secrets[mine])
            by_mean[mine] = published.values_at_means(self.case.f, self.asked[q], records.mean(axis=1), self.design)
            own = vectors(self.chosen[q], records.reshape(-1, D))
            by_average[mine] = own.reshape(-1, N, D).mean(axis=1)
            grid = self.bounds(q)[0].integers(own[:, self.kept(q)]).reshape(len(mine), N, -1).sum(axis=1)
            for i, row in zip(mine, grid):
                totals[i] = row
            base_mean[q] = published.values_at_means(self.case.f, self.asked[q], np.zeros((1, D)), self.design)[0]
            base_average[q] = vectors(self.chosen[q], gaussians(rng, 2000)).mean(axis=0)

        # What values say about the secret is public: the attacker plants secrets of his own, and fits a line for each sign.
        half = trials // 2
        test = np.arange(half, trials)

        def guesses(released: np.ndarray, base: np.ndarray, clean: np.ndarray, noise: float) -> Iterator[np.ndarray]:
            centred = released - base[query[test]]
            yield np.where(centred == 0, rng.choice([-1, 1], size=centred.shape), np.sign(centred)) == secrets[test]
            right = np.empty(centred.shape, dtype=bool)
            for q in range(ASKED):
                own = np.flatnonzero(query[:half] == q)
                known = clean[own] - base[q]
                ridge = len(own) * max(noise, 1e-6) ** 2 * np.eye(D)
                lines = np.linalg.solve(known.T @ known + ridge, known.T @ secrets[own])
                mine = query[test] == q
                right[mine] = np.sign(centred[mine] @ lines) == secrets[test][mine]
            yield right

        def line(
            name: str, released: np.ndarray, base: np.ndarray, clean: np.ndarray, epsilon: float | None, noise: float = 0.0
        ) -> Line:
            literal, informed = guesses(released, base, clean, noise)
            found = (("published", accuracy(literal)), ("informed", accuracy(informed)))
            return Line("planted", self.kind, name, epsilon, found, noise or None)

        yield line("no privacy, mean background", by_mean[test], base_mean, by_mean, None)
        yield line("no privacy, average over records", by_average[test], base_average, by_average, None)
        for epsilon in EPSILONS:
            for mechanism in theirs(self.design, self.case.largest, self.case.slope, self.boot, epsilon):
                if mechanism.law is None:
                    drawn = np.stack([mechanism.draw(by_mean[i]) for i in test])
                    yield line(mechanism.name, drawn, base_mean, by_mean, epsilon, mechanism.std)
            per_query = [[m for m in ours(*self.bounds(q), epsilon) if m.law is None] for q in range(ASKED)]
            for place, mechanism in enumerate(per_query[0]):
                drawn = np.zeros((len(test), D))
                for row, i in enumerate(test):
                    q = query[i]
                    drawn[row, self.kept(q)] = self.bounds(q)[0].mean(per_query[q][place].draw(totals[i]), N)
                unit = self.bounds(0)[0].unit / N
                yield line(mechanism.name, drawn, base_average, by_average, epsilon, mechanism.std * unit)


def worst(games: int) -> Iterator[Line]:
    """A stump; 100 records alike, or 99 and one unlike them that carries the mean over the split."""
    rng = np.random.default_rng(0)
    alike = np.tile([-0.02, 0.5], (N, 1))
    other = alike.copy()
    other[0] = [CLIP, 0.5]
    x = np.array([1.0, 0.5])

    def stump(rows: np.ndarray) -> np.ndarray:
        return (rows[:, 0] > 0).astype(float)

    design = published.regression(2, COALITIONS, rng, weighted=False)
    boot = published.bootstrap_scale(
        stump, x, alike, design, 1.0, rng, largest_change=published.certified_sensitivity(design, 1.0) / 2, draws=400
    )
    one, two = (published.mean_background_values(stump, x, data, design) for data in (alike, other))
    bounds = ShapleyVectors(2, 0.0, 1.0, 1.0), ShapleyVectors(2, 0.0, 1.0, 1.0, ranked=True)
    grids = [[b.integers(published.values_at_means(stump, x, data)).sum(axis=0) for data in (alike, other)] for b in bounds]
    for epsilon in (None, *EPSILONS):
        for mechanism in (*theirs(design, 1.0, 1.0, boot, epsilon), *ours(*bounds, epsilon)) if epsilon else (NOTHING,):
            mine = mechanism.name.startswith("ours")
            a, b = grids[mechanism.law is not None] if mine else (one, two)
            coins = rng.random(games) < 0.5
            right = [told_apart(mechanism, a, b, mechanism.draw(a if coin else b), rng) == coin for coin in coins]
            noise = mechanism.std * (bounds[0].unit / N if mine else 1) or None
            yield Line("worst", "stump", mechanism.name, epsilon, (("knows the others", accuracy(np.array(right))),), noise)


def tables(lines: list[Line]) -> Iterator[str]:
    titles = {
        "person": "Which of two people is in the background? (accuracy of a balanced guess)",
        "visible": f"Which of the two most visible of {PEOPLE} people?",
        "worst": "Which of two people, where it matters most: a stump, 99 records alike",
        "planted": "A secret planted in all records (section 8.4): share of its 20 signs guessed",
    }
    for game, title in titles.items():
        mine = [line for line in lines if line.game == game]
        for attacker in dict.fromkeys(name for line in mine for name, _ in line.attackers):
            kinds = list(dict.fromkeys(line.model for line in mine))
            yield f"\n### {title}; attacker: {attacker}\n"
            yield "| mechanism | ε | " + " | ".join(kinds) + (" | bound |" if game != "planted" else " |")
            yield "|---|---|" + "---|" * (len(kinds) + (game != "planted"))
            for name, epsilon in dict.fromkeys((line.mechanism, line.epsilon) for line in mine):
                cells = []
                for kind in kinds:
                    hits = [x for x in mine if (x.mechanism, x.epsilon, x.model) == (name, epsilon, kind)]
                    got = [value for x in hits for who, value in x.attackers if who == attacker]
                    noise = f" (σ {hits[0].noise:.3g})" if hits and hits[0].noise else ""
                    cells.append(f"{got[0][0]:.3f} ± {got[0][1]:.3f}{noise}" if got else "")
                if any(cells):
                    limit = [f"{1 / (1 + math.exp(-epsilon)):.3f}" if epsilon else ""] if game != "planted" else []
                    yield "| " + " | ".join([name, f"{epsilon:g}" if epsilon else "", *cells, *limit]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--model", choices=("forest", "boosting", "logistic"), nargs="*", default=["forest", "boosting", "logistic"]
    )
    parser.add_argument("--games", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=20260415)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    lines = list(worst(given.games))
    for kind in given.model:
        started = time.perf_counter()
        setting = Setting(kind, given.games, given.seed)
        print(
            f"{kind}: output {setting.case.handle.output}, F_max {setting.case.largest:.3g}, "
            f"√K·‖R‖ {setting.design.stretch:.3g}, "
            f"bootstrap: seen {setting.boot.observed:.3g}, S {setting.boot.envelope:.3g} ({time.perf_counter() - started:.0f} s)",
            flush=True,
        )
        lines += setting.person(visible=False)
        lines += setting.person(visible=True)
        lines += setting.planted()
        print(f"{kind}: {time.perf_counter() - started:.0f} s", flush=True)
    text = "\n".join(tables(lines))
    print(text)
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
