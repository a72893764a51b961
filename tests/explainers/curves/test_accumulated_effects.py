"""Accumulated effects, with the noise switched off, equal a brute-force average over tie orders; wrong requests cost nothing."""

import functools

import numpy as np
import pytest
from people import make_people, risk

import pellucid as pel
from pellucid.explainers.curves import accumulate
from pellucid.explainers.curves.steps import ClippedSteps, CombinedSteps

BUDGET = pel.Budget(epsilon=100.0)


def release(data, schema, explainer, relation="replace", budget=BUDGET, **options):
    return pel.Session(data, schema, budget=budget, neighbors=relation, **options).release(explainer, share=1)


def brute_force_ale(values, predict, grid, intervals):
    """Accumulated effects averaged over random tie orders: sort, cut into blocks of equal size, average each block's steps."""
    n, curves = len(values), []
    for seed in range(400):
        order = np.lexsort((np.random.default_rng(seed).random(n), values))
        borders = np.array([min(n - 1, int(k * n / intervals)) for k in range(intervals + 1)])
        edges = values[order][borders]
        at, y = [edges[0]], [0.0]
        for k in range(intervals):
            if edges[k + 1] > edges[k]:
                block = order[borders[k] : borders[k + 1]] if k < intervals - 1 else order[borders[k] :]
                y.append(y[-1] + np.mean(predict(block, edges[k + 1]) - predict(block, edges[k])))
                at.append(edges[k + 1])
        curves.append(np.interp(grid, at, y))
    return np.mean(curves, axis=0)


def test_accumulated_effects_equal_the_average_over_tie_orders(silent, schema, model):
    people = make_people(1200, 5)
    ours = release(people, schema, pel.AccumulatedEffects(model, "age", intervals=11), budget=pel.Budget(epsilon=1000.0))
    at = functools.cache(lambda value: risk(people.assign(age=value)).to_numpy())
    predict = lambda rows, value: at(value)[rows]  # noqa: E731
    grid = np.arange(17, 91)
    expected = brute_force_ale(people["age"].to_numpy(), predict, grid, 11)
    assert ours.clip == 1.0 or ours.clip >= 0.05
    got = np.interp(grid, ours.x, ours.y)
    assert np.abs((got - got[0]) - (expected - expected[0])).max() < 0.006
    assert abs(np.interp(people["age"], ours.x, ours.y).mean()) < 1e-6


def test_accumulated_effects_of_categories(silent, people, schema, model):
    ours = release(people, schema, pel.AccumulatedEffects(model, "school"), budget=pel.Budget(epsilon=1000.0))
    levels = list(schema["school"].values)
    steps = []
    for here, there in zip(levels[:-1], levels[1:]):
        who = people[people["school"] == here]
        steps.append((risk(who.assign(school=there)) - risk(who)).mean())
    np.testing.assert_allclose(np.diff(ours.y), steps, atol=2e-4)
    assert ours.x == tuple(levels) and len(ours.counts) == 3 and ours.categorical
    np.testing.assert_allclose(ours.counts, people["school"].value_counts()[levels[:-1]], atol=1e-6)


def test_a_linear_model_has_a_linear_effect(silent, schema):
    """On a linear model the accumulated effect is the line itself, whatever the distribution."""
    rng = np.random.default_rng(0)
    people = make_people(4000).assign(bmi=rng.exponential(6, 4000) + 10)
    model = pel.Model(lambda d: (d["bmi"] - 10) / 100, output=(0, 1), features=["bmi"], trained_on="other data")
    ours = release(people, schema, pel.AccumulatedEffects(model, "bmi"), budget=pel.Budget(epsilon=1000.0))
    slopes = np.diff(ours.y) / np.diff(ours.x)
    inner = slopes[: int(0.8 * len(slopes))]
    np.testing.assert_allclose(inner, 0.01, rtol=0.02)


@pytest.mark.parametrize(
    ("explainer", "words"),
    [
        (lambda m: pel.AccumulatedEffects(m, "age", intervals=0), "whole number"),
        (lambda m: pel.AccumulatedEffects(m, "agee"), "does not use"),
    ],
)
def test_wrong_requests_are_refused_before_anything_is_charged(explainer, words, people, schema, model):
    session = pel.Session(people, schema, budget=BUDGET)
    with pytest.raises(pel.PellucidError, match=words):
        session.release(explainer(model), epsilon=1.0)
    assert session.spent == 0


