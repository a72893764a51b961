"""What holds for explainers of every family."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from people import make_people

import pellucid as pel

BUDGET = pel.Budget(epsilon=100.0)


def release(data, schema, explainer, relation="replace", budget=BUDGET, **options):
    return pel.Session(data, schema, budget=budget, neighbors=relation, **options).release(explainer, share=1)


def test_people_count_once_in_every_explainer(silent, schema, model):
    """Repeating everybody's row under an id column changes nothing."""
    people = make_people(200).assign(id=np.arange(200))
    repeated = pd.concat([people] * 3, ignore_index=True)
    for explainer in (pel.PartialDependence(model, "age"), pel.Distribution("school"), pel.AccumulatedEffects(model, "school")):
        once = release(people, schema, explainer)
        thrice = release(repeated, schema, explainer, unit=pel.Unit("id", max_rows=3))
        np.testing.assert_allclose(once.interval()[0], thrice.interval()[0], atol=1e-6)


WHOLE_NUMBERS = [
    (name, field.name)
    for name in pel.explainers.__all__
    if name != "Explainer"
    for field in dataclasses.fields(getattr(pel.explainers, name))
    if str(field.type).startswith("int")
]


@pytest.mark.parametrize(("name", "setting"), WHOLE_NUMBERS)
def test_a_whole_number_of_numpy_is_the_same_request(name, setting, schema):
    account = pel.Session(make_people(60), schema, budget=BUDGET, neighbors="replace")
    model = pel.Model(lambda d: d["age"] / 90, output=(0, 1), features=["age", "bmi"], trained_on="other data")
    examples = getattr(pel.explainers, name).examples(model, schema)
    with_it = [example for example in examples if getattr(example, setting) is not None]
    plain = with_it[0] if with_it else dataclasses.replace(examples[0], **{setting: 5})
    given = dataclasses.replace(plain, **{setting: np.int64(getattr(plain, setting))})
    assert type(getattr(given, setting)) is int
    account.preview(given, epsilon=1.0)
    first, spent = account.release(plain, epsilon=1.0), float(account.spent)
    assert account.release(given, epsilon=1.0).to_json() == first.to_json() and float(account.spent) == spent
