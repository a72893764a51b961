"""Schemas: declared once, saved and loaded unchanged, and clear about what is wrong."""

import math
import pickle

import numpy as np
import pytest

import pellucid as pel


def test_round_trip(tmp_path, schema):
    for name in ("schema.yaml", "schema.json", "schema.yml"):
        schema.save(tmp_path / name)
        again = pel.Schema.load(tmp_path / name)
        assert again == schema and list(again) == list(schema) and again["age"].source == "form 12"
        assert math.isnan(again["lab"].missing) and again["school"].ordered and again["smoker"].values == (False, True)
    with pytest.raises(pel.SchemaError, match="saved as"):
        schema.save(tmp_path / "schema.txt")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pel.Number(5, 5), "below the upper"),
        (lambda: pel.Number(9, 1), "swap"),
        (lambda: pel.Number(0, float("inf")), "not finite"),
        (lambda: pel.Number(0, "many"), "not a number"),
        (lambda: pel.Number(0, 10**400), "not a number"),
        (lambda: pel.Number(-1.7e308, 1.7e308), "too wide"),
        (lambda: pel.Number(0, 5e-324), "too narrow"),
        (lambda: pel.Number(0, 2**63, integer=True), "too wide"),
        (lambda: pel.Number(0.5, 3, integer=True), "must be integers"),
        (lambda: pel.Number(0, 1, missing=7), "outside"),
        (lambda: pel.Number(0, 1, missing="middle"), "'exclude' to leave such records out"),
        (lambda: pel.Category(["include", "exclude"]), "say with missing="),
        (lambda: pel.Category([]), "at least one"),
        (lambda: pel.Category("FM"), "as a list"),
        (lambda: pel.Category(["a", "a"]), "twice"),
        (lambda: pel.Category([1, True]), "twice"),
        (lambda: pel.Category([None, "a"]), "None and NaN"),
        (lambda: pel.Category([(1,), "a"]), "text, numbers"),
        (lambda: pel.Category([[1], "a"]), "text, numbers"),
        (lambda: pel.Category(["a"], missing="b"), "not one of the declared"),
        (lambda: pel.Category(["a"], unknown="b"), "not one of the declared"),
        (lambda: pel.Schema({}), "at least one column"),
        (lambda: pel.Schema({"a": 3}), "pel.Number"),
        (lambda: pel.Schema({1: pel.Number(0, 1)}), "not a column name"),
        (lambda: pel.Unit(3), "id column"),
        (lambda: pel.Unit("id", max_rows=0), "whole number"),
        (lambda: pel.Unit("id", max_rows=True), "whole number"),
        (lambda: pel.Schema.from_dict({"columns": {}}), "features"),
        (lambda: pel.Schema.from_dict({"features": {"a": {"number": [1]}}}), "two bounds"),
        (lambda: pel.Schema.load("nothing.yaml"), "does not exist"),
        (lambda: pel.Schema({"age": pel.Number(0, 1)})["agge"], "did you mean 'age'"),
    ],
)
def test_wrong_declarations(make, words):
    with pytest.raises(pel.SchemaError, match=words):
        make()