def test_nobody_has_a_value(schema):
    """All mass in the missing cell: still a release, not an error after payment."""
    nobody = make_people(500).assign(lab=np.nan)
    model = pel.Model(lambda d: np.nan_to_num(d["lab"]) / 5, output=(0, 1), features=["lab"], trained_on="other data")
    for seed in range(5):
        result = release(nobody, schema, pel.AccumulatedEffects(model, "lab"), "add-remove", budget=pel.Budget(40.0 + seed))
        assert np.isfinite(result.y).all()


def test_a_factorisation_changes_the_noise_not_the_curve(silent, people, schema, model):
    for name in ("age", "school"):
        pure, zcdp = (
            release(people, schema, pel.AccumulatedEffects(model, name, intervals=11), budget=budget)
            for budget in (pel.Budget(epsilon=1000.0), pel.Budget(epsilon=900.0, delta=1e-6))
        )
        np.testing.assert_allclose(pure.y, zcdp.y, atol=1e-4)


def test_too_many_categories_are_refused_before_paying():
    wide = pel.Schema({"c": pel.Category(list(range(1100)))})
    model = pel.Model(lambda d: d["c"] / 1100, output=(0, 1), features=["c"], trained_on="other data")
    session = pel.Session({"c": list(range(1100))}, wide, budget=pel.Budget(epsilon=1.0, delta=1e-6, accounting="zcdp"))
    with pytest.raises(pel.PlanError, match="1024"):
        session.release(pel.AccumulatedEffects(model, "c"), epsilon=0.5)
    assert session.spent == 0
    assert len(release({"c": list(range(1100))}, wide, pel.AccumulatedEffects(model, "c")).x) == 1100


def test_what_is_known_in_advance_is_planned(people, schema, model):
    session = pel.Session(people, schema, budget=BUDGET)
    plan = session.plan(pel.AccumulatedEffects(model, ["age", "sex"]), epsilon=1.0)
    assert [stage.name for stage in plan.stages] == ["places", "clip age", "clip sex", "steps"]
    assert plan["places"].query is not None and plan["clip age"].query is None and plan["steps"].query is None
    age, sex = plan.details.along
    assert len(age.grid) == 74 and sex.intervals == 1
    # One record is replaced: it leaves one cell of each of two histograms and enters another, for a fifth of ε = 1.
    assert plan["places"].noise.scale == pytest.approx(4 / 0.2)


def test_intervals_by_position_are_the_same_request_and_a_warning(model):
    with pytest.warns(DeprecationWarning, match="intervals= by keyword"):
        old = pel.AccumulatedEffects(model, "age", 5)
    assert old == pel.AccumulatedEffects(model, "age", intervals=5)


def test_tables_have_a_row_per_border(seeded, people, schema, model):
    made = release(people, schema, pel.AccumulatedEffects(model, ["age", "school"]))
    frame = made.to_frame()
    assert list(frame) == ["feature", "x", "value", "lower", "upper"]
    assert frame["x"].tolist() == [*made["age"].x, *schema["school"].values]
    np.testing.assert_array_equal(frame["value"], np.concatenate([made["age"].y, made["school"].y]))
    assert (frame["lower"] < frame["value"]).all() and (frame["value"] < frame["upper"]).all()


@pytest.mark.parametrize("output", [(0, 5e-324), (0, 1e-275), (-1e308, 1e308)])
def test_outputs_that_floats_cannot_step_through_are_refused(people, schema, output):
    session = pel.Session(people, schema, budget=BUDGET)
    with pytest.raises(pel.PellucidError, match="range"):
        session.release(
            pel.AccumulatedEffects(pel.Model(lambda d: d["bmi"] * 0, output=output, trained_on="other data"), "age"), epsilon=1
        )
    assert session.spent == 0


