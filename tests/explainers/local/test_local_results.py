"""Local explanations as results: everything survives saving, error bars cover, pictures show the numbers, words are honest."""

import dataclasses
import math
import statistics
from fractions import Fraction

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import pellucid as pel
from pellucid.explainers.local.methods import NoisyMoments, one_shot
from pellucid.explainers.local.plots import FAINT
from pellucid.explainers.local.results import LocalExplanation, WordList
from pellucid.public.figure import DOWN, INK
from pellucid.release.explanation import from_json

matplotlib.use("Agg")

NAMES = ("age", "region = north", "region = south", "smoker", "income", "children")
PHI = np.array([0.1, -0.4, 0.4, 0.0, -0.05, 0.2])
STD = np.array([0.02, 0.01, 0.03, 0.004, 0.1, 0.05])
SHORT = {"features": NAMES, "phi": PHI, "std": STD, "half_range": 5.0}


def local(**changes):
    return LocalExplanation(**{**SHORT, **changes})


def paid(**changes):
    return local(**{"output": "price", "number": 4, "rho": 1e-3, "epsilon": 0.16, "excess": 4e-4, "gain": 0.1, **changes})


def handed_on(**changes):
    given = {"source": "reused", "leans_on": (3,), "distance": 0.07, "excess": 4e-4, "gain": 0.1, "drift": 0.035}
    return local(**{**given, **changes})


def fitted(**changes):
    return local(**{"source": "history", "std": None, "leans_on": (1, 4, 7), **changes})


def certificate(**changes):
    """A real certificate, of some other release, with these changes."""
    data = pd.DataFrame({"x": np.linspace(0, 1, 50)})
    schema = pel.Schema({"x": pel.Number(0, 1)})
    account = pel.Session(data, schema, budget=pel.Budget(epsilon=1.0, delta=1e-6))
    model = pel.Model(lambda d: d["x"], output=(0, 1), features=["x"], trained_on="other data")
    made = account.release(pel.PartialDependence(model, "x"), epsilon=0.5).certificate
    return dataclasses.replace(made, **changes)


@pytest.fixture(scope="module")
def proved():
    return certificate()


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.parametrize(
    "one",
    [
        paid(shape=(2, 3), neighbourhood="exp(−r), bandwidth 1"),
        paid(std=None, method="adaptive", leans_on=(2,), number=np.int64(4)),
        handed_on(),
        handed_on(drift=math.inf, gain=-0.01),
        fitted(),
    ],
)
def test_everything_survives_saving(one, proved, tmp_path):
    one = one.certified(proved)
    one.save(tmp_path / "one.json")
    again = pel.load(tmp_path / "one.json")
    assert type(again) is LocalExplanation and again.to_json() == one.to_json() and str(again) == str(one)
    for field in dataclasses.fields(one):
        ours, theirs = getattr(one, field.name), getattr(again, field.name)
        if isinstance(ours, np.ndarray):
            assert isinstance(theirs, np.ndarray) and theirs.dtype == float and (ours == theirs).all()
        else:
            assert ours == theirs and isinstance(theirs, type(ours) if field.name != "number" else int | None), field.name
    assert all(type(number) is int for number in again.leans_on)
    pd.testing.assert_frame_equal(one.to_frame(), again.to_frame())
    assert "age" in one._repr_html_() and "certificate" in one._repr_html_() and "Infinity" not in one.to_json()


@given(arrays(float, 5, elements=st.floats(-1, 1)), arrays(float, 5, elements=st.floats(0, 1)), st.floats(1e-3, 1e6))
def test_any_numbers_survive_saving_and_are_ordered(phi, std, half_range):
    one = LocalExplanation(features=tuple("abcde"), phi=phi, std=std, half_range=half_range)
    again = from_json(one.to_json())
    assert (again.phi == phi).all() and (again.std == std).all() and again.half_range == half_range
    sizes = np.abs(one.values[one.order])
    assert (np.diff(sizes) <= 0).all() and sorted(one.order) == list(range(5))
    lower, upper = one.interval(0.5)
    assert (lower <= one.values).all() and (one.values <= upper).all()
    words = one.words(5)
    assert all(v > 0 for _, v in words.pushing_up) and all(v < 0 for _, v in words.pulling_down)
    # By value, in the units of the output: the smallest φ of all, halved, is nothing.
    assert len(words.pushing_up) + len(words.pulling_down) == np.count_nonzero(one.values)


