"""What every explainer must satisfy, as plain functions: the suite runs them, and sabotage tests run them expecting failure."""

import contextlib
import dataclasses
import importlib
import types
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from sources import Chosen, Seeded

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.explainers.clusters.scores import CandidateScore, CombinationScore
from pellucid.mechanisms import Spend, source
from pellucid.mechanisms import labels as secret
from pellucid.public.schema import Unit
from pellucid.query import Blocks, Choice, Couples, Joint, Pairs, parts_of, released_parts, touched
from pellucid.query.functions import BlockFunction, sent_whole
from pellucid.release.door import Ask
from pellucid.release.plan import Public

# What is inflated in here runs on blocks too, in processes that load neither tests nor the package.
sent_whole(__name__)

RELATIONS = ("replace", "add-remove")
CURRENCIES = ("epsilon", "rho")


def public_for(schema, relation, currency, rows, amount=Fraction(2)):
    return Public(schema, relation, Unit(), Spend(currency, amount), rows if relation == "replace" else None, rows)


@dataclass
class Recorder(Ask):
    """A door that also writes down what was asked."""

    asked: list = field(default_factory=list)
    engine: object = None

    def _open(self, name, query):
        stage = super()._open(name, query)
        self.asked.append((name, stage.query))
        return stage


@contextlib.contextmanager
def noise(test_source):
    before, source.current = source.current, test_source
    try:
        yield
    finally:
        source.current = before


def record(explainer, data, schema, relation="replace", currency="epsilon", seed=0):
    """Run an explainer on data with reproducible noise; returns the door with everything that was asked and charged."""
    for model in explainer.models:
        model.ready(schema)
    engine = LocalEngine(data, schema, relation, Unit())
    plan = explainer.plan(public_for(schema, relation, currency, engine.units))
    door = Recorder(engine.totals, plan)
    door.engine = engine
    with noise(Seeded(seed)):
        explainer.run(door)
    return door


@contextlib.contextmanager
def coupled_labels():
    """Secret labels by position and turn: what is common to two tables gets the same ones, as the proofs couple them."""
    turn = iter(range(10**6))
    before = secret.fresh
    secret.fresh = lambda: Chosen(np.random.default_rng(next(turn)).permutation(10_000))
    try:
        yield
    finally:
        secret.fresh = before


def coupled_totals(engine, query):
    with coupled_labels():
        return engine.totals(query)


def check_neighbours(explainer, data, neighbour, schema, relation):
    """Neighbours never move a total, or the scores of a choice, further than the calibration was told."""
    door = record(explainer, data, schema, relation)
    other = LocalEngine(neighbour, schema, relation, Unit())
    for _, query in door.asked:
        if isinstance(query, Choice):
            check_scores(query, coupled_totals(door.engine, query.of), coupled_totals(other, query.of), relation)
        else:
            assert_within(door.public.mechanism(query), coupled_totals(door.engine, query), coupled_totals(other, query))


def check_scores(query, before, after, relation):
    """The change of the scores between neighbours spans no more than the calibration was told."""
    score, (relation, units) = query.score, touched(query, relation)
    if isinstance(score, CombinationScore):
        old, new = score.tables(before), score.tables(after)
        rng = np.random.default_rng(0)
        rows = [sorted(row) for row in score.allowed]
        drawn = [[tuple(sorted(rng.permutation(row)[: score.per_cluster].tolist())) for row in rows] for _ in range(300)]
        change = [new.of(combination) - old.of(combination) for combination in drawn]
        assert max(change) - min(change) <= score.span(relation, units)
    elif isinstance(score, CandidateScore):
        moved = [[b - a for a, b in zip(*rows)] for rows in zip(score.of(before), score.of(after))]
        spans = [max(row) - min(row) for row in moved]
        allowed = score.spans(relation, units)
        assert sum(spans) <= sum(allowed) and sum(s * s for s in spans) <= sum(a * a for a in allowed)
    else:
        change = [b - a for a, b in zip(score.of(before), score.of(after))]
        assert max(change) - min(change) <= score.span(relation, units)
        assert max(map(abs, change)) <= score.largest(relation, units)


def assert_within(mechanism, before, after):
    change = [b - a for a, b in zip(before, after)]
    relative = mechanism.relative or (1.0,) * len(change)
    moved = {
        "laplace": sum(abs(c) for c in change),
        "k-norm": max(abs(c) for c in change),
        "gaussian": sum((c / r) ** 2 for c, r in zip(change, relative)) ** 0.5,
    }[mechanism.kind]
    assert moved <= mechanism.sensitivity * (1 + 1e-12), (moved, mechanism)