@pytest.mark.parametrize("hidden", [0.11, 0.2, 0.4, 1.0])
@pytest.mark.parametrize(("kind", "norm"), [(ClippedSteps, np.add), (CombinedSteps, np.hypot)], ids=["L1", "Euclidean"])
def test_steps_and_what_is_cut_off_share_the_ball(kind, norm, hidden):
    """Whatever a record's steps add up to: they use the ball up and no more, and nothing is lost uncounted up to `hidden`."""
    steps = kind(None, "x", None, None, 0.1, hidden)
    size = np.linspace(0.1, 1.2, 2001)
    kept, off = steps.cut(size)
    assert ((kept >= 0) & (kept <= 1) & (off >= 0) & (off <= 1)).all() and off[0] == pytest.approx(0, abs=1e-7)
    np.testing.assert_allclose(norm(kept, off), 1, atol=1e-9)
    inside = size <= hidden
    np.testing.assert_allclose((size - kept * 0.1)[inside], (off * hidden)[inside], atol=1e-9)
    assert (np.diff(off) >= -1e-12).all()


@pytest.mark.parametrize("budget", [pel.Budget(epsilon=1.0), pel.Budget(epsilon=1.0, delta=1e-6)], ids=["pure", "zCDP"])
def test_bars_include_what_the_clip_cuts_off(seeded, schema, budget):
    """One in thirty steps twenty times as far as the others: such steps are clipped, and bars still reach the unclipped curve."""
    people = make_people(3000, 4)
    people["sex"] = np.where(np.arange(3000) % 30 == 0, "M", "F")
    jump = pel.Model(
        lambda d: 0.3 + (d["bmi"] - 10) / 50 * np.where(d["sex"] == "M", 0.6, 0.03),
        output=(0, 1), features=["bmi", "sex"], trained_on="other data",
    )  # fmt: skip
    session = pel.Session(people, schema, budget=budget)
    made = session.release(pel.AccumulatedEffects(jump, "bmi", intervals=3), share=1)
    slope = (0.6 / 30 + 0.03 * 29 / 30) / 50
    exact = slope * np.array(made.x)
    exact -= made.weights @ exact
    lower, upper = made.interval()
    assert ((lower <= exact) & (exact <= upper)).all() and made.hidden > 0


def thin_and_thick(rows=6000):
    """Four categories, of which the third has six people; steps differ from person to person by `by`."""
    names = np.array(["a", "b", "c", "d"])
    group = names[np.where(np.arange(rows) < 6, 2, np.arange(rows) % 2 + 2 * (np.arange(rows) % 3 == 0) * (np.arange(rows) % 2))]
    return {"group": group.tolist(), "by": (np.arange(rows) % 101 / 100).tolist()}


def test_thin_categories_lean_on_public_records_and_thick_ones_do_not(seeded):
    declared = pel.Schema({"group": pel.Category(["a", "b", "c", "d"]), "by": pel.Number(0, 1)})
    model = pel.Model(
        lambda d: 0.3 + 0.1 * (1 + d["by"]) * d["group"].map({"a": 0, "b": 1, "c": 0, "d": 2}).astype(float),
        output=(0, 1), features=["group", "by"], trained_on="other data",
    )  # fmt: skip
    people = thin_and_thick()
    made = [
        pel.Session(people, declared, pel.Budget(0.3)).release(pel.AccumulatedEffects(model, "group"), epsilon=0.3)
        for _ in range(30)
    ]
    own = made[0]
    assert own.keep[0] > 0.9 and own.keep[1] > 0.9 > 0.3 > own.keep[2], "six people are too few"
    np.testing.assert_allclose(own.like_public, [0.15, -0.15, 0.3], atol=0.02)
    np.testing.assert_allclose(own.y, accumulate.curve(own.effects, own.weights))
    truth = np.array([0.15, -0.15, 0.3])
    lean = np.mean([(one.effects[2] - truth[2]) ** 2 for one in made])
    alone = np.mean([(one.sums[2] / one.counts[2] - truth[2]) ** 2 for one in made])
    assert lean < 0.1 * alone and max(abs(one.effects[0] - truth[0]) for one in made) < 0.05
    again = pel.from_json(own.to_json())
    np.testing.assert_array_equal(again.interval(), own.interval())
    exact = accumulate.curve(truth, own.weights)
    covered = np.mean([(one.interval()[0] <= exact) & (exact <= one.interval()[1]) for one in made])
    assert covered > 0.9