def test_values_are_in_the_units_of_the_output():
    """A plane without noise around the middle of a symmetric cloud: the change over the whole range of each feature."""
    rng = np.random.default_rng(0)
    half = rng.random((300, 3)) - 0.5
    u = np.concatenate([half, -half])
    change, (lo, hi) = np.array([30.0, -12.0, 4.0]), (100.0, 300.0)
    scaled = (200.0 + u @ change - (lo + hi) / 2) / ((hi - lo) / 2)
    moments = NoisyMoments(u.T @ u, u.T @ scaled, 0.0, 0.0)
    found = one_shot(moments, 1.0)
    one = LocalExplanation(features=("a", "b", "c"), phi=found.phi, std=found.std, half_range=(hi - lo) / 2)
    np.testing.assert_allclose(one.values, change, rtol=1e-8)
    np.testing.assert_allclose(one.interval(), [change, change], rtol=1e-8)


def coverage(level, stretched=1.0, draws=4000):
    noise = np.random.default_rng(1).normal(size=(draws, len(PHI)))
    inside = 0
    for one in (local(phi=PHI + STD * row, std=STD * stretched) for row in noise):
        lower, upper = one.interval(level)
        inside += np.sum((lower <= PHI * 5.0) & (upper >= PHI * 5.0))
    return inside / noise.size


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_intervals_cover_as_often_as_they_say(level):
    assert coverage(level) == pytest.approx(level, abs=0.012)
    assert coverage(level, stretched=0.5) < level - 0.1 and coverage(level, stretched=2.0) > level + 0.03


def test_intervals_are_those_of_the_normal_law():
    lower, upper = local().interval(0.95)
    np.testing.assert_allclose((upper - lower) / 2, 1.959963984540054 * STD * 5.0)
    np.testing.assert_allclose((upper + lower) / 2, PHI * 5.0, atol=1e-12)
    np.testing.assert_allclose(local().half_widths(0.3), statistics.NormalDist().inv_cdf(0.65) * STD * 5.0)
    unknown = local(std=None)
    assert all(len(end) == 6 and np.isnan(end).all() for end in unknown.interval())
    for level in (0, 1, math.nan, "x", None, True):
        for one in (local(), unknown):
            with pytest.raises(pel.PlanError, match=r"0\.95"):
                one.interval(level)


def test_order_and_table():
    one = local()
    # Equal sizes stay in the order of the features, whatever their signs.
    assert one.ranking == ("region = north", "region = south", "children", "age", "income", "smoker")
    assert one.top(2) == (("region = north", -2.0), ("region = south", 2.0)) and len(one.top(50)) == 6
    frame = one.to_frame()
    assert list(frame.columns) == ["feature", "value", "lower", "upper"] and tuple(frame["feature"]) == one.ranking
    by_name = frame.set_index("feature")
    for i, name in enumerate(NAMES):
        assert by_name.loc[name, "value"] == 5 * PHI[i]
        for end, sign in (("lower", -1), ("upper", 1)):
            assert by_name.loc[name, end] - 5 * PHI[i] == pytest.approx(sign * 1.96 * 5 * STD[i], rel=1e-3)
    without = local(std=None).to_frame()
    assert list(without.columns) == list(frame.columns) and without[["lower", "upper"]].isna().all(axis=None)


def test_words_by_sign_and_size_with_ties():
    one = local(features=tuple("abcdef"), phi=[0.1, -0.2, 0.3, 0.0, 0.1, -0.2])
    assert one.words() == WordList((("c", 1.5), ("a", 0.5), ("e", 0.5)), (("b", -1.0), ("f", -1.0)))
    assert one.words(1) == WordList((("c", 1.5),), (("b", -1.0),))
    up = local(phi=np.abs(PHI)).words(2)
    assert up.pulling_down == () and len(str(up).splitlines()) == 3
    assert str(local(phi=np.zeros(6)).words()) == "pushing up   pulling down"
    lines = str(one.words()).splitlines()
    assert len(lines) == 4 and "+1.5" in lines[1] and "-1" in lines[1] and lines[3].strip() == "e  +0.5"
    for wrong in (0, -1, 2.5, True, None):
        for ask in (one.words, one.top, lambda k: one.plot(most=k), lambda k: one.word_plot(k=k)):
            with pytest.raises(pel.PlanError, match="whole number from 1"):
                ask(wrong)


def test_relative_excess():
    assert paid().relative_excess == pytest.approx(0.004)
    assert paid(excess=None).relative_excess is None and paid(gain=None).relative_excess is None
    assert 1 < paid(gain=-0.3).relative_excess < math.inf and paid(gain=0.0, excess=0.0).relative_excess == 0.0


