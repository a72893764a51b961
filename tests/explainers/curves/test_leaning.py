"""Curves that lean on public records: less error where these tell the shape, no harm where they do not, bars as before."""

import numpy as np
import pytest
from people import make_people, risk

import pellucid as pel
from pellucid.audit.transcript import Kept
from pellucid.explainers.curves import leaning
from pellucid.explainers.curves.leaning import ErrorLeft, Shape, leaned
from pellucid.release.door import Ask
from pellucid.release.explanation import from_json

GRID = np.linspace(0, 1, 33)
NOISE = 0.05**2 * np.eye(33)


def public_curves(rng, records=128):
    """Rising curves whose slope and bend differ from record to record, flat beyond the middle."""
    slope, bend = rng.uniform(0.2, 0.6, (records, 1)), rng.uniform(-0.2, 0.2, (records, 1))
    x = np.minimum(GRID, 0.5)
    return 0.2 + slope * x + bend * np.sin(2 * np.pi * x)


def mean_square(errors):
    return float((errors**2).mean())


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def errors_of(truth, noise, shape, rng, draws=60):
    root = np.linalg.cholesky(noise)
    released = truth + rng.normal(size=(draws, len(truth))) @ root.T
    return released - truth, np.array([leaned(y, noise, shape) for y in released]) - truth


def test_a_shape_that_public_records_know_has_far_less_noise(rng):
    curves = public_curves(rng)
    plain, lean = errors_of(curves[:20].mean(axis=0) + 0.1, NOISE, Shape(curves), rng)
    assert mean_square(lean) < 0.3 * mean_square(plain)


@pytest.mark.parametrize(
    "truth",
    [
        0.5 + 0.4 * np.sin(12 * GRID),
        np.where(GRID < 0.71, 0.2, 0.8),
        0.9 - 0.7 * GRID,
        np.where(np.abs(GRID - 0.25) < 0.02, 0.9, 0.3),
    ],
    ids=["waves", "a step where all are flat", "down instead of up", "a peak"],
)
def test_people_of_another_shape_are_believed(rng, truth):
    plain, lean = errors_of(truth, NOISE, Shape(public_curves(rng)), rng)
    assert mean_square(lean) < 1.3 * mean_square(plain)


def test_where_public_records_stand_still_people_may_move(rng):
    plain, lean = errors_of(0.3 + 0.4 * GRID, 0.01**2 * np.eye(33), Shape(np.full((128, 33), 0.4)), rng)
    assert mean_square(lean) < 1.3 * mean_square(plain)


@pytest.mark.parametrize("size", [1e-3, 1e-5, 1e-8, 0.0])
def test_with_little_noise_a_curve_stays_as_it_was_released(rng, size):
    shape, released = Shape(public_curves(rng)), 0.5 + 0.4 * np.sin(12 * GRID)
    assert np.abs(leaned(released, size**2 * np.eye(33), shape) - released).max() <= 3 * size


def test_the_level_is_as_released_and_categories_have_no_order(rng):
    curves, released = public_curves(rng), rng.uniform(size=33)
    assert leaned(released, NOISE, Shape(curves)).mean() == pytest.approx(released.mean())
    order = rng.permutation(33)
    mixed = leaned(released[order], NOISE, Shape(curves[:, order], categorical=True))
    np.testing.assert_allclose(mixed, leaned(released, NOISE, Shape(curves, categorical=True))[order], atol=1e-8)


def test_what_is_expected_to_be_left_is_left(rng):
    """Truths that are drawn as planning supposes them: the predicted error is that of shrinking along each direction."""
    shape = Shape(public_curves(rng))
    prior = shape.slope + shape.shared + shape.own
    root, noise = np.linalg.cholesky(prior + 1e-12 * np.eye(33)), 0.08**2
    left = shape.error_left("values", lambda: np.eye(33))(noise)
    truths = shape.mean + rng.normal(size=(400, 33)) @ root.T
    errors = [leaned(t + rng.normal(0, noise**0.5, 33), noise * np.eye(33), shape) - t for t in truths]
    shapes = np.array(errors) - np.mean(errors, axis=1, keepdims=True)
    assert 0.8 < mean_square(shapes) / left < 1.25
    assert left < 0.6 * noise and ErrorLeft(np.zeros(2), np.ones(2))(0.0) == 0.0


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("budget", [pel.Budget(epsilon=1.0), pel.Budget(epsilon=1.0, delta=1e-6)], ids=["pure", "either"])
def test_whole_releases_err_less_and_bars_hold(seeded, schema, model, relation, budget):
    people = make_people(2000)
    session = pel.Session(people, schema, budget=budget, neighbors=relation, expected_rows=2000)
    ratios = []
    for name in ("age", "bmi", "school"):
        explainer = pel.PartialDependence(model, name)
        plan = session.plan(explainer, share=0.5)
        totals = Kept(session._engine.totals)
        grid = plan.details.along[0].grid
        truth = np.array([risk(people.assign(**{name: plan.details.along[0].feature.value_at(v)})).mean() for v in grid])
        plain, lean, held = [], [], []
        for _ in range(250):
            made = explainer.run(Ask(totals, plan))
            lower, upper = made.interval()
            assert (lower <= made.y).all() and (made.y <= upper).all()
            plain.append(made.as_released().y - truth)
            lean.append(made.y - truth)
            held.append((lower <= truth) & (truth <= upper))
        assert np.mean(held) >= 0.93, name
        ratios.append(mean_square(np.array(lean)) / mean_square(np.array(plain)))
        expected = explainer.expected(plan).typical
        assert 0.5 < (mean_square(np.array(lean)) / mean_square(expected)) ** 0.5 < 2, name
    assert max(ratios) < 1.05 and np.prod(ratios) < 0.5, ratios


