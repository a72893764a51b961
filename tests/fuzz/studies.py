"""Study files, drawn, and what must hold when the command line is given one: no traceback, and no charge without a result."""

import contextlib
import datetime
import io
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from hypothesis import strategies as st
from strategies import any_of, mostly

import pellucid as pel
from pellucid.cli import commands

MODELS = """
import numpy as np

def risk(d):
    return 1 / (1 + np.exp(-0.05 * (d["age"] - 50)))

def halves(d):
    return (d["age"] > 50).astype(int)

def means(rows):
    return rows[["age", "bmi"]].mean()

def failing(d):
    raise ValueError("never")

def curve(rows):
    return [0.1, 0.2, 0.3]

ward = 7
"""

FEATURES = {
    "age": {"number": [17, 90], "integer": True, "source": "form 12"},
    "bmi": {"number": [10, 60]},
    "sex": {"category": ["F", "M"]},
    "ill": {"category": [False, True]},
}
ODD_FEATURES = any_of(
    {"age": {"number": [17, 90]}}, {"age": {"number": "x"}}, {"nowhere": {"number": [0, 1]}}, {"age": {}}, {"age": None},
    {"age": 3}, {}, {"age": {"number": [90, 17]}}, {"age": {"category": []}},
    {"sex": {"category": ["F", "M"], "ordered": "yes", "x": 1}},
    [], None, {3: {"number": [0, 1]}}, {"sex": {"category": "FM"}}, {"age": {"number": [17, 90], "missing": "x"}},
    {"age": {"number": [0, None]}}, {"age": {"number": [17, 90], "integer": "x", "source": 3}}, {"sex": {"category": [{"a": 1}]}},
    {"sex": {"category": [["F"]]}},
)  # fmt: skip

MODEL = {"load": "models.py:risk", "output": [0, 1], "features": ["age", "bmi"], "trained_on": "other data"}
CLUSTERING = {"load": "models.py:halves", "clusters": [0, 1], "features": ["age"], "trained_on": "other data"}

ODD = any_of(
    None, True, 3, -1, 0.5, float("nan"), float("inf"), "", "x", "日本", [], {}, [1], ["x", "x"], {"a": 1}, [[]], [None], "a\nb",
    10**30, datetime.date(2020, 1, 1), {"load": 3}, {"epsilon": "x"}, "models.py:failing", "models.py:nowhere", "nowhere.py:x",
    "os:nowhere", {"column": 3}, {"column": "age", "max_rows": 2}, {1: 2},
)  # fmt: skip
TITLES = mostly(
    any_of("Women and men", "women & men!", "Ages"),
    any_of(
        "",
        "日本",
        "..",
        "../../above",
        "a/b",
        "x" * 400,
        "report",
        3,
        ["a"],
        {"a": 1},
        "\u202e",
        ".hidden",
        "CON",
        "a\nb",
        None,
        "x\0y",
    ),
    4,
)


def releases():
    """One entry of the list, with the names that YAML has for things."""
    settings = {
        "PartialDependence": {"model": st.just("risk"), "feature": any_of("age", "bmi", ["age", "bmi"]), "points": any_of(3, 9)},
        "AccumulatedEffects": {"model": st.just("risk"), "feature": any_of("age", ["age"])},
        "Distribution": {"feature": any_of("sex", "age", ["sex", "ill"]), "bins": any_of(4, [17, 50, 90])},
        "Completeness": {"feature": any_of("age", ["sex", "age"])},
        "Statistic": {"formula": mostly(any_of("age", "age*bmi", "[age, bmi]", "1/age"), st.just("age +"), 12)},
        "AttributeShares": {"formula": any_of("age*bmi", "age + bmi**2")},
        "PermutationImportance": {"model": st.just("risk"), "target": any_of("ill", "sex"), "ranking": st.booleans()},
        "FeatureInteraction": {"model": st.just("risk"), "points": any_of(2, 3)},
        "ClusterHistograms": {"groups": st.just("halves"), "per_cluster": any_of(1, 2)},
        "PrivateKMeans": {"k": any_of(2, 3), "features": any_of(["age", "bmi"], ["age"]), "iterations": st.just(1)},
        "PrivateRanking": {"function": st.just("models.py:means"), "items": st.just(["age", "bmi"]), "blocks": any_of(2, 3)},
        "ShapValues": {
            "model": st.just("risk"),
            "record": mostly(any_of({"age": 40, "bmi": 25}, {"age": 40}, {}), st.just({"nowhere": 1}), 12),
        },
        "ShapImportance": {
            "model": st.just("risk"),
            "public_background": any_of([{"age": 40, "bmi": 25}], {"age": [40, 50], "bmi": [25, 30]}),
        },
        "LocalLinear": {"model": st.just("risk"), "record": mostly(st.just({"age": 40, "bmi": 25}), st.just({"age": 200}), 12)},
    }
    cost = any_of({"share": 0.1}, {"share": 0.25}, {"epsilon": 0.1})
    wrong = any_of({}, {"epsilon": 0.1, "share": 0.1}, {"epsilon": "x"}, {"share": [1]}, {"rho": 0.1}, {"epsilon": 100})
    title = any_of({}, {}, {"title": TITLES})

    def entry(kind):
        return st.fixed_dictionaries({name: mostly(value, ODD, 60) for name, value in settings[kind].items()}).map(
            lambda given: {"explain": kind, **given}
        )

    @st.composite
    def whole(draw):
        named = {name: draw(value) for name, value in draw(title).items()}
        return {**draw(any_of(*settings).flatmap(entry)), **draw(mostly(cost, wrong, 40)), **named}

    return mostly(whole(), st.one_of(ODD, st.just({"explain": "Nothing"}), whole().map(lambda e: e | {"surplus": 1})), 40)


