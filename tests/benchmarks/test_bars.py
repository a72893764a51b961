"""The bars study: exact derivatives, real clipping, noise of the right size, honest accounting, words that follow the numbers."""

import builtins
import dataclasses
import json
import math
import re

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld, rdp
from network_bars import APPENDIX, CONTROLS, MEASURES, NOTEBOOK, Network, PixelStatistics, Privacy, Reading
from network_bars import network as network_of_bars
from network_bars import study as study_of_bars
from scipy import stats

from pellucid.errors import PlanError

READINGS = pytest.mark.parametrize("reading", [APPENDIX, NOTEBOOK], ids=lambda r: r.name)


@pytest.fixture(scope="module")
def study():
    return study_of_bars.bars_study(seed=3, steps=(40, 120), each=60, progress=False)


def made(reading, seed=0, each=4):
    rng = np.random.default_rng(seed)
    return network_of_bars.initial_network(rng, reading), *network_of_bars.draw_images(rng, each, reading)


def losses(network, x, y):
    """The cross-entropy of every image, written down once more and differently."""
    p = 1 / (1 + np.exp(-network.forward(x)[2]))
    return -(y * np.log(p) + (1 - y) * np.log(1 - p))


def differences(function, at, step=1e-5):
    """Central differences of a function of one row per image, pixel by pixel."""
    return np.stack([(function(at + e) - function(at - e)) / (2 * step) for e in step * np.eye(at.shape[1])], axis=1)


@READINGS
def test_gradients_by_pixels_agree_with_differences(reading):
    network, x, y = made(reading)
    wanted = differences(lambda v: losses(network, v, y), x)
    found = network_of_bars.input_gradient(network, x, y)
    assert np.abs(found - wanted).max() <= 1e-6 * np.abs(wanted).max()


@READINGS
def test_gradient_by_weights_agrees_with_differences(reading):
    network, x, y = made(reading)
    found, loss = network_of_bars.gradient_sum(network, x, y)
    wanted = differences(lambda w: losses(Network(w[0], network.middle), x, y).sum()[None], network.weights[None])[0]
    assert np.abs(found - wanted).max() <= 1e-6 * np.abs(wanted).max()
    assert loss == pytest.approx(losses(network, x, y).mean(), rel=1e-12)


@READINGS
def test_gradient_of_the_gradient_norm_agrees_with_differences_and_with_the_hessian(reading):
    network, x, y = made(reading)
    found = network_of_bars.partial_sensitivities(network, x, y)["gradient"]
    norms = differences(lambda v: np.linalg.norm(network_of_bars.input_gradient(network, v, y), axis=1), x)
    assert np.abs(found - norms).max() <= 1e-6 * np.abs(norms).max()
    hessian = differences(lambda v: network_of_bars.input_gradient(network, v, y), x)
    g = network_of_bars.input_gradient(network, x, y)
    product = np.einsum("nij,nj->ni", hessian, g / np.linalg.norm(g, axis=1, keepdims=True))
    assert np.abs(found - product).max() <= 1e-6 * np.abs(product).max()


@READINGS
def test_squares_of_shares_sum_to_one_and_those_of_the_joint_measure_to_less(reading):
    found = network_of_bars.partial_sensitivities(*made(reading, each=50))
    assert np.allclose((found["share"] ** 2).sum(axis=1), 1, rtol=1e-12)
    assert ((found["joint"] ** 2).sum(axis=1) < 1).all()


def test_a_share_is_the_direction_of_the_logits_gradient_however_well_an_image_is_fitted():
    network, x, y = made(APPENDIX, each=20)
    by_logit = network.backward(x, y)[3]
    ones = network.backward(x, y)[5] / by_logit[:, None] @ network.parts()[0].T
    direction = np.where(y > 0, -1, 1)[:, None] * ones / np.linalg.norm(ones, axis=1, keepdims=True)
    assert np.allclose(network_of_bars.partial_sensitivities(network, x, y)["share"], direction, atol=1e-12)