def test_broken_files(tmp_path):
    for name, text, words in (
        ("a.json", "{", "line 1 is not valid JSON"),
        ("a.yaml", "a: [", "not valid YAML"),
        ("b.yaml", "3", "features"),
        ("d.yaml", "features: &x [*x]", "contains itself"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(pel.SchemaError, match=words):
            pel.Schema.load(tmp_path / name)
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(pel.SchemaError, match="cannot be read as text"):
        pel.Schema.load(tmp_path / "c.yaml")


def test_public_records_cover_the_domain(schema):
    records = schema.sample(2000)
    assert records["age"].min() == 17 and records["age"].max() == 90 and np.all(records["age"] == np.rint(records["age"]))
    assert np.isnan(records["lab"]).any() and set(records["school"]) == {0, 1, 2, 3}
    np.testing.assert_array_equal(schema.sample(50)["bmi"], schema.sample(50)["bmi"])


def test_positions_and_labels(schema):
    assert schema["sex"].position("M") == 1 and schema["sex"].value_at(1) == "M"
    assert schema["age"].value_at(33.0) == 33 and isinstance(schema["age"].value_at(33.0), int)
    with pytest.raises(pel.SchemaError, match="outside the declared bounds"):
        schema["age"].position(5)


@pytest.mark.parametrize(
    "line",
    [
        "category: [no, yes]",
        "category: [DE, NO, SE]",
        "category: [a, b]\n    missing: off",
        "{category: ['no', 'yes'], unknown: No}",
    ],
)
def test_words_that_yaml_takes_for_booleans_are_refused(tmp_path, line):
    """900 cells that say "yes" would be released as False."""
    path = tmp_path / "schema.yaml"
    path.write_text(f"features:\n  smoker:\n    {line}\n")
    with pytest.raises(pel.SchemaError, match=r"schema.yaml: line \d: YAML takes .* for a boolean.*quotes.*\[false, true\]"):
        pel.Schema.load(path)


def test_words_in_quotes_and_real_booleans_are_read(tmp_path):
    path = tmp_path / "schema.yaml"
    path.write_text(
        "features:\n  smoker: {category: ['no', \"yes\"]}\n  here: {category: [false, True]}\n"
        "  school: {category: [none, some], ordered: yes}\n  age: {number: [0, 9], integer: yes}\n"
    )
    read = pel.Schema.load(path)
    assert read["smoker"].values == ("no", "yes") and read["here"].values == (False, True)
    assert read["school"].ordered is True and read["age"].integer is True
    read.save(path)
    assert pel.Schema.load(path) == read


@pytest.mark.parametrize(
    "columns",
    [{"a\ud800": pel.Number(0, 1)}, {"a": pel.Category(["x", "\udfff"])}, {"a": pel.Number(0, 1, source="form \ud800")}],
    ids=["name", "value", "source"],
)
def test_text_that_cannot_be_stored_is_refused(columns):
    with pytest.raises(pel.SchemaError, match="cannot be stored"):
        pel.Schema(columns)


def test_policies_for_missing_cells():
    """Left open, such records are left out, and models are given what the version before gave them."""
    for left_open in (pel.Number(17, 90, integer=True), pel.Number(17, 90, integer=True, missing="exclude")):
        assert left_open.missing == "exclude" and left_open.excludes and left_open.fill == 54 and not left_open.stands_in
    assert pel.Number(0, 1).fill == 0.5 and pel.Category(["F", "M"]).fill == 0 and pel.Boolean().excludes
    declared = pel.Number(17, 90, missing=20)
    assert not declared.excludes and declared.fill == 20 and declared.stands_in and not declared.fills_nan
    assert pel.Number(0, 1, missing=float("nan")).fills_nan and not pel.Number(0, 1, missing=float("nan")).excludes
    mixed = pel.Category(["F", "M"], missing="M", unknown="exclude")
    assert mixed.excludes and mixed.fill == 1 and mixed.fill_unknown == 0 and mixed.stands_in
    assert mixed.absent(np.array([0, 1, 2])).tolist() == [False, False, True]
    word = pel.Category(["include", "exclude"], missing="exclude")
    assert not word.excludes and word.fill == 1, "a declared value is a value"


def test_a_schema_that_says_what_the_version_before_took_is_the_same_schema():
    """Its text is the one in old ledgers, so that old releases are handed on; one that leaves it open is another."""
    assert pel.Number(17, 90, integer=True, missing=54).to_dict() == {"number": [17, 90], "missing": 54, "integer": True}
    assert pel.Number(10, 60, missing=35).to_dict() == {"number": [10.0, 60.0], "missing": 35.0}
    assert pel.Category(["F", "M"], missing="F").to_dict() == {"category": ["F", "M"], "missing": "F", "unknown": "F"}
    assert pel.Boolean(missing=False).to_dict() == {"category": [False, True], "missing": False, "unknown": False}
    for left_open in (pel.Number(10, 60), pel.Category(["F", "M"]), pel.Boolean()):
        again = pel.Schema.from_dict(pel.Schema({"c": left_open}).to_dict())["c"]
        assert again == left_open and again.to_dict()["missing"] == "exclude"


@pytest.mark.parametrize("word", ["boolean", "bool"])
def test_booleans_are_a_category(word):
    with pytest.raises(pel.SchemaError, match=r"column 'smoker': booleans are a category; write category: \[false, true\]"):
        pel.Schema.from_dict({"features": {"smoker": {word: True}}})


def test_words_for_people_change_no_request(tmp_path):
    plain = pel.Schema({"pay": pel.Number(0, 1e6, source="form 3"), "sex": pel.Category(["F", "M"])})
    worded = pel.Schema(
        {
            "pay": pel.Number(0, 1e6, source="form 3", label="yearly income", unit="€ a year"),
            "sex": pel.Category(["F", "M"], label="sex at birth"),
        }
    )
    worded.save(tmp_path / "schema.yaml")
    again = pel.Schema.load(tmp_path / "schema.yaml")
    assert again == worded != plain and again["pay"].unit == "€ a year" and again["sex"].label == "sex at birth"
    # Adding or changing them later replays what was paid for and opens the same account.
    assert worded.declared == plain.declared == plain.to_dict()
    assert plain["pay"].label == plain["pay"].unit == plain["sex"].label == "" and "label" not in str(plain.to_dict())
    assert pel.Boolean(label="smokes").label == "smokes"


def test_columns_without_words_are_pickled_as_before():
    for column in (pel.Number(0, 1), pel.Category(["F", "M"])):
        assert b"label" not in pickle.dumps(column) and b"unit" not in pickle.dumps(column)
        assert pickle.loads(pickle.dumps(column)) == column
    worded = pel.Number(0, 1, label="share", unit="%")
    assert pickle.loads(pickle.dumps(worded)) == worded


def test_labelled_schema_replays_for_free(tmp_path):
    people = {"age": np.arange(200.0) % 90}
    budget, ledger = pel.Budget(epsilon=1), str(tmp_path / "study.db")
    first = pel.Session(people, pel.Schema({"age": pel.Number(0, 90)}), budget=budget, name="a", ledger=ledger, create=True)
    paid = first.release(pel.Distribution("age"), epsilon=0.5)
    labelled = pel.Schema({"age": pel.Number(0, 90, label="age", unit="years")})
    second = pel.Session(people, labelled, budget=budget, name="a", ledger=ledger)
    assert second.release(pel.Distribution("age"), epsilon=0.5).to_frame().equals(paid.to_frame())
    assert second.remaining == first.remaining


@pytest.mark.parametrize("words", [{"label": 3}, {"unit": "a\nb"}, {"label": "\ud800"}])
def test_words_are_one_line_of_text(words):
    with pytest.raises(pel.SchemaError, match="one line of text"):
        pel.Number(0, 1, **words)
