"""A group of features is one player: its values are those of the game of groups, and its sensitivity that of fewer players."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from games import extreme_game, named_directions
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import pellucid as pel
from pellucid.errors import PlanError
from pellucid.explainers.shapley import trees
from pellucid.explainers.shapley.background import Background, estimator_against
from pellucid.explainers.shapley.estimator import estimator_for
from pellucid.explainers.shapley.queries import values_law
from pellucid.explainers.shapley.radii import shapley_radii
from pellucid.public.rows import Rows

NAMES = tuple("abcdef")
SCHEMA = pel.Schema({name: pel.Number(0, 1) for name in NAMES}, groups={"late": ["f", "d"], "bc": ["b", "c"]})
PEOPLE = np.random.default_rng(0).random((200, 6))
RECORD = dict(zip(NAMES, np.random.default_rng(1).random(6)))


def fitted(kind):
    target = PEOPLE[:, 0] * PEOPLE[:, 1] + PEOPLE[:, 2] * (PEOPLE[:, 3] > 0.5) + 0.2 * PEOPLE[:, 5]
    estimator = kind.fit(pd.DataFrame(PEOPLE, columns=NAMES), target)
    return pel.Model(estimator, output=(-2, 3), features=list(NAMES), trained_on="other data")


def by_definition(model, x, z, members):
    """The Shapley values of the groups, from the definition."""

    def answer(some):
        mixed = z.copy()
        for player in some:
            mixed[members[player]] = x[members[player]]
        return float(model.predictor.predict(pd.DataFrame([mixed], columns=NAMES))[0])

    p = len(members)
    values = {s: answer(s) for k in range(p + 1) for s in itertools.combinations(range(p), k)}
    weight = [math.factorial(k) * math.factorial(p - 1 - k) / math.factorial(p) for k in range(p)]
    return [sum(weight[len(s)] * (values[tuple(sorted((*s, i)))] - values[s]) for s in values if i not in s) for i in range(p)]


@pytest.mark.parametrize("kind", [RandomForestRegressor(20, max_depth=6, random_state=0), LinearRegression()])
def test_every_estimator_finds_the_game_of_the_groups(kind, monkeypatch):
    model, x = fitted(kind), np.array(list(RECORD.values()))
    players = SCHEMA.groups.players(NAMES)
    assert players.names == ("a", "bc", "late", "e")
    members = [[NAMES.index(name) for name in some] for some in players.members(NAMES)]
    rows = Rows(SCHEMA, {name: PEOPLE[:8, j] for j, name in enumerate(NAMES)})
    wanted = np.array([by_definition(model, x, z, members) for z in PEOPLE[:8]])
    found = {}
    for method in (None, "enumeration", "permutations", "kernel"):
        many = {"permutations": 24} if method == "permutations" else {}
        chosen = estimator_for(model, SCHEMA, RECORD, method=method, groups=SCHEMA.groups, **many)
        found[method], idle = chosen(rows), [name for name in players.names if name not in chosen.features]
        assert chosen.columns == NAMES and chosen.everybody == players.names and chosen.unused == tuple(idle)
        kept = [players.names.index(name) for name in chosen.features]
        assert np.allclose(found[method], wanted[:, kept], atol=1e-7) and np.allclose(np.delete(wanted, kept, axis=1), 0)
    monkeypatch.setattr(trees, "compiled", lambda: None)
    again = estimator_for(model, SCHEMA, RECORD, groups=SCHEMA.groups)(rows)
    assert np.array_equal(again, found[None])
    # Fewer orders than there are: walks of trees and questions go along the same mixtures, and each order adds up.
    few = estimator_for(model, SCHEMA, RECORD, method="permutations", permutations=4, groups=SCHEMA.groups)(rows)
    box = pel.Model(model.predictor.predict, output=(-2, 3), features=list(NAMES), trained_on="other data")
    asked = estimator_for(box, SCHEMA, RECORD, method="permutations", permutations=4, groups=SCHEMA.groups)(rows)
    assert np.allclose(few, asked, atol=1e-7) and np.allclose(few.sum(axis=1), wanted.sum(axis=1), atol=1e-7)
    against = estimator_against(model, SCHEMA, Background.of([RECORD]), groups=SCHEMA.groups)
    assert np.allclose(-against(rows), found[None])


def test_walks_and_masks_along_orders_of_groups_are_the_same():
    """With many records masks of leaves take the place of walks; both go along the mixtures that the model is asked about."""
    model = fitted(RandomForestRegressor(20, max_depth=4, random_state=0))
    rows = Rows(SCHEMA, {name: PEOPLE[:, j] for j, name in enumerate(NAMES)})
    walked = estimator_for(model, SCHEMA, RECORD, method="permutations", permutations=8, groups=SCHEMA.groups)(rows)
    box = pel.Model(model.predictor.predict, output=(-2, 3), features=list(NAMES), trained_on="other data")
    asked = estimator_for(box, SCHEMA, RECORD, method="permutations", permutations=8, groups=SCHEMA.groups)(rows)
    assert np.allclose(walked, asked, atol=1e-7)


def played(p, games):
    """A model of p groups of two features that plays one game against records of zeros, and the other against halves."""
    names = [f"x{j}" for j in range(2 * p)]

    def answers(table):
        cells = np.stack([np.asarray(table[name], dtype=float) for name in names], axis=1)
        here = (cells.reshape(len(cells), p, 2) == 1).all(axis=2)
        which = (cells == 0.5).any(axis=1).astype(int)
        return np.stack(games)[which, (here << np.arange(p)).sum(axis=1)]

    schema = pel.Schema({name: pel.Number(0, 1) for name in names}, groups={f"g{i}": names[2 * i : 2 * i + 2] for i in range(p)})
    return pel.Model(answers, output=(0, 1), features=names, trained_on="other data"), schema


def test_shapley_groups_is_attained():
    """Opposite games of groups move the totals of two neighbouring tables as far as the bound of so many players says."""
    p, reached = 4, []
    for direction in named_directions(p).values():
        model, schema = played(p, [extreme_game(p, sign * direction, 0.8) for sign in (1, -1)])
        chosen = estimator_for(model, schema, dict.fromkeys(schema, 1), groups=schema.groups)
        bound = chosen.bound(ranked=True)
        assert bound.length == p
        totals = []
        for value in (0.0, 0.5):
            vectors = chosen(Rows(schema, {name: np.array([value]) for name in schema}))
            totals.append(np.array(bound.totals(vectors)))
            assert np.allclose((totals[-1] + bound.offset) * bound.unit, vectors[0], atol=1e-6), "an exact vector is not clipped"
        change = (totals[0] - totals[1]) * bound.unit
        size = np.sort(np.abs(change))[::-1]
        reached.append((size[0], size.sum(), np.ptp(change), size[:2].sum()))
        moved = [int(v) for v in totals[0] - totals[1]]
        assert sum(map(abs, moved)) <= bound.replaced().l1 and max(map(abs, moved)) <= bound.replaced().linf
    r = shapley_radii(p)
    for found, known in zip(np.max(reached, axis=0), (r.linf, r.l1, r.spread, r.pair)):
        assert 0.99 * 2 * known <= found <= 2 * known * (1 + 1e-6)


def test_fewer_players_need_less_noise():
    sizes = np.array([list(vars(shapley_radii(p)).values()) for p in (*range(1, 65), 105, 128)])
    assert (np.diff(sizes, axis=0) >= -1e-12).all()
    model = pel.Model(lambda t: t["a"] * t["b"], output=(0, 1), features=list(NAMES), trained_on="other data")
    session = pel.Session(pd.DataFrame(PEOPLE, columns=NAMES), SCHEMA, budget=pel.Budget(epsilon=1.0))
    errors = {}
    for groups in ({}, None):
        plan = session.plan(pel.ShapValues(model, RECORD, groups=groups), epsilon=1.0)
        errors[groups is None] = values_law(plan["values"], plan.public).std
    assert errors[True] < 0.8 * errors[False]


def test_terms_of_a_group_add_up():
    """Of a linear model the range of a group's value is the sum of its features' ranges, and is reached."""
    model = fitted(LinearRegression())
    chosen, single = (estimator_for(model, SCHEMA, RECORD, groups=g) for g in (SCHEMA.groups, type(SCHEMA.groups)()))
    halves = dict(zip(single.features, (term.half for term in single.terms)))
    assert chosen.terms[1].half == pytest.approx(halves["b"] + halves["c"], rel=1e-6)
    corners = np.array(list(itertools.product([0.0, 1.0], repeat=6)))
    values = chosen(Rows(SCHEMA, {name: corners[:, j] for j, name in enumerate(NAMES)}))
    for term, column in zip(chosen.terms, values.T):
        assert column.max() == pytest.approx(term.middle + term.half, abs=1e-6)
        assert column.min() == pytest.approx(term.middle - term.half, abs=1e-6)


def test_a_feature_of_a_group_has_no_dependence_plot():
    model = pel.Model(lambda t: t["a"], output=(0, 1), features=list(NAMES), trained_on="other data")
    session = pel.Session(pd.DataFrame(PEOPLE, columns=NAMES), SCHEMA, budget=pel.Budget(epsilon=1.0))
    for feature, said in (("bc", "is a group of features"), ("b", "is in the group 'bc'")):
        with pytest.raises(PlanError, match=said):
            session.release(pel.ShapDependence(model, feature, public_background=[RECORD]), epsilon=1.0)
    assert session.remaining == 1