def test_a_paid_answer_in_words(proved):
    text = str(paid(neighbourhood="exp(−r), bandwidth 1"))
    lines = text.splitlines()
    assert lines[0] == "local linear explanation of price, exp(−r), bandwidth 1"
    assert lines[1] == "answer 4, computed from the records for ρ = 0.001 (ε = 0.16 at the account's δ)"
    assert [line.split("  ")[1] for line in lines[2:7]] == list(paid().ranking[:5]) and lines[7] == "  and 1 smaller"
    assert "-2 " in lines[2] and lines[2].endswith("± 0.098")
    assert lines[8] == "noise is expected to cost 0.4 % of what the explanation explains" and len(lines) == 9
    assert "at δ = 1e-06)" in str(paid().certified(proved)) and "account's" not in str(paid().certified(proved))
    assert "±" not in str(paid(std=None)) and "no bound" in str(paid(std=None, method="descent"))
    assert "starting from answer 2" in str(paid(leans_on=(2,), method="adaptive"))
    assert "read nothing into it" in str(paid(gain=-0.1)) and "not known" in str(paid(excess=None))
    assert "0.0004 of the loss" in str(paid(gain=None)) and "less than 0.01 %" in str(paid(excess=1e-9))
    assert " 12 % " in str(paid(excess=0.012)) and "smaller" not in str(local(features=("a",), phi=[1], std=[0]))


def test_a_handed_on_answer_in_words():
    text = str(handed_on())
    assert "handed on from answer 3 at distance 0.07, free" in text and "computed" not in text
    assert "0.4 % of what the explanation explains" in text and "at most 0.035 per record" in text and "certified" in text
    far = handed_on(drift=math.inf)
    assert far.drift is None and "certified" not in str(far) and "no bound is known on what the distance costs" in str(far)


