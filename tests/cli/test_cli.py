"""The command line as a person or a program uses it: helpful, scriptable, and never a traceback."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml
from people import make_people

import pellucid as pel
from pellucid.cli import commands as cli
from pellucid.cli import formulas

MODELS = """
import numpy as np

def risk(d):
    return 1 / (1 + np.exp(-0.05 * (d["age"] - 50)))

def ranked(d):
    return d["age"].rank() / len(d)
"""

RANKED = {"load": "models.py:ranked", "output": [0, 1], "features": ["age"], "trained_on": "other data"}


@pytest.fixture
def study(tmp_path):
    make_people(2000).to_parquet(tmp_path / "people.parquet")
    (tmp_path / "models.py").write_text(MODELS)
    content = {
        "name": "ward-7",
        "data": "people.parquet",
        "features": {
            "age": {"number": [17, 90], "integer": True, "source": "form 12"},
            "sex": {"category": ["F", "M"]},
        },
        "budget": {"epsilon": 2.0},
        "ledger": "study.db",
        "models": {"risk": {"load": "models.py:risk", "output": [0, 1], "features": ["age"], "trained_on": "other data"}},
        "releases": [
            {"explain": "PartialDependence", "model": "risk", "feature": "age", "share": 0.25},
            {"explain": "AccumulatedEffects", "model": "risk", "feature": "age", "epsilon": 0.5},
            {"explain": "Distribution", "feature": "sex", "epsilon": 0.25, "title": "Women and men"},
        ],
    }
    path = tmp_path / "study.yaml"

    def write(**changes):
        path.write_text(yaml.safe_dump({k: v for k, v in (content | changes).items() if v is not None}))
        return path

    write.content = content
    write()
    return write


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["pellucid", *map(str, arguments)])
    code = 0
    try:
        cli.main()
    except SystemExit as stop:
        code = stop.code or 0
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def test_a_study_from_end_to_end(study, tmp_path, monkeypatch, capsys):
    path = study()
    code, out, _ = run(monkeypatch, capsys, "preview", path)
    assert code == 0 and "95 %" in out and "left on the account: ε = 2 (there is no ledger yet)\n" in out
    code, out, _ = run(monkeypatch, capsys, "explain", path, "--by", "Ada", "--purpose", "board meeting", "--create")
    assert code == 0 and "left ε = 0.75" in out and "study.db is a new ledger, with a budget of ε = 2" in out
    results = tmp_path / "results"
    assert {"report.html", "women-and-men.json", "women-and-men.png"} <= set(os.listdir(results))
    page = (results / "report.html").read_text()
    assert "Women and men" in page and "PROVED" in page and "http" not in page
    assert isinstance(pel.load(results / "women-and-men.json").counts, np.ndarray)
    code, out, _ = run(monkeypatch, capsys, "explain", path, "--json", "--no-pictures")
    assert code == 0 and [r["title"] for r in json.loads(out)][2] == "Women and men"
    code, out, _ = run(monkeypatch, capsys, "ledger", "show", tmp_path / "study.db")
    assert code == 0 and "Ada" in out and "board meeting" in out and "PartialDependence" in out and "left 0.75" in out
    code, out, _ = run(monkeypatch, capsys, "ledger", "show", tmp_path / "study.db", "--account", "ward-7", "--json")
    assert json.loads(out)["accounts"][0]["remaining"] == pytest.approx(0.75)
    code, out, _ = run(monkeypatch, capsys, "ledger", "verify", tmp_path / "study.db")
    assert code == 0 and "7 entries verify" in out


def test_a_study_that_cannot_be_paid_charges_nothing(study, tmp_path, monkeypatch, capsys):
    releases = [
        {"explain": "Distribution", "feature": "sex", "epsilon": 1.5},
        {"explain": "Distribution", "feature": "age", "epsilon": 1.0},
    ]
    path = study(releases=releases)
    bill = (
        "it asks for ε = 2.5 in all; left on the account: ε = 2{}; missing: ε = 0.5; "
        "the budget runs out at '02 Distribution age', so nothing would be released"
    )
    code, out, _ = run(monkeypatch, capsys, "preview", path)
    assert code == 0 and out.endswith(f"the whole study: {bill.format(' (there is no ledger yet)')}\n")
    code, out, err = run(monkeypatch, capsys, "explain", path, "--create")
    assert (
        code == 1 and bill.format(" (there is no ledger yet)") in err and "Nothing was charged" in err and "new ledger" not in out
    )
    assert "declare a larger budget" in err and not (tmp_path / "study.db").exists()
    assert run(monkeypatch, capsys, "ledger", "create", tmp_path / "study.db", "ward-7", "--epsilon", 2)[0] == 0
    code, _, err = run(monkeypatch, capsys, "explain", path)
    assert code == 1 and bill.format("") in err and "pellucid ledger raise" in err
    assert pel.Ledger(tmp_path / "study.db").account("ward-7").spent == 0


def test_budgets_are_raised_in_the_open(study, tmp_path, monkeypatch, capsys):
    db = tmp_path / "study.db"
    code, out, _ = run(monkeypatch, capsys, "ledger", "create", db, "ward-7", "--epsilon", 2)
    assert code == 0 and "account 'ward-7' with a budget of ε = 2" in out
    code, out, _ = run(
        monkeypatch, capsys, "ledger", "raise", db, "ward-7", "--epsilon", 3, "--by", "Board", "--purpose", "second year"
    )
    assert code == 0 and "is now epsilon = 3" in out
    code, out, _ = run(monkeypatch, capsys, "preview", study(), "--json")
    assert code == 0 and all(p["affordable"] for p in json.loads(out))
    code, _, err = run(monkeypatch, capsys, "ledger", "raise", db, "ward-7", "--epsilon", 1, "--by", "x", "--purpose", "y")
    assert code == 1 and err.startswith("error:")
    code, _, err = run(monkeypatch, capsys, "ledger", "raise", db, "ward-9", "--epsilon", 9, "--by", "x", "--purpose", "y")
    assert code == 1 and "ward-7" in err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budget": None}, "'budget:' is missing"),
        ({"budget": {"epsilon": -1}}, "positive"),
        ({"budget": {"epsilon": 1, "delta": 2}}, "below 1"),
        ({"budgett": 1}, "did you mean 'budget'"),
        ({"data": "nothing.parquet"}, "does not exist"),
        ({"features": {"age": {"number": [90, 17]}}}, "column 'age'.*swap"),
        ({"features": {"age": {"numbr": [1, 2]}}}, "give either 'number"),
        ({"features": {"age": {"number": [17, 90], "lo": 1}}}, "'lo' is not known"),
        ({"features": {"age": {"number": [17, 90]}, "height": {"number": [0, 3]}}}, "no column 'height'"),
        ({"neighbors": "swap"}, "add-remove"),
        ({"unit": {"column": "nobody", "max_rows": 2}}, "no column 'nobody'"),
        ({"unit": {"max_rows": 0}}, "whole number"),
        ({"releases": []}, "at least one"),
        ({"releases": [{"explain": "PartialDependance", "feature": "age", "share": 1}]}, "did you mean 'PartialDependence'"),
        ({"releases": [{"explain": "PartialDependence", "model": "rsk", "feature": "age", "share": 1}]}, "did you mean 'risk'"),
        ({"releases": [{"explain": "PartialDependence", "model": "risk", "feature": "age"}]}, "exactly one"),
        ({"releases": [{"explain": "PartialDependence", "feature": "age", "share": 1}]}, "needs 'model:'"),
        ({"releases": [{"explain": "PartialDependence", "model": "risk", "share": 1}]}, "needs feature"),
        ({"releases": [{"explain": "PartialDependence", "model": "risk", "feature": "agee", "share": 1}]}, "does not use 'agee'"),
        ({"releases": [{"explain": "Distribution", "feature": "agee", "share": 1}]}, "did you mean 'age'"),
        ({"releases": [{"explain": "Distribution", "feature": "age", "epsilon": 0}]}, "positive"),
        ({"models": 3}, "a name for each"),
        ({"clusterings": [1]}, "a name for each"),
        ({"models": {"risk": {"load": "models.py:nope", "trained_on": "other data"}}}, "loaded: models.py has no 'nope' "),
        ({"models": {"risk": {"load": "modles.py:risk", "trained_on": "other data"}}}, "no file 'modles.py'.*check the path"),
        ({"models": {"risk": {"load": "modles.part:risk", "trained_on": "other data"}}}, "'modles'; check the name"),
        ({"models": {"risk": {"load": "risk.joblib", "trained_on": "other data"}}}, "no file 'risk.joblib'"),
        ({"name": False}, "'name:' for a boolean.*quotes"),
        ({"name": ""}, "name: '' is not text"),
        ({"name": 0}, "name: 0 is not text"),
        ({"ledger": False}, "'ledger:' for a boolean"),
        ({"unit": False}, "unit: give a mapping"),
        ({"models": False}, "a name for each"),
        ({"models": {"risk": {"load": "risk", "trained_on": "other data"}}}, "needs the form"),
        ({"models": {"risk": {"load": "models.py:risk", "output": [0, 1]}}}, "trained_on"),
        ({"models": {"risk": RANKED}}, "one row"),
    ],
)  # fmt: skip
def test_wrong_studies_are_one_line_with_the_fix(study, monkeypatch, capsys, changes, words):
    content = dict(study.content)
    path = study(**changes) if "budget" not in changes or changes["budget"] else study()
    if changes.get("budget", 1) is None:
        path.write_text(yaml.safe_dump({k: v for k, v in content.items() if k != "budget"}))
    code, _, err = run(monkeypatch, capsys, "explain", path, "--create")
    assert code == 1 and err.startswith("error: ") and len(err.strip().splitlines()) == 1 and re.search(words, err), err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import math\nimport xgboots\n", r"ModuleNotFoundError: No module named 'xgboots' \(broken\.py, line 2\)\."),
        ("def made():\n    return [][1]\n\nrisk = made()\n", r"IndexError: list index out of range \(broken\.py, line 2\)\."),
        ("import json\n\nrisk = json.loads('{')\n", r"JSONDecodeError: .*\(broken\.py, line 3\)\."),
        ("risk = (\n", r"SyntaxError: .*\(broken\.py, line 1\)\."),
        ("def risk(d)\n", r"SyntaxError: .*\(broken\.py, line 1\)\."),
        ("raise ValueError\n", r"ValueError \(broken\.py, line 1\)\."),
    ],
)
@pytest.mark.parametrize("form", ["broken.py", "broken"])
def test_what_goes_wrong_in_the_code_of_a_study_is_said(form, text, words, study, tmp_path, monkeypatch, capsys):
    (tmp_path / "broken.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    path = study(models={"risk": {"load": f"{form}:risk", "output": [0, 1], "trained_on": "other data"}})
    code, _, err = run(monkeypatch, capsys, "explain", path, "--create")
    assert code == 1 and re.search(words, err) and "check the" not in err and len(err.strip().splitlines()) == 1, err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["explain", "nothing.yaml"], 1, "does not exist"),
        (["ledger", "show", "nothing.db"], 1, "no ledger"),
        (["explain"], 2, "Missing argument"),
        (["explian", "x"], 2, "No such command"),
    ],
)
def test_wrong_calls(arguments, code, words, monkeypatch, capsys):
    got, _, err = run(monkeypatch, capsys, *arguments)
    assert got == code and words in err


def test_damaged_files(study, tmp_path, monkeypatch, capsys):
    path = study()
    path.write_text("name: [unclosed\nbudget: {")
    assert "not valid YAML" in run(monkeypatch, capsys, "explain", path)[2]
    (tmp_path / "study.db").write_bytes(b"not a ledger at all" * 50)
    code, _, err = run(monkeypatch, capsys, "explain", study())
    assert code == 1 and "ledger" in err
    assert (tmp_path / "study.db").read_bytes() == b"not a ledger at all" * 50, "nothing is lost"
    target = tmp_path / "blocked"
    target.write_text("a file, not a folder")
    code, _, err = run(monkeypatch, capsys, "explain", study(ledger="other.db"), "--create", "--output", target / "inside")
    assert code == 1 and "Nothing was charged" in err


def test_an_unexpected_error_does_not_quote_data(study, monkeypatch, capsys):
    def broken(path, **options):
        raise RuntimeError("cell 'Mrs Robinson'")

    monkeypatch.setattr("pellucid.cli.study.Study.load", broken)
    code, _, err = run(monkeypatch, capsys, "explain", study())
    assert code == 3 and "RuntimeError" in err and "Robinson" not in err


def test_models_from_files_and_modules(study, tmp_path, monkeypatch, capsys):
    import joblib
    from sklearn.linear_model import LogisticRegression

    people = make_people(500)
    joblib.dump(LogisticRegression().fit(people[["age"]], people["age"] > 50), tmp_path / "fitted.joblib")
    models = {"risk": {"load": "fitted.joblib", "trained_on": {"epsilon": 1.0, "delta": 1e-6}}}
    assert run(monkeypatch, capsys, "preview", study(models=models))[0] == 0
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "study_module.py").write_text(MODELS)
    models = {"risk": {"load": "study_module:risk", "output": [0, 1], "features": ["age"], "trained_on": "other data"}}
    assert run(monkeypatch, capsys, "preview", study(models=models))[0] == 0


def test_rankings_and_functions_in_a_study(study, tmp_path, monkeypatch, capsys):
    code = "\n\ndef half(d):\n    return [d['age'].mean() / 200, risk(d).mean()]\n"
    (tmp_path / "models.py").write_text(MODELS + code)
    study(
        features=study.content["features"] | {"smoker": {"category": [False, True]}},
        releases=[
            {"explain": "PermutationImportance", "model": "risk", "target": "smoker", "ranking": True, "epsilon": 0.5},
            {"explain": "PrivatePlot", "function": "models.py:half", "x": ["age", "risk"], "output": [0, 1], "epsilon": 0.5},
            {"explain": "ShapValues", "model": "risk", "record": {"age": 70}, "epsilon": 0.5},
        ],
    )
    code, _, err = run(monkeypatch, capsys, "explain", tmp_path / "study.yaml", "--create")
    assert code == 0, err
    made = sorted(p.name for p in (tmp_path / "results").glob("*.json"))
    assert len(made) == 3 and "half" in made[1]
    assert "models.py:none" in refused(study, monkeypatch, capsys, tmp_path)


def refused(study, monkeypatch, capsys, folder):
    study(releases=[{"explain": "PrivatePlot", "function": "models.py:none", "x": ["a"], "output": [0, 1], "epsilon": 0.5}])
    return run(monkeypatch, capsys, "explain", folder / "study.yaml")[2]


@pytest.mark.parametrize(
    ("uses", "status", "says"),
    [
        (None, "conditional", "was not declared"),
        ("nothing", "proved for isolated functions", "is public"),
        (["risk"], "proved for isolated functions", "risk"),
        ({"name": "cuts", "trained_on": "this data"}, "conditional", "cuts was made from the same people's records"),
        (["risk", {"name": "cuts", "trained_on": {"epsilon": 1}}], "proved for isolated functions", "but risk, cuts"),
    ],
)
def test_what_a_function_uses_is_declared_in_a_study(study, tmp_path, monkeypatch, capsys, uses, status, says):
    (tmp_path / "models.py").write_text(MODELS + "\n\ndef half(d):\n    return [risk(d).mean()]\n")
    entry = {"explain": "PrivatePlot", "function": "models.py:half", "x": ["risk"], "output": [0, 1], "epsilon": 0.5, "blocks": 3}
    study(releases=[entry if uses is None else {**entry, "uses": uses}])
    code, _, err = run(monkeypatch, capsys, "explain", tmp_path / "study.yaml", "--no-pictures", "--create")
    assert code == 0, err
    (made,) = (tmp_path / "results").glob("*.json")
    certificate = pel.load(made).certificate
    assert certificate.status == status and says in certificate.text


@pytest.mark.parametrize(
    ("uses", "says"), [(["risky"], "risk"), ([3], "no model"), ({"name": "cuts"}, "trained_on"), ({"of": "cuts"}, "not known")]
)
def test_what_is_no_declaration_in_a_study_is_refused(study, tmp_path, monkeypatch, capsys, uses, says):
    entry = {"explain": "PrivatePlot", "function": "models.py:risk", "x": ["risk"], "output": [0, 1], "epsilon": 0.5}
    study(releases=[{**entry, "uses": uses}])
    code, _, err = run(monkeypatch, capsys, "explain", tmp_path / "study.yaml")
    assert code == 1 and says in err


@pytest.mark.parametrize("module", [["-m", "pellucid"], ["-c", "from pellucid.cli import main; main()"]])
def test_as_a_process(module):
    done = subprocess.run([sys.executable, *module, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and all(word in done.stdout for word in ("demo", "explain", "preview", "ledger"))


@pytest.mark.slow  # `.ci/wheel` runs the demo too, once, away from the sources
def test_the_demo(tmp_path, monkeypatch, capsys):
    pytest.importorskip("statsmodels")
    code, out, err = run(monkeypatch, capsys, "demo", "--output", tmp_path / "demo")
    assert code == 0, err
    assert "CONDITIONAL" in out and "the ledger verifies: True" in out and (tmp_path / "demo" / "report.html").exists()
    before = pel.Ledger(tmp_path / "demo" / "demo.db").account("rand-hie").spent
    assert run(monkeypatch, capsys, "demo", "--output", tmp_path / "demo")[0] == 0
    assert pel.Ledger(tmp_path / "demo" / "demo.db").account("rand-hie").spent == before, "a second run is free"


def test_the_demo_says_what_it_needs_before_it_writes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("pellucid.cli.demo.NEEDS", ("matplotlib", "no_such_package"))
    code, _, err = run(monkeypatch, capsys, "demo", "--output", tmp_path / "demo")
    assert code == 1 and "needs no_such_package" in err and "pellucid[demo]" in err and not (tmp_path / "demo").exists()


def test_version(monkeypatch, capsys):
    assert run(monkeypatch, capsys, "--version") == (0, f"pellucid {pel.__version__}\n", "")


def test_proofs_are_printed(monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, "proof", "box-sum")
    assert code == 0 and out.startswith("# box-sum\n") and "**Proof.**" in out
    code, out, _ = run(monkeypatch, capsys, "proof")
    assert code == 0 and {"box-sum", "discrete-gaussian", "output-range"} <= set(out.split())
    code, _, err = run(monkeypatch, capsys, "proof", "box-sun")
    assert code == 1 and "did you mean 'box-sum'" in err


def test_proofs_are_found_inside_an_installed_package(tmp_path, monkeypatch, capsys):
    inside = tmp_path / "pellucid" / "release" / "proofs"
    inside.mkdir(parents=True)
    (inside / "box-sum.md").write_text("# installed\n")
    monkeypatch.setattr("pellucid.cli.proofs.PACKAGE", tmp_path / "pellucid")
    assert run(monkeypatch, capsys, "proof", "box-sum")[1] == "# installed\n"


def test_bars_without_the_sources_says_where_to_get_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(formulas, "__file__", str(tmp_path / "pellucid" / "cli" / "formulas.py"))
    code, _, err = run(monkeypatch, capsys, "bars", "--output", tmp_path / "bars")
    assert code == 1 and "not installed with the package" in err and "pip install -e" in err


def test_reports_escape_what_users_write(tmp_path):
    from pellucid.cli import report

    schema = pel.Schema({"<b>": pel.Category(["<script>", "b"])})
    session = pel.Session(pd.DataFrame({"<b>": ["b"] * 50}), schema, budget=pel.Budget(1.0), name="<i>")
    page = report.page(
        [("<u>", session.release(pel.Distribution("<b>"), epsilon=1.0, by="<script>alert(1)</script>"))], "<title>"
    )
    assert "<script>" not in page and "<u>" not in page and "<b>" not in page


def test_sensitivity_command(tmp_path, monkeypatch, capsys):
    picture = tmp_path / "norm.png"
    ranges = ["--range", "a=1:2", "--range", "b=0.5:3"]
    point = ["--at", "a=1.5", "--at", "b=2"]
    code, out, _ = run(monkeypatch, capsys, "sensitivity", "a**2 + exp(2*b - a)", *ranges, *point, "--picture", picture)
    assert code == 0 and "330.97232" in out and "149.41" in out and "-0.3527" in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    code, out, _ = run(
        monkeypatch, capsys, "sensitivity", "a*b", *ranges, "--mean-of", "5", "--at", "a=1", "--at", "b=1", "--json"
    )
    body = json.loads(out)
    assert body["replace"]["upper"] == pytest.approx(1.1)
    assert body["at"]["share"] == pytest.approx({"a": 0.5**0.5, "b": 0.5**0.5})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a*c", "--range", "a=1:2"], "'c' has no declared range"),
        (["a", "--range", "a"], "--range 'a'"),
        (["a", "--range", "a=1"], "two numbers"),
        (["a", "--range", "a=1:x"], "not a number"),
        (["a", "--range", "a=2:1"], "lo <= hi"),
        (["a", "--range", "a=1:2", "--at", "b=1"], "not an attribute"),
    ],
)
def test_sensitivity_errors_are_one_line(arguments, said, monkeypatch, capsys):
    code, _, err = run(monkeypatch, capsys, "sensitivity", *arguments)
    assert code == 1 and said in err and len(err.strip().splitlines()) == 1


def test_bars_command(tmp_path, monkeypatch, capsys):
    bars = formulas._benchmark("network_bars")
    real = bars.bars_study
    monkeypatch.setattr(bars, "bars_study", lambda output, seed: real(output, seed=seed, steps=(30,), each=40, progress=False))
    code, out, _ = run(monkeypatch, capsys, "bars", "--output", tmp_path / "bars", "--seed", 3)
    assert code == 0 and "written to" in out and (tmp_path / "bars" / "bars.json").exists()


def test_check_counts_cells_for_the_owner_without_opening_an_account(study, tmp_path, monkeypatch, capsys):
    make_people(200).assign(age="27,3", sex=["F", "f"] * 100).to_parquet(tmp_path / "people.parquet")
    monkeypatch.setattr(sys, "argv", ["pellucid", "check", str(study(models={"risk": {"load": "nothing.py:gone"}}))])
    cli.main()
    out, err = capsys.readouterr()
    assert out.startswith("NOT PRIVATE") and (out + err).count("NOT PRIVATE") == 1 and not (tmp_path / "study.db").exists()
    assert "age: 200 unreadable (100.0%)" in out and "decimal commas" in out and "100 × 'f' (not declared)" in out
    monkeypatch.setattr(sys, "argv", ["pellucid", "check", str(study()), "--json"])
    cli.main()
    said = json.loads(capsys.readouterr().out)
    assert said["warning"].startswith("NOT PRIVATE") and said["columns"][0]["unreadable"] == 200


@pytest.mark.parametrize(("changes", "words"), [({"data": None}, "'data:' is missing"), ({"features": None}, "either 'schema:'")])
def test_check_of_a_study_that_cannot_be_read(changes, words, study, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pellucid", "check", str(study(**changes))])
    with pytest.raises(SystemExit):
        cli.main()
    assert words in capsys.readouterr().err


def test_the_report_says_what_was_not_counted(study, tmp_path, monkeypatch, capsys):
    make_people(2000).assign(sex=["F", "M", "?", "M"] * 500).to_parquet(tmp_path / "people.parquet")
    monkeypatch.setattr(sys, "argv", ["pellucid", "explain", str(study()), "--create"])
    cli.main()
    page = (tmp_path / "results" / "report.html").read_text()
    assert "% of `sex` was missing or not a declared value" in page and "cells that are not as declared" in page


def test_a_report_from_the_command_line(study, tmp_path, monkeypatch, capsys):
    path = study(releases=None)
    code, out, _ = run(monkeypatch, capsys, "report", path, "--epsilon", "1", "--plan")
    assert code == 0 and "Nothing is paid yet" in out and not (tmp_path / "study.db").exists()
    code, out, _ = run(monkeypatch, capsys, "report", path, "--epsilon", "1", "--only", "curves", "--create", "--by", "Ada")
    assert code == 0 and "study.db is a new ledger" in out and "left ε = 1" in out
    assert "What was found" in (tmp_path / "results" / "report.html").read_text()
    spent = pel.Ledger(tmp_path / "study.db").account("ward-7").spent
    assert run(monkeypatch, capsys, "report", path, "--epsilon", "1", "--only", "curves")[0] == 0
    assert pel.Ledger(tmp_path / "study.db").account("ward-7").spent == spent, "a second run is free"
    code, _, err = run(monkeypatch, capsys, "report", path, "--epsilon", "1", "--model", "other")
    assert code == 1 and "which model" in err
    code, _, err = run(monkeypatch, capsys, "explain", path)
    assert code == 1 and "'releases:' is missing" in err


def test_a_charge_without_an_answer_is_marked(study, tmp_path, monkeypatch, capsys):
    run(monkeypatch, capsys, "explain", study(), "--no-pictures", "--create")
    code, out, _ = run(monkeypatch, capsys, "ledger", "show", tmp_path / "study.db")
    assert code == 0 and "nothing released" not in out
    # As a process leaves it that is killed between the charge and the release.
    request = json.dumps({"explainer": "Distribution", "features": ["age"]})
    paid = pel.Ledger(tmp_path / "study.db").reserve("ward-7", 1000, key="k", request=request)
    code, out, _ = run(monkeypatch, capsys, "ledger", "show", tmp_path / "study.db")
    assert code == 0 and "Distribution age (charged, nothing released: it was stopped, or is still running)" in out
    code, out, _ = run(monkeypatch, capsys, "ledger", "show", tmp_path / "study.db", "--json")
    assert json.loads(out)["unanswered"] == [paid.seq]
