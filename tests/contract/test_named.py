"""10. Coverage of the named quantity: a 95 % bar holds what its name says, without noise, caps, clipping and chance, in 95 %.

Every explainer of the package is in one of three lists: with the quantity that its bars name, computed in another way; with the
words that its bars are described by, where they are not about the quantity that a reader would think of; or with a test of its
own.
"""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from checks import noise, public_for
from people import make_people, risk_without_smoker
from sources import Scaled, Silent

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.query import Records, parts_of
from pellucid.release.door import Ask

EXPLAINERS = [getattr(pel.explainers, name) for name in pel.explainers.__all__ if name != "Explainer"]


def as_it_is(example):
    """No chance, no cap: the same explainer without noise."""
    return example


def uncapped(example):
    return dataclasses.replace(example, cap="range")


def over_many_shuffles(example):
    # A ranking clips decreases of the loss whatever the cap; mean losses have no lower end to clip at.
    return dataclasses.replace(example, cap="range", repeats=40, ranking=False)


NAMED = {
    "AttributeShares": as_it_is,
    "Completeness": as_it_is,
    "Distribution": as_it_is,
    "PartialDependence": as_it_is,
    "PermutationImportance": over_many_shuffles,
    "ShapDependence": uncapped,
    "ShapImportance": uncapped,
    "ShapRanking": lambda example: pel.ShapValues(example.model, example.record, permutations=2) if example.record else example,
    "ShapValues": as_it_is,
    "Statistic": as_it_is,
}
"""Explainer → the one whose answer without noise is what its bars name."""

WORDED = {
    "FeatureInteraction": "H on the values that features were rounded to",
    "PrivatePlot": "the mean over the blocks that were drawn",
    "PrivateRanking": "the votes of the blocks that were drawn",
    "PrivateKMeans": "the mean of the people who were nearest to a released centre",
}
"""Explainer → what its bars are about, in the words of `interval`."""

ELSEWHERE = {
    "AccumulatedEffects": "explainers/curves/test_accumulated_effects.py::test_bars_include_what_the_clip_cuts_off",
    "ClusterHistograms": "explainers/clusters/test_telling.py::test_bars_and_sentences_hold_as_often_as_they_say",
    "LocalLinear": "explainers/local/test_local_on_noise.py::test_what_is_told_is_right",
}
"""Explainer → the test of its own that compares its bars with what they name: attributes are chosen and intervals settled anew in
every release, and a record must be asked about."""


def released(result):
    """Name → (value, lower, upper)."""
    if isinstance(result, pel.explainers.common.results.Several):
        return {(key, name): v for key, one in result.curves.items() for name, v in released(one).items()}
    frame = result.to_frame()
    places = frame["x"] if "x" in frame else range(len(frame)) if frame["feature"].duplicated().any() else [""] * len(frame)
    columns = (frame[name] for name in ("feature", "value", "lower", "upper"))
    return {(str(f), str(x)): bar for x, (f, *bar) in zip(places, zip(*columns))}


def once(engine):
    """Exact totals, computed once where no secret order is drawn."""
    kept = {}

    def totals(query):
        if not all(isinstance(part.over, Records) for part in parts_of(query)):
            return engine.totals(query)
        key = repr([(part.map, part.bound) for part in parts_of(query)])
        if key not in kept:
            kept[key] = engine.totals(query)
        return kept[key]

    return totals


def coverage(example, data, schema, amount, releases, relation="replace", change=lambda result: result):
    """Per release: the share of the bars that hold what they name."""
    for model in example.models:
        model.ready(schema)
    engine = LocalEngine(data, schema, relation, pel.Unit())
    public = public_for(schema, relation, "epsilon", len(data), amount)
    exact = NAMED[type(example).__name__](example)
    with noise(Silent()):
        truth = released(exact.run(Ask(engine.totals, exact.plan(public))))
    plan, totals, found = example.plan(public), once(engine), []
    for _ in range(releases):
        bars = released(change(example.run(Ask(totals, plan))))
        held = [lo - 1e-9 <= truth[name][0] <= hi + 1e-9 for name, (_, lo, hi) in bars.items() if np.isfinite(lo)]
        found.append(np.mean(held) if held else 1.0)
    return np.array(found)


def check_coverage(*arguments, **options):
    """Bars of one release stand and fall together, so the number of releases says how far off the share may be by chance."""
    found = coverage(*arguments, **options)
    assert found.mean() >= 0.95 - 3 * (0.95 * 0.05 / len(found)) ** 0.5, found.mean()


@pytest.fixture(scope="module")
def model(schema):
    return pel.Model(risk_without_smoker, output=(0, 1), features=list(schema)[:-1], trained_on="other data")


@pytest.fixture(scope="module")
def tall(schema):
    """The same answers in a declared range far beyond them: where caps are chosen."""
    return pel.Model(risk_without_smoker, output=(0, 40), features=list(schema)[:-1], trained_on="other data")


@pytest.mark.parametrize("explainer", EXPLAINERS, ids=lambda e: e.__name__)
def test_every_explainer_says_what_its_bars_are_about(explainer):
    assert sum(explainer.__name__ in known for known in (NAMED, WORDED, ELSEWHERE)) == 1


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("explainer", EXPLAINERS, ids=lambda e: e.__name__)
def test_bars_hold_what_they_name(explainer, model, schema, relation, seeded):
    """Few people and a small price."""
    name = explainer.__name__
    if name in WORDED:
        pytest.skip(f"worded: {WORDED[name]}")
    if name in ELSEWHERE:
        file, test = ELSEWHERE[name].split("::")
        assert f"def {test}(" in (Path(__file__).parents[1] / file).read_text()
        return
    people = make_people(300)
    few = 20 if name == "PermutationImportance" else 60
    for example in explainer.examples(model, schema)[:3]:
        check_coverage(example, people, schema, 1, few, relation)


@pytest.mark.parametrize("kind", ["PermutationImportance", "ShapImportance", "ShapDependence"])
def test_bars_of_a_private_cap_hold_too(kind, tall, schema):
    people, explainer = make_people(1200), getattr(pel.explainers, kind)
    if kind == "PermutationImportance":
        asked = [explainer(tall, "smoker"), explainer(tall, "smoker", ranking=True)]
    else:
        asked = explainer.examples(tall, schema)[:2]
    for example in asked:
        assert "cap" in example.plan(public_for(schema, "replace", "epsilon", 1200, 4)).shares or example.cap
        check_coverage(example, people, schema, 4, 25)


def test_bars_that_leave_something_out_are_noticed(model, schema, seeded):
    """Noise twice as large as its law says, and a cap that hides what no bar tells."""
    people = make_people(300)
    curve = pel.PartialDependence(model, "age", points=5)
    with pytest.raises(AssertionError), noise(Scaled(1, 2.0)):
        check_coverage(curve, people, schema, 1, 60)
    capped = pel.ShapImportance(model, public_background=people[list(schema)[:-1]].iloc[:1], permutations=2, cap=0.02)

    def blind(result):
        return dataclasses.replace(result, hidden=None, hidden_law=None)

    check_coverage(capped, people, schema, 4, 60)
    with pytest.raises(AssertionError):
        check_coverage(capped, people, schema, 4, 60, change=blind)
