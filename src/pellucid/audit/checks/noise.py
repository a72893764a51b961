"""Noise as it is drawn, and as it leaves the door with whole releases."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...explainers import ClusterHistograms
from ...explainers.clusters.cluster_histograms import HalfSplit
from ...mechanisms import Mechanism, add_noise, source
from ...public.clustering import Clustering
from ...query import Joint, Sum
from ..cases import TWO_NUMBERS, Case, cases
from ..draws import Many
from ..neighbours import Neighbours, Record
from ..search import World
from ..transcript import Enough, Kept, Listening, Said
from .finding import Finding

DRAWS = 4000
WHOLE = 1000
"""Whole releases whose noise is looked at."""
MANY_NUMBERS = source.MANY
"""From so many on they are drawn in bulk."""
MANY = 40_000
"""Draws whose size is looked at."""
SIGMAS = 5.0
"""A single comparison is wrong about good noise once in a million times."""
MORE = SIGMAS + 1
"""Where hundreds or thousands are made, one is once in a hundred thousand."""
KINDS = {"laplace": ("L1", "discrete-laplace"), "k-norm": ("L∞", "k-norm-lattice"), "gaussian": ("L2", "discrete-gaussian")}


def _mechanism(kind: str, size: int, scale: int = 10**6) -> Mechanism:
    norm, claim = KINDS[kind]
    return Mechanism(kind, size, Fraction(scale), norm, float(scale), Fraction(1), claim)  # type: ignore[arg-type]


def fresh_noise() -> Finding:
    """Draws that follow one another have nothing to do with each other, and none is used twice."""
    worst, repeated = 0.0, 0
    for kind in KINDS:
        drawn = [tuple(add_noise([0, 0, 0], _mechanism(kind, 3))) for _ in range(DRAWS)]
        repeated += DRAWS - len(set(drawn))
        noise = _signs(np.array(drawn, dtype=float))
        worst = max(worst, float(np.abs((noise[1:] * noise[:-1]).mean(axis=0)).max()))
    limit = SIGMAS / DRAWS**0.5
    text = f"{repeated} of {3 * DRAWS} draws came twice; largest correlation of draws in a row {worst:.3f} (limit {limit:.3f})"
    return Finding("fresh noise at every call", repeated == 0 and worst <= limit, text)


def own_noise() -> Finding:
    """Every number has noise of its own: signs of two coordinates agree half of the time. (K-norm noise has one common size.)"""
    worst = 0.0
    for kind in KINDS:
        noise = _signs(np.array([add_noise([0] * 4, _mechanism(kind, 4)) for _ in range(DRAWS)], dtype=float))
        products = noise.T @ noise / DRAWS
        worst = max(worst, float(np.abs(products - np.diag(np.diag(products))).max()))
    limit = SIGMAS / DRAWS**0.5
    text = f"largest correlation of the signs of two coordinates {worst:.3f} (limit {limit:.3f})"
    return Finding("own noise for every number", worst <= limit, text)


def _signs(noise: np.ndarray) -> np.ndarray:
    return np.where(noise > 0, 1.0, -1.0)


def low_bits() -> Finding:
    """The last bits of wide noise are those of a fair coin: floats rounded to a grid of their own give totals away."""
    worst = 0.0
    for kind in KINDS:
        drawn = np.array([add_noise([0], _mechanism(kind, 1, 10**9))[0] for _ in range(DRAWS)])
        for bit in range(8):
            worst = max(worst, abs(float(((drawn >> bit) & 1).mean()) - 0.5))
    limit = SIGMAS / 2 / DRAWS**0.5
    return Finding(
        "low bits of noise", worst <= limit, f"a low bit is one with probability 1/2 ± {worst:.3f} (limit {limit:.3f})"
    )


def bulk_noise() -> Finding:
    """Noise of many numbers at once, which is made another way than that of a few: as wide as claimed, fresh, own to each number,
    and its last bits are fair coins that have nothing to do with each other."""
    wrong = []
    for kind in KINDS:
        how = _mechanism(kind, MANY_NUMBERS)
        drawn = np.array([add_noise([0] * MANY_NUMBERS, how) for _ in range(WHOLE)])
        limit, signs = MORE / WHOLE**0.5, _signs(drawn.astype(float))
        within, between = signs.T @ signs / WHOLE, signs[1:].T @ signs[:-1] / WHOLE
        if max(np.abs(within - np.diag(np.diag(within))).max(), np.abs(between).max()) > limit:
            wrong.append(f"{kind}: numbers share noise")
        # Those of K-norm noise have a common size, and vary the less for themselves.
        size, few = float(np.sqrt((drawn.astype(float) ** 2).mean()) / how.law.std), 1.1 * SIGMAS / drawn.size**0.5
        if size < 1 - few:
            wrong.append(f"{kind}: noise of {size:.2f} times the size that was claimed")
        bits = np.array([(drawn.ravel() >> bit) & 1 for bit in range(8)]) * 2.0 - 1
        if np.abs(bits @ bits.T / drawn.size - np.eye(8)).max() > MORE / drawn.size**0.5:
            wrong.append(f"{kind}: low bits follow one another")
        if np.abs(bits.mean(axis=1)).max() > MORE / drawn.size**0.5:
            wrong.append(f"{kind}: low bits are not those of a fair coin")
    return Finding("noise of many numbers", not wrong, "; ".join(wrong) or f"{MANY_NUMBERS} numbers at once, all as claimed")


def released_noise() -> Finding:
    """The noise of whole releases, as it leaves the door: fresh each time, own to each number, as wide as was claimed.

    Of a vector, a joint draw, histograms side by side, and a ranking from a tie.
    """
    known = {case.name: case for case in cases()}
    wrong = []
    for name in NOISY:
        case = known.get(name) or _side_by_side()
        drawn, claimed = _noise_of(case)
        wrong += [f"{case.name}: {what}" for what in _wrong_with(drawn, claimed)]
    for name in SIZED:
        size = _size(known[name])
        # With a fourth moment of six a size is known to 1.1 / √draws. Upwards it varies more, and does no harm.
        if size < 1 - 1.1 * SIGMAS / MANY**0.5:
            wrong.append(f"{name}: its noise has {size:.2f} times the size that was claimed")
    ranking = known[RANKING]
    assert ranking.pair is not None
    picks = _signs(np.array([said[0].answer[0] for said in _releases(ranking, ranking.pair.first, WHOLE)], dtype=float))
    tie, again = abs(float(picks.mean())), abs(float((picks[1:] * picks[:-1]).mean()))
    if max(tie, again) > SIGMAS / len(picks) ** 0.5:
        wrong.append(f"{ranking.name}: picks from a tie are not fair and fresh")
    return Finding("noise of whole releases", not wrong, "; ".join(wrong) or f"{len(NOISY) + 1} releases, all as claimed")


NOISY = (
    "partial dependence, replace",
    "permutation importance, replace",
    "distribution, add-remove",
    "distribution, two columns, zCDP",
    "histograms of two clusters",
)
SIZED = ("distribution, replace", "distribution, two columns, zCDP", "local linear, zCDP")
RANKING = "Shapley ranking, replace"


def _side_by_side() -> Case:
    """Histograms inside two clusters, and of everybody after them."""
    halves = Clustering(HalfSplit("a", 0.5), clusters=range(2), features=["a"], trained_on="other data")
    explainer = ClusterHistograms(halves, attributes=["b"], bins=4)
    records = ({"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 1.0})
    return Case(NOISY[-1], explainer, World(TWO_NUMBERS, amount=Fraction(2)), Neighbours(records, records), 0.0, "")


def _releases(case: Case, records: Sequence[Record], count: int, read: list[list[int]] | None = None) -> Iterator[list[Said]]:
    """What left the door in each of so many releases; `read` notes the exact totals."""
    engine, _ = Neighbours(tuple(records), tuple(records)).engines(case.world.schema, case.world.relation, case.world.unit)
    plan, kept = case.world.plan(case.explainer, engine.units), Kept(engine.totals)

    def noted(query: Any) -> list[int]:
        found = kept(query)
        if read is not None:
            read.append(found)
        return found

    for _ in range(count):
        ask = Listening(noted, plan, to_the_end=False)
        with contextlib.suppress(Enough):
            case.explainer.run(ask)
        yield ask.heard


def _noise_of(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """The noise of many releases, a row each, and the standard deviations that were claimed."""
    assert case.pair is not None
    read: list[list[int]] = []
    rows, claimed = [], np.empty(0)
    for heard in _releases(case, case.pair.first, WHOLE, read):
        said = [(one, exact) for one, exact in zip(heard, read, strict=True) if isinstance(one.how, Mechanism)]
        rows.append([noisy - total for one, exact in said for noisy, total in zip(one.answer, exact)])
        claimed = np.concatenate([np.full(len(exact), one.how.law.std) for one, exact in said])  # type: ignore[union-attr]
        read.clear()
    return np.array(rows), claimed


def _size(case: Case) -> float:
    """The noise of very many answers at the door, as a part of the standard deviation that was claimed."""
    assert case.pair is not None
    engine, _ = case.pair.engines(case.world.schema, case.world.relation, case.world.unit)
    plan = case.world.plan(case.explainer, engine.units)
    (stage,) = plan.stages
    assert isinstance(stage.query, Sum | Joint)
    exact, how, times = engine.totals(stage.query), stage.mechanism, MANY // stage.mechanism.size
    # Coordinates are independent, so that many vectors are one long one.
    long = replace(how, size=how.size * times, relative=how.relative * times)
    answers = Many(plan, exact * times).answers(stage.query, long, plan.spend(stage))
    noise = np.array([noisy - total for noisy, total in zip(answers, exact * times)], dtype=float)
    return float(np.sqrt(((noise.reshape(times, -1) / (how.law.std * np.array(how.relative or 1.0))) ** 2).mean()))


def _wrong_with(drawn: np.ndarray, claimed: np.ndarray) -> list[str]:
    """What is wrong with noise of which each row belongs to one release."""
    limit, wrong = MORE / len(drawn) ** 0.5, []
    signs = _signs(drawn.astype(float))
    within, between = signs.T @ signs / len(drawn), signs[1:].T @ signs[:-1] / len(drawn)
    if np.abs(within - np.diag(np.diag(within))).max() > limit:
        wrong.append("numbers of one release share noise")
    if np.abs(between).max() > limit or len({tuple(row) for row in np.abs(drawn).tolist()}) < len(drawn):
        wrong.append("releases share noise")
    size = np.sqrt((drawn.astype(float) ** 2).mean(axis=0)) / claimed
    if size.min() < 1 - 1.1 * SIGMAS / len(drawn) ** 0.5:
        wrong.append(f"its noise has {size.min():.2f} times the size that was claimed")
    bits = [abs(float(((drawn >> bit) & 1).mean(axis=0).min()) - 0.5) for bit in range(8)]
    bits += [abs(float(((drawn >> bit) & 1).mean(axis=0).max()) - 0.5) for bit in range(8)]
    if max(bits) > limit / 2:
        wrong.append("the low bits of its noise are not those of a fair coin")
    return wrong