def test_a_curve_over_part_of_the_range_says_so(seeded):
    """In its notes and in its picture; one over all of the range says nothing."""
    declared = pel.Schema({"x": pel.Number(0, 100, integer=True)})
    model = pel.Model(lambda d: d["x"] / 100, output=(0, 1), features=["x"], trained_on="other data")

    def released(values):
        session = pel.Session({"x": values}, declared, pel.Budget(2.0))
        return session.release(pel.AccumulatedEffects(model, "x"), epsilon=2.0)

    part, whole = released([20 + i % 30 for i in range(3000)]), released([i % 101 for i in range(3000)])
    assert part.covers.startswith(f"from {part.x[0]:g} to {part.x[-1]:g} of 0 to 100") and part.covers in part.notes[-1]
    ax = part.plot()
    ax.figure.draw_without_rendering()
    (below,) = [text for text in ax.texts if part.covers in text.get_text().replace("\n", " ")]
    box = below.get_window_extent()
    assert ax.get_xlabel() == "x" and ax.get_xlim() == (0, 100) and box.x0 >= 0 and box.x1 <= ax.figure.bbox.x1
    assert whole.covers == "" and not whole.notes


def test_few_people_get_a_coarser_grid_and_their_intervals_all_who_are_inside():
    """Cells that cleaning emptied still count for the interval around them, and the noise of an interval is that of few cells."""
    assert len(accumulate.coarser(np.arange(257.0), 11, 300, 28.0)) == 34
    np.testing.assert_array_equal(accumulate.coarser(np.arange(65.0), 11, 100_000, 28.0), np.arange(65.0))
    counts = np.array([100.0, 0, 80, 0, 0, 120, 0, 100])
    made = accumulate.rank_intervals(counts, 3)
    np.testing.assert_allclose(made.share.sum(axis=0)[[1, 3, 4, 6]], 1)
    noisy = np.array([100.0, 7, 80, -6, 5, 120, -4, 100])
    again = accumulate.recounted(made, noisy, None, 1.0)
    np.testing.assert_allclose(again.mass, made.share @ noisy)
    assert accumulate.recounted(made, noisy, 400, 1.0).mass.sum() <= 400 + 1e-9


def test_previews_say_what_errors_may_be_at_most(seeded):
    """Where people's steps between categories are far larger than those of public records, which a preview cannot know."""
    declared = pel.Schema({"group": pel.Category(["a", "b", "c"]), "by": pel.Number(0, 1)})
    model = pel.Model(
        lambda d: 0.5 + np.where(d["by"] == 0.5, 0.4, 0.001) * d["group"].map({"a": -1, "b": 1, "c": -1}).astype(float),
        output=(0, 1), features=["group", "by"], trained_on="other data",
    )  # fmt: skip
    people = {"group": [("a", "b", "c")[i % 3] for i in range(3000)], "by": [0.5] * 3000}
    session = pel.Session(people, declared, pel.Budget(1.0))
    preview = session.preview(pel.AccumulatedEffects(model, "group"), epsilon=1.0)
    assert any("in bad cases about ±" in note for note in preview.notes) and "categories" in preview.notes[0]
    assert f"(95 %); in bad cases about ±{preview.at_most.max():.2g}, see the notes" in str(preview)
    listed = session.preview([pel.AccumulatedEffects(model, "group"), pel.AccumulatedEffects(model, "by")], epsilon=1.0)
    assert f", {listed[0].reach}</td>" in listed._repr_html_() and listed.to_dict()["previews"][0]["at_most"]
    assert not any("categor" in note for note in listed[1].notes)
    expected = pel.AccumulatedEffects(model, "group").expected(session.plan(pel.AccumulatedEffects(model, "group"), epsilon=1.0))
    made = session.release(pel.AccumulatedEffects(model, "group"), epsilon=1.0)
    exact = accumulate.curve(np.array([0.8, -0.8]), made.weights)
    assert np.abs(made.y - exact).max() < 2 * expected.at_most.max() and (expected.at_most > expected.error).all()