def test_only_the_default_leans(seeded, people, schema, model):
    session = pel.Session(people, schema, budget=pel.Budget(epsilon=10.0))
    for method in ("values", "variation"):
        made = session.release(pel.PartialDependence(model, "age", points=17, method=method), epsilon=1.0)
        np.testing.assert_allclose(made.y, made.as_released().y)
        assert session.preview(pel.PartialDependence(model, "age", points=17, method=method), epsilon=1.0).typical is None
        assert made.leans == 0 and not made.notes and not made.plot().texts
    made = session.release(pel.PartialDependence(model, "school"), epsilon=1.0)
    plain = made.as_released()
    assert made.means is not None and plain.means is None and (plain.y == made.means).all()
    again = from_json(made.to_json())
    np.testing.assert_array_equal(again.interval(), made.interval())
    assert again.leans == np.abs(made.y - made.means).max() > 0 and not plain.notes
    assert "leans on public records" in again.notes[0] and "as_released()" in again.notes[0]
    assert "leans on public records" in again.plot().texts[0].get_text()
    smooth = session.release(pel.PartialDependence(model, "age", points=17, smooth=3), epsilon=1.0)
    assert smooth.leans == 0 and smooth.notes == ("age: the curve was smoothed, which its error bars do not cover.",)
    several = session.release(pel.PartialDependence(model, ["age", "school"]), epsilon=1.0)
    assert [note.split(":")[0] for note in several.notes] == ["age", "school"]
    assert "lean on public records" in str(session.preview(pel.PartialDependence(model, "bmi"), epsilon=1.0))


def test_strict_sessions_ask_nothing_more_of_a_model(people, schema, model):
    session = pel.Session(people, schema, budget=pel.Budget(epsilon=10.0), strict=True)
    assert session.plan(pel.PartialDependence(model, "school"), epsilon=1.0).details.along[0].shape is None


def test_leaning_that_believes_public_records_alone_is_noticed(rng, monkeypatch):
    """Sabotage: without the degrees by which people may differ, the test of other shapes fails."""
    monkeypatch.setattr(leaning, "OWN", (0.0,))
    with pytest.raises(AssertionError):
        test_people_of_another_shape_are_believed(rng, np.where(GRID < 0.71, 0.2, 0.8))


def lopsided(points, scale):
    """The noise of means over a small noisy count: along the means themselves it is far larger than across them."""
    means = scale * np.linspace(-1.0, 1.0, points) ** 3
    return np.eye(points) / 4 + np.outer(means, means)


@pytest.mark.parametrize("points", [1, 2, 3, 4, 24, 99])
@pytest.mark.parametrize("scale", [0.0, 1e-12, 1.0, 1e6, 1e9, 1e12, 1e150])
@pytest.mark.parametrize("categorical", [False, True])
def test_no_released_curve_and_no_noise_make_leaning_fail(points, scale, categorical):
    """It comes after the charge: whatever was released, there is a curve."""
    rng = np.random.default_rng(0)
    public = [np.full((3, points), 0.5), rng.random((128, points)), np.round(rng.random((2, points))), np.zeros((1, points))]
    half = rng.normal(size=(points, max(points // 2, 1)))
    uneven = np.diag(10.0 ** rng.uniform(-12, 12, points))
    for curves in public:
        for noise in (lopsided(points, scale), half @ half.T * scale, uneven, 0 * uneven, 1e-13 * np.eye(points)):
            for released in (rng.normal(size=points) * max(scale, 1.0), rng.random(points)):
                found = leaned(released, noise, Shape(curves, categorical))
                assert found.shape == released.shape and np.isfinite(found).all()