def test_an_answer_from_history_in_words():
    text = str(fitted())
    assert "fitted to answers 1, 4, 7; no records were read, free" in text and "±" not in text and "ρ" not in text
    assert text.splitlines()[-1].startswith("no bound is known") and "certified" not in text
    assert "answers 0, 1, 2, 3, 4, 5 and 4 others;" in str(fitted(leans_on=tuple(range(10))))
    assert "fitted to answer 8;" in str(fitted(leans_on=(8,)))


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        ({"phi": PHI[:5]}, "one number per feature"),
        ({"phi": PHI.reshape(2, 3)}, "one number per feature"),
        ({"features": (), "phi": [], "std": None}, "one number per feature"),
        ({"std": STD[:2]}, "one number per feature"),
        ({"std": -STD}, "or None"),
        ({"phi": [math.nan, 0, 0, 0, 0, 0]}, "give finite"),
        ({"std": [math.inf, 0, 0, 0, 0, 0]}, "give finite"),
        ({"half_range": 0.0}, "above 0"),
        ({"half_range": math.inf}, "finite"),
        ({"half_range": None}, "finite"),
        ({"rho": math.nan}, "finite number from 0"),
        ({"rho": -0.1}, "from 0"),
        ({"epsilon": math.inf}, "finite"),
        ({"excess": -1.0}, "from 0"),
        ({"gain": math.inf}, "finite number"),
        ({"drift": math.nan}, "finite"),
        ({"distance": -1}, "from 0"),
        ({"number": -1}, "from 0"),
        ({"number": 1.5}, "whole number"),
        ({"source": "guess"}, "data, reused, history"),
        ({"source": "history"}, "leans_on"),
        ({"source": "reused", "leans_on": (1,)}, "distance"),
        ({"source": "reused", "leans_on": (1, 2), "distance": 0.1}, "leans_on="),
        ({"source": "history", "leans_on": (1,), "rho": 0.1}, "leave rho"),
        ({"shape": (2, 2)}, "product is 6"),
        ({"shape": (6,)}, "pair"),
        ({"shape": (-2, -3)}, "whole numbers"),
        ({"shape": (2.0, 3.0)}, "whole numbers"),
        ({"shape": "23"}, "pair"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_fix(changes, fix):
    with pytest.raises(pel.PlanError, match=fix):
        local(**changes)


def test_numbers_of_a_stream_are_taken_as_they_come():
    one = local(phi=tuple(PHI), std=tuple(STD), rho=Fraction(1, 8), leans_on=[np.int64(2)], features=list(NAMES), shape=[3, 2])
    assert one.rho == 0.125 and type(one.rho) is float and one.leans_on == (2,) and one.shape == (3, 2)
    given = PHI.copy()
    kept = local(phi=given)
    given[:] = 9
    assert (kept.phi == PHI).all()
    assert from_json(one.to_json()).features == NAMES


def drawn(ax):
    """(widths, colours) of the bars from top to bottom."""
    bars = sorted(ax.patches, key=lambda bar: -bar.get_y())
    return [bar.get_width() for bar in bars], [matplotlib.colors.to_hex(bar.get_facecolor()) for bar in bars]


def test_bars_show_the_largest_values_with_their_errors(proved):
    one = paid(neighbourhood="exp(−r)").certified(proved)
    ax = one.plot(most=4)
    widths, colours = drawn(ax)
    np.testing.assert_allclose(widths, [-2.0, 2.0, 1.0, 0.5])
    assert colours == [DOWN, INK, INK, INK] and "4 largest of 6" in ax.get_xlabel() and "exp(−r)" in ax.get_xlabel()
    names = [label.get_text() for _, label in sorted(zip(ax.get_yticks(), ax.get_yticklabels()), key=lambda one: -one[0])]
    assert names == list(one.ranking[:4])
    ends = np.array([sorted(path[:, 0]) for path in ax.containers[1].lines[2][0].get_segments()])
    np.testing.assert_allclose(ends.T, [end[one.order[:4]] for end in one.interval()])
    title = " ".join(ax.get_title(loc="right").split())
    assert "computed from the records for ρ = 0.001 (ε = 0.16 at δ = 1e-06)" in title
    assert "proved for row-wise models · 95 % error bars" in title
    assert len(one.plot().patches) == 6 and "largest" not in one.plot().get_xlabel()
    bare = local(std=None).plot()
    assert "error not known" in bare.get_title(loc="right") and len(bare.containers) == 1
    assert "handed on from answer 3" in handed_on().plot().get_title(loc="right")
    assert "no records were read" in " ".join(fitted().plot().get_title(loc="right").split())
    broken = paid().certified(dataclasses.replace(proved, status="not private")).plot()
    assert "NOT PRIVATE" in broken.get_title(loc="right") and "proved" not in broken.get_title(loc="right")


def test_pictures_go_where_they_are_told():
    _, axes = plt.subplots(1, 3)
    one = local(shape=(2, 3))
    assert dataclasses.replace(one, shape=None).plot(axes[0]) is axes[0]
    assert one.plot(axes[1]) is axes[1] and one.word_plot(axes[2]) is axes[2]
    assert len(axes[0].patches) == 6 and len(axes[1].images) == 1 and len(axes[2].texts) == 5


def test_heat_map_is_the_values_row_by_row():
    one = local(shape=(2, 3))
    (image,) = one.plot().images
    np.testing.assert_array_equal(image.get_array(), (PHI * 5.0).reshape(2, 3))
    assert image.norm.vmin == -2.0 and image.norm.vmax == 2.0 and image.colorbar is not None
    low, middle, high = image.cmap([0.0, 0.5, 1.0])
    assert matplotlib.colors.to_hex(low) == DOWN and matplotlib.colors.to_hex(high) == INK and min(middle[:3]) > 0.98
    # Only the fourth and the fifth value lie within 1.96 standard deviations of zero.
    np.testing.assert_array_equal(image.get_alpha(), [[1, 1, 1], [FAINT, FAINT, 1]])
    np.testing.assert_array_equal(local().heat_map(shape=(3, 2)).images[0].get_array(), (PHI * 5.0).reshape(3, 2))
    one_sided = local(phi=PHI + 0.4).heat_map(shape=(2, 3)).images[0].norm
    assert -one_sided.vmin == one_sided.vmax == 4.0
    plain = local(std=None, phi=np.zeros(6)).heat_map(shape=(1, 6))
    assert plain.images[0].get_alpha() is None and plain.images[0].norm.vmax > 0
    plain.figure.canvas.draw()
    with pytest.raises(pel.PlanError, match=r"heat_map\(shape=\(rows, columns\)\) with a product of 6"):
        local().heat_map()
    with pytest.raises(pel.PlanError, match="product is 6"):
        one.heat_map(shape=(2, 4))


def test_word_plot_puts_ups_right_and_downs_left():
    one = local(features=("good", "bad", "great", "nothing", "slow", "a very long expression indeed"))
    ax = one.word_plot(k=2)
    assert sorted(bar.get_width() for bar in ax.patches) == pytest.approx([-2.0, -0.25, 1.0, 2.0])
    for bar in ax.patches:
        assert matplotlib.colors.to_hex(bar.get_facecolor()) == (INK if bar.get_width() > 0 else DOWN)
    at = {text.get_text(): text.get_position() for text in ax.texts}
    assert set(at) == {"great", "a very long expre…", "bad", "slow"}
    assert at["great"][0] > 2.0 and at["bad"][0] < -2.0 and at["great"][1] == at["bad"][1] > at["slow"][1]
    assert "price" in paid().word_plot().get_xlabel()
    empty = local(phi=np.zeros(6), std=None).word_plot()
    assert not empty.patches and not empty.texts
    empty.figure.canvas.draw()
