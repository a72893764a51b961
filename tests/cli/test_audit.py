"""Audits from the command line: of a study without its data, kept for certificates; and what is said of bad input."""

import json

import pytest
import yaml
from people import make_people
from test_cli import run

import pellucid as pel
from pellucid.audit.own import keep, seal, stamps_of
from pellucid.mechanisms import noise, source

CONTENT = {
    "data": "people.parquet",
    "features": {"age": {"number": [17, 90], "integer": True}, "sex": {"category": ["F", "M"]}},
    "budget": {"epsilon": 1.0},
    "models": {"risk": {"load": "models.py:risk", "output": [0, 1], "features": ["age", "sex"], "trained_on": "other data"}},
    "releases": [
        {"explain": "Distribution", "feature": "sex", "epsilon": 0.5, "title": "Women and men"},
        {"explain": "LocalLinear", "model": "risk", "epsilon": 0.1, "title": "A stream"},
    ],
}
ONE = pel.Schema({"v": pel.Number(0, 1)})
MODELS = "def risk(d):\n    return (d['age'] - 17) / 73 * (d['sex'] == 'F')\n"


@pytest.fixture
def study(tmp_path):
    (tmp_path / "models.py").write_text(MODELS)

    def write(file="study.yaml", **changes):
        path = tmp_path / file
        path.write_text(yaml.safe_dump(CONTENT | changes, allow_unicode=True))
        return path

    return write


@pytest.fixture
def pellucid(monkeypatch, capsys):
    monkeypatch.setattr("pellucid.cli.audit.FAST_RUNS", 1000)
    # A true claim is called broken once in a hundred times with the usual one.
    monkeypatch.setattr("pellucid.audit.own.CONFIDENCE", 0.9999)
    return lambda *arguments: run(monkeypatch, capsys, *arguments)


def test_a_study_is_audited_without_its_data_and_its_certificates_say_so(study, tmp_path, pellucid):
    """There is no data file at all while it is audited, nor a ledger, and none is made."""
    code, out, _ = pellucid("audit", study(), "--fast", "--json")
    rows = json.loads(out)
    assert code == 0 and {path.name for path in tmp_path.iterdir() if path.is_file()} == {
        "models.py",
        "study.yaml",
        "study.audit.json",
    }
    assert rows[0]["name"] == "Women and men" and rows[0]["verdict"] == "holds" and rows[0]["confidence"] == 0.9999
    assert 0 < rows[0]["measured"] <= rows[0]["claimed"] == 0.5
    assert rows[1]["verdict"].startswith("not audited: LocalLinear answers questions one after another")
    make_people(500).to_parquet(tmp_path / "people.parquet")
    only = study(releases=CONTENT["releases"][:1])
    assert pellucid("explain", only, "--no-pictures")[0] == 0
    certificate = pel.load(tmp_path / "results" / "women-and-men.json").certificate
    assert certificate.audited.startswith(f"≥ {rows[0]['measured']:.2f} of a claimed 0.50, with 99.99 %")
    assert f"pellucid {pel.__version__}, 20" in certificate.audited and certificate.audited in certificate.text
    # Of another request nothing was audited.
    other = study(releases=[{**CONTENT["releases"][0], "epsilon": 0.4, "title": "Again"}])
    assert pellucid("explain", other, "--no-pictures")[0] == 0
    assert pel.load(tmp_path / "results" / "again.json").certificate.audited is None


def test_an_audit_of_another_promise_is_on_no_certificate(study, tmp_path, pellucid):
    """Neighbours, rows per person and the version are not what a request says, and what was measured was measured under them."""
    make_people(500).to_parquet(tmp_path / "people.parquet")
    only = {"releases": CONTENT["releases"][:1]}
    assert pellucid("audit", study(**only), "--fast")[0] == 0
    file = tmp_path / "study.audit.json"
    audited = file.read_text()

    def stamp(ledger, **changes):
        code, _, err = pellucid("explain", study(ledger=ledger, name="people", **only, **changes), "--no-pictures", "--create")
        assert code == 0, err
        return pel.load(tmp_path / "results" / "women-and-men.json").certificate.audited

    assert stamp("one.db", neighbors="add-remove") is None
    assert stamp("two.db", unit={"max_rows": 3}) is None
    ((key, line),) = json.loads(audited).items()
    older = line["audited"].replace(f"pellucid {pel.__version__}", "pellucid 0.1.9")
    file.write_text(json.dumps({key: {"audited": older, "seal": seal(key, older)}}))
    assert stamp("three.db") is None
    file.write_text(audited)
    assert stamp("four.db") is not None


