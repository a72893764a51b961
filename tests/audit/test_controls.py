"""An audit is worth something if it catches what breaks a promise: controls patched into the code that makes releases."""

import time

import numpy as np
import pytest
from controls import CONTROLS, scaled_noise, scaled_sensitivity, shared_between_histograms

import pellucid as pel
from pellucid.audit import Neighbours, World, play, search
from pellucid.audit.cases import cases
from pellucid.audit.checks import checks
from pellucid.audit.checks.answers import answers_alone
from pellucid.audit.checks.finding import SCHEMA as SMALL
from pellucid.audit.checks.finding import small_table
from pellucid.audit.checks.models import no_memory, one_shape, own_rows_alone
from pellucid.audit.checks.noise import fresh_noise, low_bits, own_noise, released_noise
from pellucid.audit.checks.sessions import fixed_shape, no_canaries, one_unit_left, quiet_refusal
from pellucid.audit.estimate import bound_of, lower_bound
from pellucid.audit.learned import told_apart
from pellucid.audit.neighbours import candidates, lowest
from pellucid.audit.run import audit
from pellucid.audit.search import moved
from pellucid.cli.report import page
from pellucid.mechanisms import noise
from pellucid.release.explanation import Explanation

SCHEMA = pel.Schema({"a": pel.Number(0, 1), "b": pel.Number(0, 1), "c": pel.Category(["x", "y", "z"]), "y": pel.Boolean()})


def second(d):
    return d["b"]


MODEL = pel.Model(second, output=(0, 1), features=["a", "b", "c"], trained_on="other data")
CURVE = pel.PartialDependence(MODEL, "a", points=2)
COUNTS = pel.Distribution("c")
MEAN = pel.Statistic("a")

PROMISED = [
    "sensitivity halved",
    "noise halved",
    "an L2 clip used as an L1 bound",
    "replace-one histogram with scale 1/ε",
    "balanced shuffle under add-remove",
    "un-noised β in the adaptive explainer",
    "above-threshold with a private threshold and too little noise",
    "noise shared between histograms",
    "exact support released",
    "a model that looks at its batch",
    "a model with a memory",
    "ids through floats",
    "batches of other shapes",
    "a clipped copy that is computed and not used",
    "a sensitivity that forgets the count",
]
CHECKS = {check.__name__.replace("_", " "): check for check in checks()}


def test_every_promised_control_is_there_and_names_rows_of_the_audit():
    assert [control.name for control in CONTROLS[: len(PROMISED)]] == PROMISED
    known = {case.name for case in cases()} | set(CHECKS)
    assert all(set(control.flagged) <= known for control in CONTROLS)


def slowly(control):
    return pytest.param(control, id=control.name, marks=[pytest.mark.slow] * control.slow)


@pytest.mark.parametrize("control", [slowly(control) for control in CONTROLS])
def test_the_audit_fails_with_a_control_in_the_code(control, monkeypatch):
    """The audit that everybody runs, of its own catalogue and checks; in this process, where the patch is."""
    control.patch(monkeypatch)
    report = audit(control.flagged, fast=True, workers=1)
    assert not report.holds
    flagged = {row.name for row in report.rows if row.verdict.startswith("broken")}
    flagged |= {name for name in control.flagged if name in CHECKS and not all(found.passed for found in report.findings)}
    assert flagged >= set(control.flagged)


@pytest.mark.slow
def test_without_a_control_the_same_rows_hold():
    report = audit(sorted({name for control in CONTROLS for name in control.flagged}), fast=True, workers=1)
    assert report.holds, str(report)


class LooksAround:
    """Answers 1 for all of a batch in which somebody is: its trial on public records cannot know."""

    def __call__(self, d):
        return np.where(((d["a"] == 0.123456789) & (d["b"] == 1)).any(), 1.0, d["b"] / 4)


class Remembers:
    """Answers 1 for everybody once it has met somebody."""

    def __init__(self):
        self.met = False

    def __call__(self, d):
        self.met = self.met or bool(((d["a"] == 0.123456789) & (d["b"] == 1)).any())
        return np.ones(len(d)) if self.met else d["b"] / 4