@READINGS
@pytest.mark.parametrize("joint", [False, True])
def test_norms_are_those_of_gradients_written_out(reading, joint):
    network, x, y = made(reading, each=10)
    for i, norm in enumerate(network_of_bars.gradient_norms(network, x, y, joint)):
        one = slice(i, i + 1)
        parts = [network_of_bars.gradient_sum(network, x[one], y[one])[0]]
        if joint:
            by_label = losses(network, x[one], np.ones(1)) - losses(network, x[one], np.zeros(1))
            parts += [network_of_bars.input_gradient(network, x[one], y[one])[0], by_label]
        assert norm == pytest.approx(np.linalg.norm(np.concatenate(parts)), rel=1e-10)


@READINGS
def test_clipping_bounds_what_one_image_adds(reading):
    network, x, y = made(reading, each=100)
    whole = network_of_bars.gradient_norms(network, x, y)
    clip = float(np.median(whole))
    full, rest = network_of_bars.gradient_sum(network, x, y, clip)[0], None
    for i in range(len(x)):
        one = slice(i, i + 1)
        alone, plain = (network_of_bars.gradient_sum(network, x[one], y[one], c)[0] for c in (clip, None))
        assert np.linalg.norm(alone) == pytest.approx(min(clip, whole[i]), rel=1e-9)
        assert np.allclose(alone, plain * min(1, clip / whole[i]), atol=1e-12)
        rest = alone if rest is None else rest + alone
    assert np.allclose(full, rest, atol=1e-10)


def noise_of(reading, scale=1.0, steps=40):
    """What was added to the sum in each step, recovered from the weights of a run."""
    network, x, y = made(reading, each=20)
    deviation = scale * reading.multiplier * reading.clip
    run = network_of_bars.train(
        network, x, y, np.random.default_rng(1), steps=steps, clip=reading.clip, noise=deviation, reading=reading
    )
    sums = [network_of_bars.gradient_sum(run.after(t), x, y, reading.clip, reading.joint)[0] for t in range(steps)]
    moved = -np.diff(run.weights, axis=0) / reading.rate
    return ((moved - np.array(sums) / len(x)) * (reading.noise_over or len(x))).ravel()


def accepted(draws, deviation, level=1e-4):
    """A two-sided test of the variance and one of the shape."""
    tail = stats.chi2.cdf(np.sum((draws / deviation) ** 2), len(draws))
    return min(tail, 1 - tail) > level / 2 and stats.kstest(draws / deviation, "norm").pvalue > level


@READINGS
def test_noise_is_accepted_at_its_scale_and_rejected_at_thirty_percent_off(reading):
    deviation = reading.multiplier * reading.clip
    assert accepted(noise_of(reading), deviation)
    for wrong in (0.7, 1.3):
        assert not accepted(noise_of(reading, wrong), deviation)


def test_study_gives_each_network_its_clipping_and_noise(monkeypatch):
    asked = {}
    real = network_of_bars.train

    def spy(*args, clip, noise, label, **more):
        asked[label] = (clip, noise)
        return real(*args, clip=clip, noise=noise, **more)

    monkeypatch.setattr(study_of_bars, "train", spy)
    study_of_bars.bars_study(steps=(2,), each=5)
    assert asked == {
        "bars: SGD": (None, 0.0),
        "bars: DP-SGD": (0.1, 0.5),
        "bars: clipping only": (0.1, 0.0),
        "bars: noise only": (None, 0.5),
    }


@pytest.mark.parametrize(("steps", "multiplier"), [(1, 5.0), (30, 5.0), (100, 5.0), (2000, 167.0)])
def test_accounting_agrees_with_an_independent_accountant(steps, multiplier):
    ours = Privacy(steps, multiplier)
    event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(multiplier), steps)
    renyi = rdp.RdpAccountant(orders=np.r_[1.01:20:0.01, 20:400:0.5]).compose(event).get_epsilon(ours.delta)
    assert ours.rho == pytest.approx(steps / (2 * multiplier**2))
    assert ours.epsilon == pytest.approx(renyi, rel=1e-2)
    assert ours.exact_epsilon < ours.epsilon
    # Its composition is numerical, step by step, and knows nothing of ours; its rounding is to the costly side.
    composed = pld.PLDAccountant(value_discretization_interval=1e-3 / math.sqrt(steps)).compose(event).get_epsilon(ours.delta)
    assert ours.exact_epsilon == pytest.approx(composed, rel=5e-3)