@st.composite
def studies(draw):
    """The text of a study file: most often one that could be run, with a mistake in every third."""
    content = {
        "name": draw(any_of("ward-7", "日本")),
        "data": "people.parquet",
        "features": FEATURES,
        "budget": draw(any_of({"epsilon": 2.0}, {"epsilon": 5, "delta": 1e-6})),
        "ledger": "study.db",
        "neighbors": draw(any_of("replace", "replace", "add-remove")),
        "expected_rows": 50,
        "models": {"risk": MODEL},
        "clusterings": {"halves": CLUSTERING},
        "releases": draw(st.lists(releases(), min_size=1, max_size=4)),
    }
    mistake = draw(any_of(*["none"] * 8, "key", "key", "inside", "features", "text"))
    if mistake == "key":
        content[draw(any_of(*content, "unit", "output", "surplus"))] = draw(ODD)
    elif mistake == "inside":
        section, name = draw(any_of(("models", "risk"), ("clusterings", "halves")))
        made = dict(content[section][name])
        made[draw(any_of(*made, "input", "positive"))] = draw(ODD)
        content[section] = {name: made}
    elif mistake == "features":
        content["features"] = draw(ODD_FEATURES)
    elif mistake == "text":
        return draw(
            st.one_of(
                st.text(max_size=60), any_of("- a\n b", "{", "a: &x [*x]", "!!python/object:os.system x", "\t", "---\n---\n", "0")
            )
        )
    return yaml.safe_dump(content, allow_unicode=True)


def people(folder):
    rng = np.random.default_rng(0)
    table = {
        "age": rng.integers(17, 91, 40),
        "bmi": rng.normal(27, 5, 40),
        "sex": rng.choice(["F", "M", "?"], 40),
        "ill": rng.random(40) < 0.3,
    }
    pd.DataFrame(table).to_parquet(folder / "people.parquet")
    (folder / "models.py").write_text(MODELS)


def run(*arguments):
    """The command line in this process: (exit code, what it wrote)."""
    before, written, code = sys.argv, io.StringIO(), 0
    sys.argv = ["pellucid", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
            commands.main()
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        sys.argv = before
    return code, written.getvalue()


def attempt_study(text, pictures, tally):
    """Preview and run a study: what goes wrong is said in a line and charges nothing, and each charge has its result."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        people(folder)
        study = folder / "study.yaml"
        study.write_bytes(text.encode("utf-8", "surrogatepass"))
        previewed, said = run("preview", study)
        assert previewed in (0, 1) and "Traceback" not in said, said
        code, said = run("explain", study, "--create", *([] if pictures else ["--no-pictures"]))
        assert code in (0, 1) and "Traceback" not in said, said
        paid = {entry.hash for entry in history(folder) if entry.kind == "reserve"}
        if code:
            assert said.splitlines()[-1].startswith("error: ") and not paid, said
        else:
            assert previewed == 0 and len([entry for entry in history(folder) if entry.kind == "commit"]) == len(paid)
            assert paid == {pel.load(path).certificate.entry for path in folder.rglob("*.json")}
        tally.note("study", "refused" if code else "paid")


def history(folder):
    """All entries of the ledgers in a folder, whatever they are called."""
    for path in folder.rglob("*"):
        if not path.is_file() or not path.read_bytes().startswith(b"SQLite format 3"):
            continue
        with pel.Ledger(os.fspath(path)) as ledger:
            assert ledger.verify().ok
            yield from ledger.history()
