"""Sentences on top of pictures: they say what the bars bear out, and are wrong in at most 5 % of releases."""

import numpy as np
import pytest

from pellucid.explainers.common.results import Curve
from pellucid.explainers.common.sentences import about, among, shape
from pellucid.mechanisms import NoiseLaw
from pellucid.public.labels import Labels

X = np.linspace(0, 100, 11)


def band(y, half=0.02):
    return shape(X, np.asarray(y) - half, np.asarray(y) + half)


@pytest.mark.parametrize(
    ("y", "goes"),
    [
        (X / 100, "rises"),
        (-X / 100, "falls"),
        (np.zeros(11), ""),
        (0.01 * np.sin(X), ""),
        (-((X - 50) ** 2) / 2500, "rises and falls"),
        ((X - 50) ** 2 / 2500, "falls and rises"),
        (np.sin(X / 10), "both ways"),
    ],
)
def test_the_simplest_course_that_fits(y, goes):
    assert band(y).goes == goes


def test_a_curve_that_levels_off_says_where_and_a_straight_one_does_not():
    level = band(np.minimum(X, 30) / 30)
    assert level.goes == "rises" and X[level.last] == 30 and level.first == 0
    late = band(np.maximum(X, 70) / 30)
    assert X[late.first] == 70 and late.last == 10
    straight = band(X / 100, 0.1)
    assert (straight.first, straight.last) == (0, 10)


def curve(y, scale, rng, **more):
    noisy = y + rng.laplace(scale=scale, size=len(y))
    law = NoiseLaw("laplace", scale * 2 * 1000, len(y))
    return Curve(feature="x", x=tuple(X.tolist()), y=noisy, law=law, count=1000.0, noisy_count=False, output=(0.0, 1.0), **more)


def test_sentences_of_flat_curves_claim_a_change_in_five_per_cent_at_most():
    rng = np.random.default_rng(0)
    said = [curve(np.full(11, 0.5), 0.05, rng).headline for _ in range(400)]
    wrong = sum(not s.startswith("No change") for s in said)
    assert wrong <= 0.05 * 400 + 3 * np.sqrt(0.05 * 0.95 * 400)
    rising = [curve(0.2 + X / 200, 0.005, rng).headline for _ in range(50)]
    assert all(s.startswith("Mean prediction rises with x") for s in rising)


def test_flat_categories_claim_a_difference_in_five_per_cent_at_most():
    rng = np.random.default_rng(1)
    said = [curve(np.full(11, 0.5), 0.05, rng, categorical=True).headline for _ in range(400)]
    wrong = sum(not s.startswith("No difference") for s in said)
    assert wrong <= 0.05 * 400 + 3 * np.sqrt(0.05 * 0.95 * 400)


def test_which_category_is_highest():
    y, half = np.array([0.1, 0.5, 0.9]), 0.05
    said = among(["a", "b", "c"], y, y - half, y + half, "mean prediction", "town")
    assert said == "Mean prediction is highest for town = c and lowest for a"
    wide = among(["a", "b", "c"], y, y - 0.3, y + 0.3, "mean prediction", "town")
    assert wide == "Mean prediction is higher for town = c than for a"


def test_labels_units_and_the_name_of_the_output_are_used():
    made = curve(np.minimum(X, 30) / 40, 0.0005, np.random.default_rng(2))
    made = made.labelled(Labels({"x": {"label": "chronic conditions", "unit": "years"}}, "visits"))
    assert made.headline == "Mean predicted visits rises with chronic conditions up to about 30 years"
    ax = made.plot()
    assert ax.get_xlabel() == "chronic conditions (years)" and ax.get_ylabel() == "mean predicted visits"


def test_no_more_digits_than_the_error_leaves():
    assert [about(87_654.0, half) for half in (20_000.0, 2_000.0, 20.0)] == ["90,000", "88,000", "87,700"]