def test_exact_epsilon_is_the_smallest_with_its_delta():
    for mu in (0.05, 0.3, 1.0, 8.0, 40.0):
        epsilon = network_of_bars.gaussian_epsilon(mu, 1e-5)
        assert network_of_bars.gaussian_delta(epsilon, mu) <= 1e-5 < network_of_bars.gaussian_delta(epsilon * (1 - 1e-6), mu)


def test_noise_divided_by_fewer_images_counts_as_a_larger_multiplier():
    assert study_of_bars.privacy_of(10, NOTEBOOK, 2000).multiplier == 10
    assert study_of_bars.privacy_of(10, APPENDIX, 2000).multiplier == 5


def test_images_are_bars_in_noise_and_inverted_when_asked():
    rng = np.random.default_rng(0)
    x, y = network_of_bars.draw_images(rng, 2000)
    middle = x[y == 0].mean(axis=0).reshape(5, 5)
    assert np.allclose(middle[:, 2], 1, atol=0.03) and np.allclose(np.delete(middle, 2, axis=1), 0, atol=0.03)
    assert x[y == 1].mean(axis=0).reshape(5, 5)[2].mean() == pytest.approx(1, abs=0.02)
    assert (x - network_of_bars.BARS[y.astype(int)]).std() == pytest.approx(0.2, rel=0.02)
    inverted, _ = network_of_bars.draw_images(np.random.default_rng(0), 2000, Reading(ink=0.0))
    assert np.allclose(x - network_of_bars.BARS[y.astype(int)], inverted - (1 - network_of_bars.BARS)[y.astype(int)])
    stretched, _ = network_of_bars.draw_images(rng, 10, NOTEBOOK)
    assert np.allclose(stretched.min(axis=1), 0) and np.allclose(stretched.max(axis=1), 1)


def test_statistics_on_values_made_to_measure():
    values = np.zeros((2, 4, 25))
    values[:, :, 0] = [1, 1, 1, -1]
    values[0] += 9 * (network_of_bars.BARS[1] - network_of_bars.BARS[0])
    values[1] += 9 * (network_of_bars.BARS[0] - network_of_bars.BARS[1])
    found = PixelStatistics.of(values)
    assert found.mean[0, 0] == 0.5 and found.agreement[0, 0] == 0.75 and found.maximum[0, 0] == 1
    assert found.concentration[0, 0] == pytest.approx(0.5 / math.sqrt(0.75))
    assert found.on_other_bar() == (4, 4)
    assert found.other_and_unrelated() == (9.0, pytest.approx(1 / 16))
    own = PixelStatistics.of(-values)
    assert own.on_other_bar() == (0, 0)


def test_sgd_learns_and_equal_loss_is_equal():
    look = study_of_bars.bars_study(seed=7, steps=(600,), each=250, progress=False).looks[0]
    assert look.accuracy["SGD"] >= 0.99 and look.loss["SGD"] < 0.1
    assert look.loss["SGD at equal loss"] == pytest.approx(look.loss["DP-SGD"], rel=0.05)
    assert look.equal_loss_steps < look.steps


def test_same_seed_same_study(study):
    again = study_of_bars.bars_study(seed=3, steps=(120, 40), each=60, progress=False)
    assert again.as_dict() == study.as_dict() and again.text == study.text


def altered(study, spread, shift):
    """The study with DP-SGD's statistics replaced: SGD's, with spread and mean multiplied."""
    looks = []
    for look in study.looks:
        changed = {m: dataclasses.replace(s, std=s.std * spread, mean=s.mean * shift) for m, s in look.statistics["SGD"].items()}
        looks.append(dataclasses.replace(look, statistics={**look.statistics, "DP-SGD": changed}))
    return dataclasses.replace(study, looks=tuple(looks))


