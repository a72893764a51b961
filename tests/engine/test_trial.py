"""Functions are tried on public records: refused in words, remembered when they pass."""

import numpy as np
import pytest

import pellucid as pel
from pellucid.engine import trial
from pellucid.engine.trial import Trials, try_function
from pellucid.query.functions import BlockFunction, FunctionTrial, Limits, sent_whole

sent_whole(__name__)

SCHEMA = pel.Schema({"age": pel.Number(0, 99, integer=True), "sex": pel.Category(["F", "M"])})
COLUMNS = ("age", "sex")


def as_it_is(answer):
    return answer


def function(of, size=1):
    return BlockFunction(of, as_it_is, (0.0,) * size, Limits(seconds=20, workers=1))


def test_a_function_that_works_is_left_alone():
    try_function(function(lambda rows: [rows["age"].mean(), len(rows)], 2), SCHEMA, COLUMNS, 25)


def test_it_is_tried_on_public_blocks_of_the_planned_size():
    def check(rows):
        assert list(rows) == ["age"] and len(rows) == 25 and rows["age"].between(0, 99).all()
        return [1.0]

    try_function(function(check), SCHEMA, ("age",), 25)


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (lambda rows: 1 / 0, "it failed with ZeroDivisionError: division by zero."),
        (lambda rows: [1.0, 2.0], r"it failed with ValueError: expected one number, got an answer of shape \(2,\)."),
        (lambda rows: [np.nan], "the answer is NaN everywhere."),
    ],
)
def test_a_function_that_always_fails_is_refused_in_words(of, words):
    start = "the function <lambda> was refused on public records drawn from the schema: "
    with pytest.raises(pel.ModelError, match=f"^{start}.*{words} Nothing was charged.$"):
        try_function(function(of), SCHEMA, COLUMNS, 25)


def test_one_public_block_that_works_is_enough():
    first = SCHEMA.sample(25, 0)["age"][0]
    try_function(function(lambda rows: [1 / (rows["age"].iloc[0] != first)]), SCHEMA, COLUMNS, 25)


def test_a_function_that_passed_is_not_tried_again(monkeypatch):
    tried = []
    monkeypatch.setattr(trial, "try_function", lambda *given: tried.append(given))
    trials = Trials(SCHEMA)
    trials.run(None)
    for size in (10, 500):
        trials.run(FunctionTrial(function(as_it_is), COLUMNS, size))
    assert tried == [(tried[0][0], SCHEMA, COLUMNS, 10)]
    for other in (
        FunctionTrial(function(lambda rows: 1), COLUMNS, 10),
        FunctionTrial(function(as_it_is, 2), COLUMNS, 10),
        FunctionTrial(function(as_it_is), ("age",), 10),
        FunctionTrial(BlockFunction(as_it_is, as_it_is, (0.0,), Limits(seconds=1)), COLUMNS, 10),
    ):
        trials.run(other)
    assert len(tried) == 5


def test_a_function_that_was_refused_is_refused_again():
    trials = Trials(SCHEMA)
    for _ in range(2):
        with pytest.raises(pel.ModelError, match="refused"):
            trials.run(FunctionTrial(function(lambda rows: 1 / 0), COLUMNS, 10))


def test_functions_that_are_gone_do_not_lend_their_place():
    """Made, tried and dropped one after another, they could have one address after another."""
    trials = Trials(SCHEMA)
    for number in range(3):
        trials.run(FunctionTrial(function(lambda rows, number=number: number), COLUMNS, 10))
    assert len(trials._passed) == 3
