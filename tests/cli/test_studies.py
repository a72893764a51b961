"""Studies from the command line: there is always a ledger, nothing starts anew by chance, and whatever can fail fails unpaid."""

import json
import os
import shutil
import sys

import pytest
import yaml
from people import make_people
from test_cli import run

import pellucid as pel

CONTENT = {
    "data": "people.parquet",
    "features": {"age": {"number": [17, 90], "integer": True}, "sex": {"category": ["F", "M"]}},
    "budget": {"epsilon": 1.0},
    "releases": [{"explain": "Distribution", "feature": "sex", "epsilon": 0.5, "title": "Women and men"}],
}


@pytest.fixture
def study(tmp_path):
    make_people(2000).to_parquet(tmp_path / "people.parquet")

    def write(file="study.yaml", **changes):
        path = tmp_path / file
        path.write_text(yaml.safe_dump(CONTENT | changes, allow_unicode=True))
        return path

    return write


@pytest.fixture
def pellucid(monkeypatch, capsys):
    return lambda *arguments: run(monkeypatch, capsys, *arguments)


def spent(path, account="people"):
    with pel.Ledger(path) as ledger:
        return ledger.account(account).spent / 10**12


def test_a_study_without_a_ledger_has_one(study, tmp_path, pellucid):
    code, out, _ = pellucid("explain", study())
    assert code == 0 and f"{tmp_path / 'ledger.db'} is a new ledger, with a budget of ε = 1" in out
    assert "Women and men: released, left ε = 0.5" in out
    code, out, _ = pellucid("explain", study())
    assert code == 0 and "Women and men: free, it was released before, left ε = 0.5" in out and "new ledger" not in out
    more = [*CONTENT["releases"], {"explain": "Distribution", "feature": "age", "epsilon": 0.6}]
    code, _, err = pellucid("explain", study(releases=more))
    assert code == 1 and "cannot pay" in err and spent(tmp_path / "ledger.db") == 0.5
    result = pel.load(tmp_path / "results" / "women-and-men.json")
    assert result.certificate.ledger == "ledger.db" and result.certificate.status_line == "PROVED"


def test_a_study_with_an_account_that_counts_either_way(study, tmp_path, pellucid):
    db, either = tmp_path / "ledger.db", {"epsilon": 1.0, "delta": 1e-6, "accounting": "either"}
    listed = [{"explain": "Distribution", "feature": "age", "bins": b, "share": 0.03, "title": f"{b}"} for b in range(2, 22)]
    listed += [{"explain": "Distribution", "feature": "sex", "share": 0.3, "title": "sex"}]
    code, out, _ = pellucid("preview", study(budget=either, releases=listed))
    assert (
        code == 0 and "the whole study: it asks for ρ = 0.0219" in out and "left on the account: pure ε = 1 or ρ = 0.0243" in out
    )
    code, out, err = pellucid("explain", study(budget=either, releases=listed), "--no-pictures")
    assert code == 0, err
    with pel.Ledger(db) as ledger:
        standing = ledger.account("people")
        # All of them are zCDP: one pure release among them would have left the others more noise.
        assert standing.pure_spent is None and 0.0218 < standing.spent / 10**12 < 0.022 and ledger.verify().ok
    code, out, _ = pellucid("explain", study(budget=either, releases=listed), "--no-pictures")
    assert code == 0 and out.count("free, it was released before") == 21
    one = [{"explain": "Distribution", "feature": "sex", "epsilon": 0.1, "kind": "pure", "title": "again"}]
    assert pellucid("explain", study(budget=either, releases=one), "--no-pictures")[0] == 1
    code, out, _ = pellucid("ledger", "raise", db, "people", "--epsilon", 2, "--by", "Board", "--purpose", "second year")
    assert code == 0 and "the budget is now ε = 2 at δ = 1e-06" in out
    assert pellucid("explain", study(budget=either, releases=one), "--no-pictures")[0] == 0
    code, out, _ = pellucid("ledger", "show", db)
    assert code == 0 and "rho spent 0.02" in out and "ε 0.1, or ρ 0.00" in out
    found = json.loads(pellucid("ledger", "show", db, "--json")[1])
    assert found["accounts"][0]["currency"] == "either" and found["accounts"][0]["pure_budget"] == 2.0
    assert found["accounts"][0]["pure_spent"] is None and found["entries"][-2]["pure"] == 0.1
    created = pellucid("ledger", "create", tmp_path / "b.db", "b", "--epsilon", 1, "--delta", 1e-6, "--accounting", "either")
    assert created[0] == 0 and pel.Ledger(tmp_path / "b.db").account("b").pure_budget == 10**12


