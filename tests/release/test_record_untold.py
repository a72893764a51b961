"""The record asked about is stored nowhere: certificates and ledgers of two records are the same but for hashes and values."""

import json
import re
import sqlite3

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sources import Seeded

import pellucid as pel
from pellucid.mechanisms import source

SCHEMA = pel.Schema(
    {
        "age": pel.Number(17, 90),
        "dose": pel.Number(0, 0.7),
        "lab": pel.Number(-3, 11, missing=float("nan")),
        "site": pel.Category(["north", "south", "west"], missing="north"),
    }
)
NUMBERS = ["age", "dose"]
RECORDS = (
    {"age": 28.123456, "dose": 0.111222, "lab": 5.25, "site": "south"},
    {"age": 88.987654, "dose": 0.699333, "lab": -2.75, "site": "north"},
    {"age": 17.0, "dose": 0.0},
    {"age": 53.5, "dose": 0.35, "lab": 4.0, "site": "west"},
)
RESULTS = {
    "local linear": {"phi", "std", "pull", "excess", "gain", "gain_error"},
    "shapley values": {"values", "base", "prediction"},
    "shapley ranking": {"picked", "magnitudes"},
}
"""What the answer itself says about the record: numbers and orders that depend on it."""


PAGE = 4096


def table(size=300):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.uniform(17, 90, size),
            "dose": rng.uniform(0, 0.7, size),
            "lab": np.where(rng.random(size) < 0.1, np.nan, rng.uniform(-3, 11, size)),
            "site": rng.choice(["north", "south", "west"], size),
        }
    )


def score(d):
    return d["age"] / 200 + d["dose"] / 2 + (d["site"] == "south") / 8


SCORE = pel.Model(score, output=(0, 1), features=list(SCHEMA), trained_on="other data")
X = np.column_stack([SCHEMA.sample(300)[name] for name in NUMBERS])
LINE = LinearRegression().fit(X, X @ [0.0031, 0.41])
TREES = RandomForestRegressor(5, max_depth=3, random_state=0).fit(X, X @ [0.0031, 0.41])


def read_model(estimator):
    return pel.Model(estimator, output=(-1, 2), features=NUMBERS, trained_on="other data", input="array")


def numbers(record):
    return {name: record[name] for name in NUMBERS}


ASKED = {
    "local, stable": lambda r: pel.LocalLinear(SCORE, r),
    "local, narrow": lambda r: pel.LocalLinear(SCORE, r, bandwidth=0.1),
    "local, gaussian": lambda r: pel.LocalLinear(SCORE, r, weight="gaussian", bandwidth=2.0),
    "local, cut-off": lambda r: pel.LocalLinear(SCORE, r, weight="cut-off", bandwidth=2.0),
    "local, formula": lambda r: pel.LocalLinear(SCORE, r, weight="exp(-r/9)"),
    "local, centred": lambda r: pel.LocalLinear(SCORE, r, centred=True, radius=2.0),
    "values, asked": lambda r: pel.ShapValues(SCORE, r),
    "values, permutations": lambda r: pel.ShapValues(SCORE, r, permutations=2),
    "values, kernel": lambda r: pel.ShapValues(SCORE, r, method="kernel"),
    "values, with base": lambda r: pel.ShapValues(SCORE, r, efficient=True),
    "values, linear": lambda r: pel.ShapValues(read_model(LINE), numbers(r)),
    "values, linear with base": lambda r: pel.ShapValues(read_model(LINE), numbers(r), efficient=True),
    "values, trees": lambda r: pel.ShapValues(read_model(TREES), numbers(r)),
    "picks, asked": lambda r: pel.ShapRanking(SCORE, r, k=2, how="picks"),
    # Both features: with fewer, the noise of the values is that of those which were picked, and the ranking tells these.
    "picks, linear": lambda r: pel.ShapRanking(read_model(LINE), numbers(r), k=2, how="picks", magnitudes=True),
    "ranking, linear": lambda r: pel.ShapRanking(read_model(LINE), numbers(r), k=2),
    "ranking, trees": lambda r: pel.ShapRanking(read_model(TREES), numbers(r), k=2, by="signed"),
}


def without_hashes(value):
    """Numbers of full length that are hashes or keyed digests, left out; lengths are compared."""
    return re.sub(r"\b([0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{16})\b", lambda found: f"<{len(found[0])}>", value)