def beside(last):
    low = {"a": 0.0, "b": 0.1, "c": "x", "y": False}
    return (*[low] * 4, {**low, **last})


@pytest.mark.parametrize("function", [LooksAround(), Remembers()], ids=lambda function: type(function).__name__)
def test_a_model_that_deceives_its_trial_moves_totals_too_far(function):
    model = pel.Model(function, output=(0, 1), features=["a", "b", "c"], trained_on="other data")
    pair = Neighbours(beside({"b": 1.0}), beside({"a": 0.123456789, "b": 1.0}), "somebody is there")
    assert moved(pel.PartialDependence(model, "c"), World(SCHEMA), pair).broken


class Fails:
    """Fails where four numbers are at these ends."""

    def __call__(self, d):
        if ((d["a"] == 1) & (d["b"] == 0) & (d["d"] == 1) & (d["e"] == 0)).any():
            raise ValueError
        return d["b"]


def by_owner(rows):
    return {row["who"]: [other for other in rows if other["who"] == row["who"]] for row in rows}


def test_named_candidates_have_every_kind_of_seam():
    unit = pel.Unit("who", max_rows=3)
    failing = [{**lowest(SCHEMA), "a": 1.0}]
    for relation in ("replace", "add-remove"):
        rng = np.random.default_rng(0)
        pairs = list(candidates(SCHEMA, relation, unit, rng, 0, failing=failing, question=64))
        names = {pair.name for pair in pairs}
        assert names >= {
            "corner to corner",
            "an empty table, or nobody else",
            "one more of the same",
            "just above",
            "just below",
            "nothing in any cell",
            "a new value of c",
            "a row on which the model fails",
            "rows without an id",
            "ids that floats cannot tell apart",
            "64 others, where a question has 64 rows",
        }
        for pair in pairs:
            sides = [by_owner(side) for side in (pair.first, pair.second)]
            different = {who for who in {*sides[0], *sides[1]} if sides[0].get(who) != sides[1].get(who)}
            assert len(different) <= 1, pair.name
    assert any(not pair.first for pair in pairs)
    assert any(len(pair.first) == 63 and len(pair.second) == 66 for pair in pairs)


def test_a_row_on_which_a_model_fails_is_found_by_the_search(monkeypatch):
    from controls import all_fail_together

    world = World(pel.Schema({name: pel.Number(0, 1) for name in "abcde"}))
    explainer = pel.PartialDependence(pel.Model(Fails(), output=(0, 1), trained_on="other data"), "c", points=2)
    assert not search(explainer, world, 2).broken
    all_fail_together(monkeypatch)
    found = search(explainer, world, 2)
    assert found.broken and found.pair.name == "a row on which the model fails"


INNER = pel.Statistic("45.5625 * a*(1-a)**2 * b**2*(1-b)")
"""One at a = 1/3, b = 2/3, and nothing wherever a or b is at an end."""


def test_the_guided_search_finds_a_bound_that_is_wrong_inside_only(monkeypatch):
    world = World(pel.Schema({name: pel.Number(0, 1, missing=0.0) for name in "ab"}))
    scaled_sensitivity(0.95)(monkeypatch)
    found = search(INNER, world, 240)
    assert found.broken and found.pair.name.endswith("varied"), "no named pair and no random one"