@pytest.mark.parametrize("how", ["edited", "moved"])
def test_a_result_that_was_edited_or_moved_to_another_request_is_refused(how, tmp_path):
    """A seal shows that much; who made it, it cannot show."""
    file = tmp_path / "study.audit.json"
    row = pel.Session({"v": [0.0, 1.0]}, ONE, pel.Budget(epsilon=1.0)).audit(pel.Statistic("v"), epsilon=0.5, runs=20)
    keep(file, {"a": row.stamp})
    assert stamps_of(file) == {"a": row.stamp}
    text = file.read_text()
    file.write_text(text.replace("of a claimed 0.50", "of a claimed 0.40") if how == "edited" else text.replace('"a"', '"b"'))
    with pytest.raises(pel.LoadError, match="not what `pellucid audit` writes"):
        stamps_of(file)


def test_results_without_a_seal_are_on_no_certificate_and_stop_nothing(tmp_path):
    file = tmp_path / "study.audit.json"
    row = pel.Session({"v": [0.0, 1.0]}, ONE, pel.Budget(epsilon=1.0)).audit(pel.Statistic("v"), epsilon=0.5, runs=20)
    file.write_text(json.dumps({"a": row.stamp}, ensure_ascii=False))
    assert stamps_of(file) == {}
    keep(file, {"b": row.stamp})
    assert stamps_of(file) == {"b": row.stamp}


def test_noise_of_tests_is_stamped_on_nothing(monkeypatch):
    session = pel.Session({"v": [0.0, 1.0]}, ONE, pel.Budget(epsilon=1.0))
    with monkeypatch.context() as patch:
        patch.setattr(type(source.current), "private", False)
        session.audit(pel.Distribution("v", bins=2), epsilon=0.5, runs=20)
    assert session.release(pel.Distribution("v", bins=2), epsilon=0.5).certificate.audited is None


def test_a_study_that_breaks_its_promise_ends_with_1(study, tmp_path, pellucid, monkeypatch):
    whole = noise.add_noise
    monkeypatch.setattr(
        "pellucid.release.door.add_noise", lambda totals, how: [t + n // 4 for t, n in zip(totals, whole([0] * len(totals), how))]
    )
    code, out, _ = pellucid("audit", study(releases=CONTENT["releases"][:1]), "--fast")
    assert code == 1 and "broken: ε is at least" in out and "1 of 1 are BROKEN" in out
    assert "broken" in (tmp_path / "study.audit.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.yaml"], "nowhere.yaml"),
        (["study.yaml", "distribution"], "one study at a time"),
        (["shaply"], "did you mean"),
        ([""], "an empty name"),
        (["--workers", "-1", "replay"], "give a number of processes"),
        (["--json", "--markdown", "replay"], "give one of them"),
    ],
)
def test_bad_input_is_one_line(arguments, words, study, tmp_path, pellucid, monkeypatch):
    study()
    monkeypatch.chdir(tmp_path)
    code, out, err = pellucid("audit", *arguments)
    assert code == 1 and not out and words in err and err.count("\n") == 1 and "Traceback" not in err


@pytest.mark.parametrize(
    "changes", [{"neighbors": "sideways"}, {"budget": {"epsilon": 1, "rho": 2}}, {"releases": []}, {"data": 1, "typo": 2}]
)
def test_a_study_that_is_wrong_is_refused(changes, study, pellucid):
    code, out, err = pellucid("audit", study(**changes))
    assert code == 1 and not out and err.startswith("error: ") and err.count("\n") == 1


def test_a_misspelt_column_is_refused_before_anything_is_played(study, pellucid, monkeypatch):
    """The second release is the wrong one, and the first is not audited for minutes before that is said."""
    monkeypatch.setattr("pellucid.audit.own.play", lambda *_, **__: pytest.fail("a game was played"))
    wrong = {"explain": "Distribution", "feature": "sexx", "epsilon": 0.1, "title": "Wrong"}
    code, out, err = pellucid("audit", study(releases=[CONTENT["releases"][0], wrong]))
    assert code == 1 and not out and err.startswith("error: Wrong: 'sexx' is not declared") and "did you mean 'sex'" in err


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_played(study, tmp_path, pellucid, monkeypatch):
    monkeypatch.setattr("pellucid.audit.own.play", lambda *_, **__: pytest.fail("a game was played"))
    (tmp_path / ".study.audit.json.part").mkdir()
    code, out, err = pellucid("audit", study(releases=CONTENT["releases"][:1]))
    assert code == 1 and not out and "study.audit.json' cannot be written" in err and err.count("\n") == 1