def check_inflated(explainer, data, neighbour, schema, relation):
    """Bounds are enforced, not promised: they hold when every map returns a thousand times what it should."""
    door = record(explainer, data, schema, relation)
    other = LocalEngine(neighbour, schema, relation, Unit())
    for _, query in door.asked:
        query = query.of if isinstance(query, Choice) else query
        whole = Joint([dataclasses.replace(part, map=inflated(part.map)) for part in parts_of(query)])
        assert_within(door.public.mechanism(whole), coupled_totals(door.engine, whole), coupled_totals(other, whole))


def inflated(map):
    """A thousand times what a map returns; what a function of blocks returns passes its adapter first."""
    return dataclasses.replace(map, adapt=Inflated(map.adapt)) if isinstance(map, BlockFunction) else Inflated(map)


@dataclass
class Inflated:
    map: object

    def __call__(self, *rows):
        value = self.map(*rows)
        if not isinstance(value, tuple):
            return 1000 * np.asarray(value)
        if len(value) == 3 and value[1] is None:  # the whole weight of a record, left out
            value = (value[0], np.ones(np.shape(value[0])), value[2])
        return (value[0], *(None if v is None else _larger(v) for v in value[1:]))


def _larger(value):
    return [1000 * v for v in value] if isinstance(value, list) else 1000 * value


def unclipped_loops(monkeypatch):
    """The compiled loops of bounds as they would be if they had been written without clipping."""
    loops, far = importlib.import_module("pellucid.query.loops"), 2**50
    monkeypatch.setattr(loops, "on_grid", lambda number, limit: float(np.rint(number)) if number == number else 0.0)
    box, shared, cells, ball, moments = (
        getattr(loops, name).py_func for name in ("box", "shared_box", "cells", "into_ball", "into_moments")
    )
    return types.SimpleNamespace(
        box=box,
        shared_box=lambda *given: shared(*given[:-1], given[-1] + far),
        cells=lambda cell, weight, value, parts, most, *rest: cells(cell, weight, value, parts, most + far, *rest),
        into_ball=lambda values, unit, limit, squares: ball(values, unit, limit, squares * 0 + 2**62),
        into_moments=lambda *given: moments(*given[:-3], far, far, far),
    )


def check_noise(explainer, data, schema, relation, currency, test_source=None, draws=400):
    """The noise of every noisy total has the scale its sensitivity and its charge call for, within sampling error."""
    door = record(explainer, data, schema, relation, currency)
    for stage, query in door.asked:
        if isinstance(query, Choice):
            continue
        exact = np.array(door.engine.totals(query), dtype=float)
        wanted = expected_std(query, relation, door.plan.spend(door.plan[stage]))
        relative = np.array(door.public.mechanism(query).relative or (1.0,) * len(exact))
        sample = []
        with noise(test_source or source.SystemSource()):
            for _ in range(draws):
                again = Ask(lambda _, exact=exact: [int(t) for t in exact], door.plan)
                late = query if door.plan[stage].query is None else None
                sample.append((np.array(again.total(stage, late).integers, dtype=float) - exact) / relative)
        measured = float(np.std(np.concatenate(sample)))
        assert abs(measured / wanted - 1) < 0.12, (stage, measured / wanted)


def expected_std(query, relation, spend):
    """Noise scales from the textbook, written down independently of the package's own calibration."""
    l1 = l2 = linf = 0.0
    for part in released_parts(query):
        added, replaced = part.released.added(), part.released.replaced()
        norms = replaced if relation == "replace" or isinstance(part.over, Blocks | Couples) else added
        factor = 1.0
        if isinstance(part.over, Pairs):  # the record's own term, and the one of whoever received from it
            norms, factor = (replaced, 2.0) if relation == "replace" else (added, 3.0)
        l1, l2, linf = l1 + factor * norms.l1, l2 + factor**2 * norms.l2_squared, max(linf, factor * norms.linf)
    amount, m = float(spend.amount), query.size
    if spend.currency == "rho":
        return (l2 / (2 * amount)) ** 0.5
    return min(2**0.5 * l1 / amount, linf * ((m + 1) * (m + 2) / 3) ** 0.5 / amount)


def check_charges(explainer, data, schema, relation, currency):
    """Stages and charges add up to the whole spend, and every stage is used."""
    door = record(explainer, data, schema, relation, currency)
    assert sum(door.plan.shares.values()) == 1
    assert {stage for stage, _ in door.asked} == set(door.plan.shares)
    assert sum(charge.amount for charge in door.charges) == door.public.spend.amount


def release(explainer, data, schema, relation="replace", budget=None, **options):
    session = pel.Session(data, schema, budget=budget or pel.Budget(epsilon=4.0), neighbors=relation, **options)
    return session.release(explainer, share=1)
