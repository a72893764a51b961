"""Sentences are called sure only where they are: noise that picks the places it speaks of must not make them so."""

import numpy as np
import pytest

import pellucid as pel
from pellucid.reports.sentences import LIKELY, SURE, found

SCHEMA = pel.Schema({"age": pel.Number(0, 99, integer=True), "sex": pel.Category(["F", "M"])})
PEOPLE = {"age": np.arange(2_000) % 100, "sex": ["F", "M"] * 1_000}


def sentence(explainer, epsilon):
    session = pel.Session(PEOPLE, SCHEMA, budget=pel.Budget(1000.0))
    (one,) = found("it", session.release(explainer, epsilon=epsilon, fresh=True))
    return one


def model(rule):
    return pel.Model(rule, output=(0, 1), features=["age", "sex"], trained_on="other data")


def test_a_flat_curve_is_rarely_said_to_move():
    flat = pel.PartialDependence(model(lambda d: 0.5 + 0 * d["age"]), "age", points=30, method="values")
    sure = sum(sentence(flat, 0.5).certainty == SURE for _ in range(100))
    assert sure <= 12, "with 95 % for all places at once about five of a hundred would be too many"


def test_an_even_histogram_has_no_commonest_value():
    sure = sum(sentence(pel.Distribution("age", bins=20), 0.5).certainty == SURE for _ in range(100))
    assert sure <= 12


def test_what_is_clear_is_said_to_be():
    rising = pel.PartialDependence(model(lambda d: d["age"] / 99), "age")
    one = sentence(rising, 50.0)
    assert one.certainty == SURE and one.text.startswith("Mean prediction rises with age: about 0")
    by_sex = sentence(pel.PartialDependence(model(lambda d: 0.1 + 0.8 * (d["sex"] == "M")), "sex"), 50.0)
    assert by_sex.certainty == SURE and "higher for sex = M than for F: about 0.1 at sex = F and about 0.9" in by_sex.text


def test_the_page_says_of_a_curve_what_its_picture_says():
    curve = pel.PartialDependence(model(lambda d: (d["age"] - 50) ** 2 / 2500), "age", points=11, method="values")
    session = pel.Session(PEOPLE, SCHEMA, budget=pel.Budget(1000.0))
    for epsilon in (0.05, 0.5, 5.0, 50.0):
        made = session.release(curve, epsilon=epsilon)
        (one,) = found("it", made)
        assert one.text.startswith(made.headline) and (one.certainty == LIKELY) == made.headline.startswith("No ")


@pytest.mark.parametrize("epsilon", [0.01])
def test_what_is_noise_is_called_so(epsilon):
    rising = pel.PartialDependence(model(lambda d: d["age"] / 99), "age", points=20, method="values")
    assert sentence(rising, epsilon).certainty == LIKELY