def without_results(text):
    """A released text without what was released about the record."""
    body = json.loads(text)
    told = body["content"]
    assert RESULTS[body["kind"]] <= told.keys()
    magnitudes = told.get("magnitudes")
    kept = {name: value for name, value in told.items() if name not in RESULTS[body["kind"]]}
    if magnitudes:
        inner = {name: value for name, value in magnitudes["content"].items() if name not in RESULTS["shapley values"]}
        # Which of them are told is the ranking itself.
        kept["magnitudes"] = {**inner, "features": sorted(inner["features"])}
    return json.dumps({**body, "content": kept}, sort_keys=True)


def stored(explainer, path, relation, budget):
    """Everything that a release leaves behind: the file of the ledger, cell by cell, and the certificate in words."""
    session = pel.Session(
        table(), SCHEMA, budget=budget, name="ward", ledger=path, neighbors=relation, expected_rows=300, create=True
    )
    made = session.release(explainer, share=0.5)
    plan = str(session.plan(explainer, share=0.5))
    session.ledger.close()
    with sqlite3.connect(path) as connection:
        names = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table' order by name")]
        cells = [cell for name in names for row in connection.execute(f"select * from {name}") for cell in row]
    texts = [without_results(c) if isinstance(c, str) and c.startswith('{"format"') else str(c) for c in cells]
    said = [made.certificate.text, made.certificate.html, json.dumps(made.certificate.to_dict()), plan, repr(explainer)]
    return [without_hashes(text) for text in texts + said], path.read_bytes()


class TheSame(Seeded):
    """The same noise for every record, so that what differs is not the noise: picks use up none of it."""

    def pick(self, scores, rate, flip):
        return int(np.argmax(np.array(scores, dtype=object)))


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize(
    "budget",
    [pel.Budget(4.0), pel.Budget(4.0, 1e-6, accounting="zcdp"), pel.Budget(4.0, 1e-6)],
    ids=["epsilon", "rho", "either"],
)
def test_nothing_that_is_stored_tells_the_record(asked, relation, budget, tmp_path, monkeypatch):
    found = []
    for i, record in enumerate(RECORDS):
        monkeypatch.setattr(source, "current", TheSame(5))
        found.append(stored(ASKED[asked](record), _path(tmp_path, i), relation, budget))
    for texts, content in found[1:]:
        assert texts == found[0][0]
        # The numbers of the answer itself have more or fewer digits, which can fill one more page of the file.
        assert abs(len(content) - len(found[0][1])) <= PAGE


def _path(folder, i):
    """Ledgers are named on certificates: all of the same name, each in a folder of its own."""
    (folder / str(i)).mkdir()
    return folder / str(i) / "ledger.db"


@pytest.mark.parametrize("asked", ASKED)
def test_no_value_of_the_record_is_in_the_ledger(asked, tmp_path):
    """In no form: as it was given, scaled to its range, or as its distance from the ends."""
    path = _path(tmp_path, 0)
    _, content = stored(ASKED[asked](RECORDS[0]), path, "replace", pel.Budget(epsilon=4.0))
    for name in NUMBERS:
        value, feature = RECORDS[0][name], SCHEMA[name]
        scaled = (value - feature.lo) / (feature.hi - feature.lo)
        for number in (value, scaled, 1 - scaled, max(scaled, 1 - scaled)):
            for text in (repr(number), f"{number:.6g}", f"{number:.4f}"):
                assert text.encode() not in content


def test_a_record_is_found_by_such_a_search(tmp_path):
    """A stream does store the records that were asked about and paid for, and says so."""
    session = pel.Session(
        table(), SCHEMA, budget=pel.Budget(epsilon=4.0), name="ward", ledger=tmp_path / "ledger.db", create=True
    )
    with session.open(pel.LocalLinear(SCORE, questions=2), share=0.5) as local:
        local.explain(RECORDS[0])
    session.ledger.close()
    scaled = (RECORDS[0]["age"] - 17) / 73
    assert repr(scaled).encode() in (tmp_path / "ledger.db").read_bytes()


@pytest.mark.parametrize("asked", ["local, stable", "values, linear", "picks, asked"])
def test_a_preview_says_that_a_request_about_a_record_is_paid_for_again(asked):
    session, explainer = pel.Session(table(), SCHEMA, budget=pel.Budget(epsilon=1.0)), ASKED[asked](RECORDS[0])
    note = "note: paid for again in every run: the record is not stored"
    assert note in str(session.preview(explainer, share=0.5))
    session.release(explainer, share=0.5)
    known = session.preview(explainer, share=0.5)
    assert known.free and note not in str(known), "in the same process it is known again"
    assert note not in str(session.preview(pel.Distribution("age"), share=0.5))
