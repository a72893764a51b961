"""Whatever is asked of a session: an error before anything is charged, or an answer for exactly its price."""

import inspect
import warnings

import pytest
from hypothesis import given, seed, settings
from strategies import EXPLAINERS, ODD_VALUES_OF_SETTINGS, any_of, cases
from studies import attempt_study, studies
from trying import BATCH, PROFILE, Tally, attempt

import pellucid as pel

settings.register_profile("fuzz", PROFILE)


def batches(check, *drawn, count):
    """So many cases, the same at every run."""
    for first in range(-(-count // BATCH)):
        seed(first)(settings(settings.get_profile("fuzz"))(given(*drawn)(check)))()


def test_nothing_is_raised_after_payment(capsys):
    tally = Tally()
    batches(lambda case: attempt(case, tally), cases(), count=150)
    with capsys.disabled():
        print(f"\n{tally}")
    assert set(EXPLAINERS) == set(pel.explainers.__all__) - {"Explainer"} and set(EXPLAINERS) <= set(tally.counts)
    assert tally.whole["paid"] > tally.whole["refused"]


def test_studies_of_the_command_line_end_in_results_or_one_line():
    tally = Tally()
    batches(lambda text, pictures: attempt_study(text, pictures, tally), studies(), any_of(False, False, False, True), count=24)
    assert tally.whole["paid"] and tally.whole["refused"]


@pytest.mark.parametrize("kind", EXPLAINERS)
def test_a_setting_that_is_something_else_is_refused_in_words(kind):
    kind = getattr(pel, kind)
    schema = pel.Schema(
        {"age": pel.Number(17, 90, integer=True), "bmi": pel.Number(10, 60), "dose": pel.Number(0, 1)}
        | {"sex": pel.Category(["F", "M"]), "ill": pel.Boolean()}
    )
    model = pel.Model(lambda d: d["dose"], output=(0, 1), features=list(schema)[:-1], trained_on="other data")
    data = {"age": [30] * 40, "bmi": [20.0] * 40, "dose": [0.5] * 40, "sex": ["F"] * 40, "ill": [True] * 40}
    session = pel.Session(data, schema, budget=pel.Budget(4.0, 1e-6), expected_rows=40)
    example = next(iter(kind.examples(model, schema)))
    assert session.charge_for(example, epsilon=1.0) > 0
    usual = {name: getattr(example, name) for name in inspect.signature(kind).parameters}
    for name in usual:
        for odd in ODD_VALUES_OF_SETTINGS:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    session.charge_for(kind(**{**usual, name: odd}), epsilon=1.0)
            except pel.PellucidError as error:
                assert str(error).strip()
    assert session.spent == 0