def test_another_study_of_the_same_data_shares_its_account(study, tmp_path, pellucid):
    assert pellucid("explain", study())[0] == 0
    other = study("other.yaml", releases=[{"explain": "Distribution", "feature": "age", "epsilon": 0.6}])
    code, _, err = pellucid("explain", other)
    assert code == 1 and "cannot pay" in err
    code, _, err = pellucid("explain", study("renamed.yaml", name="peolpe"))
    assert code == 1 and "did you mean 'people'" in err and "--create" in err


def test_a_deleted_ledger_is_noticed_by_what_it_paid_for(study, tmp_path, pellucid):
    assert pellucid("explain", study())[0] == 0
    (tmp_path / "ledger.db").unlink()
    code, out, err = pellucid("explain", study())
    assert code == 1 and "results/ holds what it paid for (results: 1)" in err and "put it back" in err and "--create" in err
    assert not (tmp_path / "ledger.db").exists()
    code, out, _ = pellucid("explain", study(), "--create")
    assert code == 0 and "new ledger" in out


def test_a_named_ledger_is_started_on_purpose(study, tmp_path, pellucid):
    path = study(ledger="study.db", name="ward")
    code, _, err = pellucid("explain", path)
    assert code == 1 and "there is no ledger 'study.db'" in err and "--create" in err and not (tmp_path / "study.db").exists()
    code, out, _ = pellucid("preview", path)
    assert code == 0 and "there is no ledger yet" in out and not (tmp_path / "study.db").exists()
    assert pellucid("explain", path, "--create")[0] == 0 and spent(tmp_path / "study.db", "ward") == 0.5


def test_a_ledger_started_by_its_command(study, tmp_path, pellucid):
    db = tmp_path / "ledger.db"
    assert pellucid("ledger", "create", db, "people", "--epsilon", 1)[0] == 0
    code, _, err = pellucid("ledger", "create", db, " People", "--epsilon", 9)
    assert code == 1 and "already" in err
    code, out, _ = pellucid("explain", study())
    assert code == 0 and "new ledger" not in out and spent(db) == 0.5
    code, _, err = pellucid("ledger", "create", tmp_path / "x.db", "a", "--epsilon", 0)
    assert code == 1 and "positive" in err and not (tmp_path / "x.db").exists()


def test_a_preview_says_what_is_free(study, tmp_path, pellucid):
    releases = [{"explain": "Distribution", "feature": "sex", "epsilon": 1.0}]
    assert pellucid("explain", study(releases=releases))[0] == 0
    code, out, _ = pellucid("preview", study(releases=releases))
    assert code == 0 and "free" in out and "cannot pay" not in out
    code, out, _ = pellucid("preview", study(releases=releases), "--json")
    assert json.loads(out)[0]["free"] is True and json.loads(out)[0]["affordable"] is True


def test_a_table_that_changed_is_said_to_have(study, tmp_path, pellucid):
    assert pellucid("explain", study())[0] == 0
    make_people(2100).to_parquet(tmp_path / "people.parquet")
    code, _, err = pellucid("explain", study())
    assert code == 1 and "2,000 and is 2,100" in err and spent(tmp_path / "ledger.db") == 0.5
    code, out, _ = pellucid("explain", study(), "--changed", "second wave")
    assert code == 0 and "Women and men: released, left ε = 0" in out
    code, out, _ = pellucid("ledger", "show", tmp_path / "ledger.db")
    assert code == 0 and "the table changed" in out and "second wave" in out
    code, out, _ = pellucid("explain", study(), "--changed", "second wave")
    assert code == 0 and "free" in out