@pytest.mark.parametrize("explainer", [CURVE, pytest.param(COUNTS, marks=pytest.mark.slow), MEAN], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("relation", ["replace", pytest.param("add-remove", marks=pytest.mark.slow)])
def test_what_is_not_broken_is_not_flagged(explainer, relation):
    row = play(explainer, World(SCHEMA, relation), runs=2500, confidence=0.9999, tries=40)
    assert row.verdict == "holds" and 0.4 < row.part <= 1 and row.moved == pytest.approx(1)


def test_the_bound_is_true_and_sharp():
    """Of Laplace noise whose ε is known: below it nearly always, and near it with many samples."""
    rng = np.random.default_rng(0)
    found = [lower_bound(rng.laplace(0, 1, 400), rng.laplace(1, 1, 400), 0.9) for _ in range(200)]
    assert np.mean(np.array(found) > 1) < 0.1
    assert 0.9 < lower_bound(rng.laplace(0, 1, 10**5), rng.laplace(1, 1, 10**5), 0.99) < 1
    assert lower_bound(rng.laplace(0, 0.5, 10**5), rng.laplace(1, 0.5, 10**5), 0.99) > 1.7


def test_delta_is_taken_off():
    """A release that tells everything with probability δ and nothing else is (0, δ)-private."""
    rng = np.random.default_rng(0)
    one, other = (np.where(rng.random(10**5) < 0.05, told, 0.0) for told in (-1.0, 1.0))
    assert lower_bound(one, other, 0.99, delta=0.05) < 0.05 and lower_bound(one, other, 0.99) > 3


def test_counts_are_bounded_as_clopper_and_pearson_do():
    from scipy.stats import binomtest

    interval = (
        binomtest(90, 100).proportion_ci(0.98, method="exact").low,
        binomtest(5, 100).proportion_ci(0.98, method="exact").high,
    )
    assert bound_of((90, 100, 5, 100), 0.98, 0.0) == pytest.approx(np.log(interval[0] / interval[1]))
    assert bound_of((0, 100, 0, 100), 0.95, 0.0) == 0


def test_a_learned_score_sees_what_numbers_have_in_common():
    rng = np.random.default_rng(0)
    common = rng.laplace(0, 10, (2, 6000, 1))
    first, second = (np.hstack([noise, noise + add]) for noise, add in zip(common, (0.0, 1.0)))
    assert told_apart(first, second, 0.99) > 3
    apart = rng.laplace(0, 10, (2, 6000, 2))
    assert told_apart(*apart, 0.99) < 0.2


HEAVY = (fresh_noise, own_noise, low_bits, released_noise, answers_alone, no_memory)


@pytest.mark.parametrize(
    "check", [pytest.param(check, marks=[pytest.mark.slow] * (check in HEAVY)) for check in checks()], ids=lambda c: c.__name__
)
def test_checks_pass(check):
    found = check()
    assert found.passed, found.text


class Patched:
    """Draws that are wrong in one way."""

    def __init__(self, whole, how):
        self.whole, self.how, self.last = whole, how, None

    def __call__(self, totals, mechanism):
        drawn = self.whole(totals, mechanism)
        if self.how == "again" and self.last is not None and len(self.last) == len(drawn):
            drawn, self.last = self.last, None
        elif self.how == "shared":
            drawn = [total + drawn[0] - totals[0] for total in totals]
        elif self.how == "even":
            drawn = [2 * (n // 2) for n in drawn]
        if self.how == "again":
            self.last = drawn
        return drawn


@pytest.mark.parametrize(("check", "how"), [(fresh_noise, "again"), (own_noise, "shared"), (low_bits, "even")])
def test_wrong_draws_are_noticed(check, how, monkeypatch):
    monkeypatch.setattr("pellucid.audit.checks.noise.add_noise", Patched(noise.add_noise, how))
    assert not check().passed


def test_a_canary_is_noticed(monkeypatch):
    """A result that keeps what cells said, in a text that is stored."""
    whole, kept = Explanation.to_json, []
    original = pel.Session.__init__

    def listening(self, data, *asked, **more):
        kept.append(str(data["sex"][0]))
        original(self, data, *asked, **more)

    monkeypatch.setattr(pel.Session, "__init__", listening)
    monkeypatch.setattr(
        Explanation, "to_json", lambda self: whole(self).replace('"content"', f'"heard": "{kept[-1]}", "content"')
    )
    assert not no_canaries().passed


def test_a_report_has_no_canary():
    session = pel.Session({**small_table(), "age": [44.987654321] * 40}, SMALL, pel.Budget(9.0))
    made = session.release(pel.Statistic("age"), epsilon=1.0)
    assert "44.98765" not in page([("the mean age", made)])


def test_a_budget_that_is_spent_twice_is_noticed(monkeypatch):
    """A ledger that takes a hundredth of what is charged."""
    monkeypatch.setattr("pellucid.ledger.ledger.checked_units", lambda what, amount: amount // 100)
    assert not one_unit_left().passed


def test_a_shape_that_follows_the_data_is_noticed(monkeypatch):
    """A result that lists what cells said."""
    tables, original, whole = [], pel.Session.__init__, pel.Distribution.run

    def listening(self, data, *asked, **more):
        tables.append(data)
        original(self, data, *asked, **more)

    def run(self, ask):
        made = whole(self, ask)
        content, said = made.content, sorted({str(cell) for cell in tables[-1]["sex"]})
        object.__setattr__(made, "content", lambda: {**content(), "said": said})
        return made

    monkeypatch.setattr(pel.Session, "__init__", listening)
    monkeypatch.setattr(pel.Distribution, "run", run)
    monkeypatch.setattr(pel.Session, "release", lambda self, explainer, **price: explainer_run(self, explainer, **price))
    found = fixed_shape()
    assert not found.passed and "Distribution" in found.text


def explainer_run(session, explainer, **price):
    from pellucid.release.door import Ask

    return explainer.run(Ask(session._engine.totals, session.plan(explainer, **price)))


@pytest.mark.parametrize("how", ["reads", "waits"])
def test_a_refusal_that_looks_at_rows_is_noticed(how, monkeypatch):
    whole = pel.Session.release

    def looking(self, explainer, **price):
        if how == "reads":
            self._engine.totals(self.plan(explainer, epsilon=1.0).stages[0].query)
        else:
            time.sleep(self._engine.rows * 1e-6)
        return whole(self, explainer, **price)

    monkeypatch.setattr(pel.Session, "release", looking)
    assert not quiet_refusal().passed


def test_checks_of_models_can_fail(monkeypatch):
    """A session that tries nothing, and questions as they come."""
    from controls import as_they_come, never_tried

    with pytest.MonkeyPatch.context() as patch:
        never_tried(patch)
        assert not own_rows_alone().passed
    as_they_come(monkeypatch)
    assert not one_shape().passed


@pytest.mark.slow
def test_a_release_that_tells_an_exact_number_is_noticed(monkeypatch):
    """The result of a histogram says how many cells are empty, without noise."""
    whole = pel.Distribution.run

    def run(self, ask):
        made = whole(self, ask)
        empty = ask.totals(ask.plan.stages[0].query).count(0)
        content = made.content
        object.__setattr__(made, "content", lambda: {**content(), "empty": empty})
        return made

    monkeypatch.setattr(pel.Distribution, "run", run)
    found = answers_alone()
    assert not found.passed and "distribution" in found.text


@pytest.mark.slow
def test_shared_noise_is_named(monkeypatch):
    shared_between_histograms(monkeypatch)
    found = released_noise()
    assert not found.passed and "histograms of two clusters" in found.text


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.95, 0.8])
def test_a_little_less_noise_is_noticed(part, monkeypatch):
    scaled_noise(part)(monkeypatch)
    found = released_noise()
    assert not found.passed and "zCDP" in found.text


@pytest.mark.slow
def test_picks_that_are_not_drawn_are_noticed(monkeypatch):
    """From a tie the first candidate is always taken."""
    monkeypatch.setattr("pellucid.explainers.shapley.scores.choose", lambda scores, how: [int(np.argmax(scores))])
    found = released_noise()
    assert not found.passed and "picks" in found.text


@pytest.mark.slow
def test_a_plain_proof_of_a_model_nobody_read_is_noticed(monkeypatch):
    monkeypatch.setattr(pel.PartialDependence, "only_asked", lambda self, plan: ())
    found = no_memory()
    assert not found.passed and "plainly proved" in found.text


def test_a_session_audits_a_request_and_its_certificate_says_so():
    data = {"a": np.linspace(0, 1, 300), "b": [0.5] * 300, "c": ["x", "y", "z"] * 100, "y": [True, False] * 150}
    session = pel.Session(data, SCHEMA, budget=pel.Budget(epsilon=2.0))
    totals, session._engine.totals = session._engine.totals, None
    row = session.audit(COUNTS, epsilon=1.0, runs=800, confidence=0.99999)
    session._engine.totals = totals
    assert row.verdict == "holds" and session.spent == 0
    made = session.release(COUNTS, epsilon=1.0)
    assert made.certificate.audited == row.stamp and f"of a claimed {row.claimed:.2f}" in made.certificate.text
    assert session.release(COUNTS, epsilon=0.5).certificate.audited is None
