"""An audit is worth something if it catches what breaks a promise: controls patched into the code that makes releases."""

import numpy as np
import pytest
from controls import CONTROLS, COUNTS, CURVE, MEAN, SCHEMA

import pellucid as pel
from pellucid.audit import World, play, search
from pellucid.audit.checks import checks, fresh_noise, low_bits, no_canaries, own_noise
from pellucid.audit.estimate import bound_of, lower_bound
from pellucid.audit.learned import told_apart
from pellucid.audit.search import moved
from pellucid.mechanisms import noise
from pellucid.release.explanation import Explanation


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_controls_are_caught(control, monkeypatch):
    control.patch(monkeypatch)
    if control.caught_by == "game":
        assert play(control.explainer, control.world, runs=3000, confidence=0.999, pair=control.pair).verdict.startswith("broken")
    elif control.pair is not None:
        assert moved(control.explainer, control.world, control.pair).broken
    else:
        assert search(control.explainer, control.world, 60).broken


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


@pytest.mark.parametrize("check", checks(), ids=lambda check: check.__name__)
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
    monkeypatch.setattr("pellucid.audit.checks.add_noise", Patched(noise.add_noise, how))
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


def test_a_session_audits_a_request_and_its_certificate_says_so():
    data = {"a": np.linspace(0, 1, 300), "b": [0.5] * 300, "c": ["x", "y", "z"] * 100, "y": [True, False] * 150}
    session = pel.Session(data, SCHEMA, budget=pel.Budget(epsilon=2.0))
    totals, session._engine.totals = session._engine.totals, None
    row = session.audit(COUNTS, epsilon=1.0, runs=800)
    session._engine.totals = totals
    assert row.verdict == "holds" and session.spent == 0
    made = session.release(COUNTS, epsilon=1.0)
    assert made.certificate.audited == row.stamp and f"of a claimed {row.claimed:.2f}" in made.certificate.text
    assert session.release(COUNTS, epsilon=0.5).certificate.audited is None