def test_titles_that_read_the_same_have_files_of_their_own(study, tmp_path, pellucid):
    titles = ["Women & men", "women, men", "Women/men!", "患者", "漢字?", "$x and $y_", "x" * 300, "…", "women-men-2"]
    releases = [
        {"explain": "Distribution", "feature": "sex", "epsilon": 0.01 + i / 1000, "title": title}
        for i, title in enumerate(titles)
    ]
    code, _, err = pellucid("explain", study(releases=releases))
    assert code == 0, err
    results = tmp_path / "results"
    assert len(list(results.glob("*.json"))) == len(list(results.glob("*.png"))) == len(titles)
    assert len({pel.load(file).certificate.epsilon for file in results.glob("*.json")}) == len(titles)


def test_without_matplotlib_nothing_is_charged(study, tmp_path, pellucid, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    code, _, err = pellucid("explain", study())
    assert code == 1 and "pellucid[plots]" in err and not (tmp_path / "ledger.db").exists()
    assert pellucid("explain", study(), "--no-pictures")[0] == 0


@pytest.mark.parametrize("blocked", ["women-and-men.json", "women-and-men.png", "report.html", None])
def test_a_folder_that_cannot_be_written_charges_nothing(study, tmp_path, pellucid, blocked):
    results = tmp_path / "results"
    if blocked is None:
        results.write_text("a file")
    else:
        (results / blocked).mkdir(parents=True)
    code, _, err = pellucid("explain", study())
    assert code == 1 and "cannot be written" in err and "Nothing was charged" in err and not (tmp_path / "ledger.db").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_read_only_folder_charges_nothing(study, tmp_path, pellucid):
    (tmp_path / "results").mkdir(mode=0o500)
    code, _, err = pellucid("explain", study())
    assert code == 1 and "Nothing was charged" in err and not (tmp_path / "ledger.db").exists()


def test_a_picture_that_fails_loses_no_numbers(study, tmp_path, pellucid, monkeypatch):
    def broken(explanation, title=""):
        raise ValueError("no font")

    monkeypatch.setattr("pellucid.cli.report.picture", broken)
    code, _, err = pellucid("explain", study())
    assert code == 1 and "no picture could be drawn of 'Women and men'" in err
    assert pel.load(tmp_path / "results" / "women-and-men.json").certificate is not None


@pytest.mark.parametrize("word", ["--by", "--purpose"])
def test_arguments_that_are_no_text_charge_nothing(study, tmp_path, pellucid, word):
    """As the shell hands over a file name in another encoding."""
    code, _, err = pellucid("explain", study(), word, "Ad\udce9")
    assert code == 1 and "cannot be stored" in err and spent(tmp_path / "ledger.db") == 0


def test_a_title_that_cannot_be_stored_is_refused(study, tmp_path, pellucid):
    path = tmp_path / "study.json"
    study()
    releases = [{**CONTENT["releases"][0], "title": "half \ud800"}]
    path.write_text(json.dumps(CONTENT | {"releases": releases}))
    code, _, err = pellucid("explain", path)
    assert code == 1 and "title" in err and not (tmp_path / "ledger.db").exists()


def test_categories_that_yaml_reads_as_booleans_are_refused(study, tmp_path, pellucid):
    path = study()
    path.write_text(path.read_text().replace("- F\n", "- no\n").replace("- M\n", "- yes\n"))
    code, _, err = pellucid("explain", path)
    assert code == 1 and "for a boolean" in err and "quotes" in err and not (tmp_path / "ledger.db").exists()


def test_verify_says_what_is_empty_and_what_is_incomplete(study, tmp_path, pellucid):
    empty = tmp_path / "empty.db"
    pel.Ledger(empty, create=True).close()
    code, out, _ = pellucid("ledger", "verify", empty)
    assert code == 1 and "does NOT verify: it holds no account" in out
    assert pellucid("explain", study())[0] == 0
    db = tmp_path / "ledger.db"
    assert pellucid("ledger", "verify", db)[0] == 0
    copy = tmp_path / "copy.db"
    shutil.copy(db, copy)
    with copy.open("r+b") as file:
        file.seek(60)
        file.write((7).to_bytes(4, "big"))
    code, out, _ = pellucid("ledger", "verify", copy)
    assert code == 1 and "does NOT verify" in out and "incomplete" in out
    code, out, _ = pellucid("ledger", "verify", copy, "--json")
    assert code == 1 and json.loads(out)["ok"] is False and "incomplete" in json.loads(out)["message"]


def test_a_ledger_is_copied(study, tmp_path, pellucid):
    assert pellucid("explain", study())[0] == 0
    code, out, _ = pellucid("ledger", "copy", tmp_path / "ledger.db", tmp_path / "archive.db")
    assert code == 0 and "3 entries verify" in out and spent(tmp_path / "archive.db") == 0.5
    code, _, err = pellucid("ledger", "copy", tmp_path / "ledger.db", tmp_path / "archive.db")
    assert code == 1 and "there already" in err


def test_results_in_json_stay_json(study, tmp_path, pellucid):
    code, out, err = pellucid("explain", study(), "--json", "--no-pictures")
    assert code == 0 and json.loads(out)[0]["title"] == "Women and men" and "new ledger" in err


def test_check_looks_at_the_ids(study, tmp_path, pellucid):
    people = make_people(90)
    people.assign(id=["a", "b", None] * 30).to_parquet(tmp_path / "people.parquet")
    path = study(unit={"column": "id", "max_rows": 3})
    code, out, _ = pellucid("check", path)
    assert code == 0 and "id: 2 people; 2 with more than 3 rows, 54 rows left out for it; 30 rows without an id, left out" in out
    people.assign(id=[1.0, 2.0, None] * 30).to_parquet(tmp_path / "people.parquet")
    code, _, err = pellucid("check", path)
    assert code == 1 and "the id column 'id' holds double" in err and "read it as whole numbers or text" in err


def test_explain_says_what_is_paid_for_again(pellucid):
    _, out, _ = pellucid("explain", "--help")
    assert "paid for again in every run" in " ".join(out.replace("│", " ").split())


@pytest.mark.parametrize("arguments", [(), ("ledger",)])
def test_help_alone_is_no_error(arguments, pellucid):
    _, out, err = pellucid(*arguments)
    assert "Usage" in out + err and "error" not in err


def test_a_second_run_says_which_releases_are_paid_for_again(study, tmp_path, pellucid):
    (tmp_path / "asked.py").write_text("def risk(d):\n    return d['age'] / 100\n")
    models = {"risk": {"load": "asked.py:risk", "output": [0, 1], "features": ["age"], "trained_on": "other data"}}

    def asked(age):
        one = {"explain": "ShapValues", "model": "risk", "record": {"age": age}, "epsilon": 0.4}
        return study(models=models, releases=[*CONTENT["releases"], one])

    code, out, _ = pellucid("explain", asked(40), "--no-pictures")
    assert code == 0 and "\n02 ShapValues: released" in out
    code, _, err = pellucid("explain", asked(41), "--no-pictures")  # in this process the same record would be free
    said = " ".join(err.split())
    assert code == 1 and "about one record and paid for again in every run ('02 ShapValues')" in said and "Women" not in said


def test_what_was_paid_for_is_written_when_another_release_stops(study, tmp_path, pellucid, monkeypatch):
    def stops(self, ask):
        raise ZeroDivisionError("stopped")

    monkeypatch.setattr(pel.Completeness, "run", stops)
    releases = [
        {"explain": "Completeness", "title": "Gaps", "epsilon": 0.2},
        {"explain": "Distribution", "feature": "sex", "title": "Women and men", "epsilon": 0.3},
    ]
    code, out, err = pellucid("explain", study(releases=releases))
    assert code == 1 and "'gaps': stopped" in err and "Women and men: released, left ε = 0.5" in out
    assert (tmp_path / "results" / "women-and-men.json").exists() and not (tmp_path / "results" / "gaps.json").exists()
    assert spent(tmp_path / "ledger.db") == 0.5