def test_a_stopped_audit_says_so_and_keeps_what_it_had_measured(study, tmp_path, pellucid, monkeypatch):
    from pellucid.audit import own

    played = own.play

    def play(explainer, *given, **how):
        if how["name"] == "Second":
            raise KeyboardInterrupt
        return played(explainer, *given, **how)

    monkeypatch.setattr(own, "play", play)
    second = {"explain": "Distribution", "feature": "age", "bins": 2, "epsilon": 0.1, "title": "Second"}
    code, out, err = pellucid("audit", study(releases=[CONTENT["releases"][0], second]), "--fast")
    assert code == 130 and not out and err.endswith("stopped; what was paid for stays paid\n")
    assert "0/2 releases: Women and men" in err and "1/2 releases: Second" in err
    assert len(json.loads((tmp_path / "study.audit.json").read_text())) == 1


def test_a_row_that_measured_nothing_is_remarked_on(study, pellucid):
    code, out, err = pellucid("audit", study(releases=[{**CONTENT["releases"][0], "epsilon": 1e-8}]), "--fast")
    assert code == 0 and "1 of the rows measured 0" in out and "proves nothing" in out
    assert "kept in study.audit.json" in err


def test_models_that_are_not_there_or_cannot_be_read_are_told(study, tmp_path, pellucid):
    (tmp_path / "bad.joblib").write_text("not a pickle")
    bad = {"risk": {**CONTENT["models"]["risk"], "load": "bad.joblib"}}
    code, _, err = pellucid("audit", study(models=bad))
    assert code == 1 and "'bad.joblib' could not be loaded: it is not a file that joblib or pickle wrote" in err
    code, _, err = pellucid("audit", study(models={}))
    assert code == 1 and "LocalLinear needs 'risk'" in err and "add 'models:'" in err


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1}', '{"a": "\\ud800"}', '{"a": "proved\\nprivate"}'])
def test_a_file_of_results_that_is_none_is_refused_before_anything_is_charged(text, study, tmp_path, pellucid):
    make_people(100).to_parquet(tmp_path / "people.parquet")
    (tmp_path / "study.audit.json").write_text(text)
    only = study(releases=CONTENT["releases"][:1])
    for command in (("explain", only, "--no-pictures"), ("audit", only, "--fast")):
        code, _, err = pellucid(*command)
        assert code == 1 and "study.audit.json is not what" in err
    assert not (tmp_path / "ledger.db").exists()


def test_the_table_for_a_page(pellucid):
    code, out, _ = pellucid("audit", "replay", "--markdown", "--workers", "1")
    assert code == 0 and out.startswith("| release |") and "| replay, statistic | 1 | 0.00 |" in out


@pytest.mark.parametrize("wrong", [{"runs": 3}, {"runs": 1.5}, {"confidence": 1.0}, {"confidence": 99}])
def test_sessions_refuse_what_cannot_be_audited(wrong):
    session = pel.Session({"v": [0.0, 1.0]}, ONE, pel.Budget(epsilon=1.0))
    with pytest.raises(pel.PlanError, match=next(iter(wrong))):
        session.audit(pel.Distribution("v", bins=2), epsilon=0.5, **wrong)


def test_a_release_that_may_be_paid_for_either_way_is_audited_both_ways(study, pellucid):
    either = {"epsilon": 1.0, "delta": 1e-6, "accounting": "either"}
    settled = {**CONTENT["releases"][0], "title": "As zCDP", "kind": "zcdp"}
    code, out, _ = pellucid("audit", study(budget=either, releases=[CONTENT["releases"][0], settled]), "--fast", "--json")
    rows = json.loads(out)
    assert code == 0 and [(row["name"], row["currency"]) for row in rows] == [
        ("Women and men, pure", "epsilon"),
        ("Women and men, zcdp", "rho"),
        ("As zCDP", "rho"),
    ]


def test_a_ledger_names_a_release_of_all_features(study, tmp_path, pellucid):
    """Importances that leave their features open are listed by the name of the explainer, as every other release."""
    make_people(100).assign(ill=[0.0, 1.0] * 50).to_parquet(tmp_path / "people.parquet")
    every = {"explain": "PermutationImportance", "model": "risk", "target": "ill", "epsilon": 0.1}
    columns = {**CONTENT["features"], "ill": {"number": [0, 1]}}
    code, _, err = pellucid("explain", study(releases=[every], features=columns), "--no-pictures")
    assert code == 0, err
    _, out, _ = pellucid("ledger", "show", tmp_path / "ledger.db")
    assert "PermutationImportance" in out and "reserve" not in out