@pytest.mark.parametrize(
    ("spread", "shift", "words"),
    [
        (2.0, 0.5, "more dispersed than under SGD and nearer to zero: as the paper reports"),
        (2.0, 1.0, "more dispersed than under SGD and as far from zero: NOT as the paper reports"),
        (2.0, 3.0, "more dispersed than under SGD and further from zero: NOT as the paper reports"),
        (1.0, 1.0, "as dispersed as under SGD and as far from zero: NOT as the paper reports"),
        (0.5, 0.5, "less dispersed than under SGD and nearer to zero: NOT as the paper reports"),
    ],
)
def test_words_follow_the_numbers(study, spread, shift, words):
    made_up = altered(study, spread, shift)
    comparisons = len(study.looks) * len(MEASURES)
    assert made_up.text.count(words) == comparisons
    held = comparisons if ": as the paper" in words else 0
    assert f"That is so in {held} of {comparisons} comparisons" in made_up.text
    assert made_up.text.count("relative to SGD: DP-SGD " + f"{spread:.2f} / {shift:.2f}") == comparisons


def test_no_cause_is_named_unless_clipping_alone_does_the_same(study):
    assert "The difference comes from" not in altered(study, 1.0, 1.0).text
    assert "The difference comes from" not in altered(study, 50.0, 0.02).text
    for look in study.looks:
        for measure in MEASURES:
            dp, clip, noise, equal, _ = (look.contrast(name, measure) for name in CONTROLS)
            words = study_of_bars._verdict(look, measure)
            assert ("comes from" in words) == (study_of_bars._near(clip, dp) and not study_of_bars._near(dp, None))
            assert ("not noise" in words) <= study_of_bars._near(noise, None)
            assert ("differs as much" in words) <= study_of_bars._near(equal, dp)


def test_text_warns_when_dp_sgd_has_not_learnt(study):
    def with_accuracy(value):
        looks = tuple(dataclasses.replace(k, accuracy={**k.accuracy, "DP-SGD": value}) for k in study.looks)
        return dataclasses.replace(study, looks=looks).text

    assert with_accuracy(0.5).count("has not learnt") == len(study.looks)
    assert "has not learnt" not in with_accuracy(1.0)
    assert "not a release" in study.text


def test_text_gives_the_cost_it_was_trained_with(study):
    for look, cost in zip(
        study.looks, re.findall(r"cost ρ = (\S+): ε = (\S+) by the zCDP conversion, (\S+) exactly", study.text)
    ):
        privacy = Privacy(look.steps, 5.0)
        wanted = (privacy.rho, privacy.epsilon, privacy.exact_epsilon)
        assert [float(v) for v in cost] == pytest.approx(wanted, abs=0.051)


def test_save_writes_figures_statistics_and_text(study, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.setattr(study_of_bars, "MEASURES", ("share", "gradient"))
    short = dataclasses.replace(study, looks=study.looks[:1])
    written = short.save(tmp_path / "new" / "folder")
    assert {path.suffix for path in written} == {".png", ".json", ".txt"} and all(path.stat().st_size for path in written)
    kept = json.loads(written[1].read_text(encoding="utf-8"))
    pixels = kept["looks"][0]["networks"]["DP-SGD"]["share"]["pixels"]
    assert np.allclose(pixels["mean"], short.looks[0].statistics["DP-SGD"]["share"].mean)
    assert written[0].read_text(encoding="utf-8") == short.text


def test_without_matplotlib_the_error_says_what_to_install_before_any_training(monkeypatch, tmp_path):
    real = builtins.__import__

    def missing(name, *args, **more):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    monkeypatch.setattr(study_of_bars, "train", lambda *args, **more: pytest.fail("trained first"))
    with pytest.raises(PlanError, match=r"pellucid\[plots\]"):
        study_of_bars.bars_study(tmp_path)


@pytest.mark.parametrize("wrong", [{"steps": ()}, {"steps": (0,)}, {"steps": (10,), "sgd_steps": 11}])
def test_wrong_lengths_are_refused(wrong):
    with pytest.raises(PlanError, match="steps"):
        study_of_bars.bars_study(progress=False, **wrong)


def test_unknown_choices_are_refused(study):
    for ask in (
        lambda: study.plot("shares"),
        lambda: study.plot_maps("x"),
        lambda: study.plot(kind="diagonal"),
        lambda: study.plot(steps=7),
    ):
        with pytest.raises(PlanError):
            ask()
