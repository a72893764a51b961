"""Many canaries in one release: what a single histogram gives away, from how often one can guess who is in it.

Each of m canaries is in the table or not by a fair coin of its own (under replace: has one content or another). Whoever sees the
release guesses the coins of some canaries and abstains on the others. Let W be the number of right guesses among r.

Theorem (Steinke, Nasr and Jagielski, *Privacy auditing with one (1) training run*, NeurIPS 2023, theorems 2.1 and 5.2). If the
release is (ε, δ)-private when one canary changes, then with B ~ Binomial(r, e^ε / (1 + e^ε)), for every v,

    P[W ≥ v]  ≤  P[B ≥ v] + 2 m δ · max over i ≥ 1 of P[v − i ≤ B < v] / i.

Why, for δ = 0: given the release and all coins but one, the odds of that coin are even times a ratio of likelihoods beside two
neighbouring tables, so at most e^ε; a guess is right with probability e^ε / (1 + e^ε) at most, whatever the guesses before it
came to. Guesses made one after the other are then no better than independent ones with that chance. The coins need not be
guessed from different releases, which is why one is enough; guesses from several, each with coins of its own, add up. With
δ > 0 the number of guesses must be settled in advance, as it is here, and δ must be far below 1/m to say anything.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine import LocalEngine
from ..mechanisms import Mechanism
from ..query import Choice, Reading
from ..release.explainer import Explainer
from .game import Row, claim_of
from .neighbours import Neighbours, Record
from .search import SLACK, World, moved_part
from .transcript import Enough, Listening, Said

GUESSED = 0.5
"""The part of the canaries that are guessed: those of which the release says most."""
CLOSE = 5e-4
"""How precisely the bound is found."""


@dataclass(frozen=True)
class Canaries:
    """Records that are in a table or not, each by its own coin."""

    records: tuple[Record, ...]
    """What a canary is when its coin says so."""
    others: tuple[Record, ...] = ()
    """What stands in its place else; under add-remove nothing does."""
    rest: tuple[Record, ...] = ()
    """Who is there anyway."""
    releases: int = 1
    """Releases, each with coins of its own: where one cannot hold as many canaries as are needed, guesses add up."""

    def __len__(self) -> int:
        return len(self.records)

    def engine(self, coins: Sequence[bool], world: World) -> LocalEngine:
        """The table that these coins make."""
        if self.others:
            made = [record if coin else other for record, other, coin in zip(self.records, self.others, coins)]
        else:
            made = [record for record, coin in zip(self.records, coins) if coin]
        (engine, _) = Neighbours((*self.rest, *made), ()).engines(world.schema, world.relation, world.unit)
        return engine


def chance_of(right: int, guesses: int, canaries: int, epsilon: float, delta: float = 0.0) -> float:
    """How likely so many right guesses are at most, if the release is (ε, δ)-private: the theorem.

    >>> round(chance_of(8, 10, 100, 0.0), 4) == round((45 + 10 + 1) / 1024, 4)
    True
    """
    from scipy.special import bdtrc

    rate = 1 / (1 + math.exp(-epsilon))
    at_least = float(bdtrc(right - 1, guesses, rate)) if right else 1.0
    if not delta or not right:
        return min(at_least, 1.0)
    below = np.cumsum(_weights(guesses, rate)[right - 1 :: -1])
    slope = float((below / np.arange(1, right + 1)).max())
    return min(at_least + 2 * canaries * delta * slope, 1.0)


def _weights(guesses: int, rate: float) -> np.ndarray:
    from scipy.special import gammaln

    hits = np.arange(guesses + 1)
    ways = gammaln(guesses + 1) - gammaln(hits + 1) - gammaln(guesses - hits + 1)
    found: np.ndarray = np.exp(ways + hits * math.log(rate) + (guesses - hits) * math.log1p(-rate))
    return found


def bound_from_guesses(right: int, guesses: int, canaries: int, confidence: float, delta: float = 0.0) -> float:
    """The ε that a release must have at least, if one could guess so many coins; true with probability `confidence`.

    >>> 0.6 < bound_from_guesses(731, 1000, 2000, 0.999) < 1.0
    True
    """
    risk = 1 - confidence
    if chance_of(right, guesses, canaries, 0.0, delta) > risk:
        return 0.0
    low, high = 0.0, 50.0
    while high - low > CLOSE:
        middle = (low + high) / 2
        low, high = (middle, high) if chance_of(right, guesses, canaries, middle, delta) <= risk else (low, middle)
    return low


def right_guesses(scores: np.ndarray, coins: np.ndarray, guessed: float = GUESSED) -> tuple[int, int]:
    """Guess the coins with the largest scores up to their sign: how many were right, and of how many."""
    guesses = int(len(scores) * guessed)
    chosen = np.argsort(-np.abs(scores), kind="stable")[:guesses]
    return int(((scores[chosen] > 0) == coins[chosen]).sum()), guesses


def play_one_run(
    explainer: Explainer,
    world: World,
    canaries: Canaries,
    *,
    confidence: float = 0.95,
    name: str = "",
    delta: float | None = None,
) -> Row:
    """Audit one release of a table in which every canary is by its own coin, or a few of them."""
    start = time.perf_counter()
    claimed, usual = claim_of(world)
    scores: list[np.ndarray] = []
    coins: list[np.ndarray] = []
    furthest, places = 0.0, _Places(canaries, world)
    for _ in range(canaries.releases):
        flipped = np.array([bool(secrets.randbits(1)) for _ in range(len(canaries))])
        told, moved = _release(explainer, world, canaries.engine(flipped.tolist(), world), places)
        scores.append(told)
        coins.append(flipped)
        furthest = max(furthest, moved)
    right, guesses = right_guesses(np.concatenate(scores), np.concatenate(coins))
    many = canaries.releases * len(canaries)
    measured = bound_from_guesses(right, guesses, many, confidence, usual if delta is None else delta)
    verdict = "holds" if measured <= claimed else f"broken: ε is at least {measured:.3g}"
    if furthest > 1 + SLACK:
        verdict = f"broken: a canary moves {furthest:.3g} times as far as the noise was scaled to"
    return Row(
        name=name or type(explainer).__name__,
        claimed=claimed,
        measured=measured,
        confidence=confidence,
        verdict=verdict,
        moved=furthest,
        pair=f"{many:,} canaries, {right:,} of {guesses:,} guesses right",
        relation=world.relation,
        currency=world.currency,
        delta=usual,
        runs=canaries.releases,
        seconds=round(time.perf_counter() - start, 2),
    )


def _release(explainer: Explainer, world: World, engine: LocalEngine, places: _Places) -> tuple[np.ndarray, float]:
    """One release: a score for each canary, and how far the furthest moves what is released."""
    ask = Listening(engine.totals, world.plan(explainer, engine.units), to_the_end=False)
    with contextlib.suppress(Enough):
        explainer.run(ask)
    said = [said for said in ask.heard if isinstance(said.how, Mechanism) and not isinstance(said.query, Choice)]
    found = [places.scores(one) for one in said]
    return np.sum([told for told, _ in found], axis=0), max(moved for _, moved in found)


class _Places:
    """Which numbers of a release each canary moves: found from as many tables as the number of canaries has binary digits."""

    def __init__(self, canaries: Canaries, world: World):
        numbers = np.arange(1, len(canaries) + 1)
        digits = range(len(canaries).bit_length())
        self._count = len(canaries)
        self._none = canaries.engine([False] * len(canaries), world)
        self._with = [canaries.engine(((numbers >> digit) & 1).astype(bool).tolist(), world) for digit in digits]
        self._all = canaries.engine([True] * len(canaries), world)

    def scores(self, said: Said) -> tuple[np.ndarray, float]:
        """How much likelier each canary's numbers are with it than without it, and how far the furthest moves them."""
        query, how = said.query, said.how
        assert isinstance(how, Mechanism)
        without, with_all = (self._exact(engine, query) for engine in (self._none, self._all))
        found = np.zeros(len(without), dtype=np.int64)
        for digit, engine in enumerate(self._with):
            found += (self._exact(engine, query) != without).astype(np.int64) << digit
        who, change = np.where(found <= self._count, found, 0), with_all - without
        scale = float(how.scale) * (np.array(how.relative) if how.relative else np.ones(len(without)))
        one, other = (np.abs(np.array(said.answer, dtype=float) - exact) / scale for exact in (without, with_all))
        told = (one - other) * (one + other) / 2 if how.kind == "gaussian" else one - other
        scores = np.bincount(who, np.where(who > 0, told, 0.0), self._count + 1)[1:]
        # All canaries move their numbers alike, so that how far the first one does says it of all.
        first = np.where(who == 1, change, 0.0)
        return scores, moved_part(how, [0] * len(first), [int(number) for number in first])

    @staticmethod
    def _exact(engine: LocalEngine, query: Any) -> np.ndarray:
        if isinstance(query, Reading):
            return np.array(query.image.of(engine.totals(query.of)), dtype=float)
        return np.array(engine.totals(query), dtype=float)
