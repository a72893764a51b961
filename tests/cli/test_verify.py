"""`pellucid verify` finds whatever was changed in a saved result, and nothing in one that was not."""

import json

import pytest
from typer.testing import CliRunner

import pellucid as pel
from pellucid.cli.commands import app

SCHEMA = pel.Schema({"age": pel.Number(0, 99, integer=True)})


@pytest.fixture
def study(tmp_path):
    session = pel.Session(
        {"age": [30, 40, 50] * 100}, SCHEMA, budget=pel.Budget(2.0), name="a", ledger=tmp_path / "study.db", create=True
    )
    session.release(pel.Distribution("age", bins=4), epsilon=0.25).save(tmp_path / "other.json")
    session.release(pel.Distribution("age", bins=5), epsilon=0.5).save(tmp_path / "result.json")
    return tmp_path


def verified(study, file="result.json", ledger="study.db"):
    return CliRunner().invoke(app, ["verify", str(study / file), "--ledger", str(study / ledger)])


def edited(study, change):
    body = json.loads((study / "result.json").read_text())
    change(body)
    (study / "edited.json").write_text(json.dumps(body))
    return verified(study, "edited.json")


def test_what_was_released_verifies_also_as_a_replay(study):
    assert verified(study).exit_code == 0 and "verifies" in verified(study).stdout
    again = pel.Session({"age": [30, 40, 50] * 100}, SCHEMA, budget=pel.Budget(2.0), name="a", ledger=study / "study.db")
    again.release(pel.Distribution("age", bins=3), epsilon=0.25)
    again.release(pel.Distribution("age", bins=5), epsilon=0.5).save(study / "again.json")
    assert verified(study, "again.json").exit_code == 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda b: b["certificate"].update(epsilon=0.1), "epsilon = 0.1, and 0.5 was certified"),
        (lambda b: b["certificate"].update(status="conditional"), "status"),
        (lambda b: b["certificate"]["charges"][0].update(amount=0.1), "charges"),
        (lambda b: b["certificate"].update(unit="one household"), "unit"),
        (lambda b: b["content"]["counts"].__setitem__(0, 1.0), "counts differs"),
        (lambda b: b["content"]["law"].update(scale=0.01), "law differs"),
        (lambda b: b["certificate"].update(entry="0" * 64), "has no charge"),
        (lambda b: b.update(certificate=None), "no ledger entry"),
        (lambda b: b.update(certificate=["x"]), "no ledger entry"),
        (lambda b: b["certificate"].update(entry=["x"]), "no ledger entry"),
        (lambda b: b["certificate"]["total"].update(epsilon=0.5), "total"),
        (lambda b: b["certificate"]["total"].update(budget_epsilon=9.0), "total"),
        (lambda b: b["certificate"]["total"].update(bounded=False), "total"),
        (lambda b: b["certificate"].update(epsilon="0.5"), 'epsilon = "0.5", and 0.5 was certified'),
        (lambda b: b.update(note="significant"), "'note', which no saved result has"),
    ],
)
def test_whatever_was_edited_is_found(study, change, told):
    found = edited(study, change)
    assert found.exit_code == 1 and told in found.stdout


def test_the_numbers_of_one_result_under_the_certificate_of_another(study):
    other = json.loads((study / "other.json").read_text())
    found = edited(study, lambda b: b.update(content=other["content"]))
    assert found.exit_code == 1 and "counts differs" in found.stdout


def test_another_ledger_has_no_such_charge(study):
    pel.Session({"age": [1] * 9}, SCHEMA, budget=pel.Budget(1.0), name="b", ledger=study / "new.db", create=True)
    found = verified(study, ledger="new.db")
    assert found.exit_code == 1 and "has no charge" in found.stdout


def test_a_result_of_an_earlier_table_still_verifies(study):
    pel.Session({"age": [1] * 9}, SCHEMA, budget=pel.Budget(2.0), name="a", ledger=study / "study.db", changed="newer rows")
    assert verified(study).exit_code == 0


@pytest.mark.parametrize("budget", [pel.Budget(3.0, 1e-6), pel.Budget(3.0, 1e-6, "zcdp"), pel.Budget(3.0, 1e-6, "either")])
def test_how_the_account_stood_is_looked_up_however_it_counts(tmp_path, budget):
    ages, files = {"age": [30, 40, 50] * 100}, [tmp_path / "0.json", tmp_path / "1.json", tmp_path / "2.json"]
    ask = pel.Distribution("age", bins=5)
    session = pel.Session(ages, SCHEMA, budget=budget, name="a", ledger=tmp_path / "study.db", create=True)
    session.release(ask, epsilon=0.5).save(files[0])
    session.release(pel.Distribution("age", bins=4), epsilon=0.25)
    session.release(ask, epsilon=0.5).save(files[1])
    pel.Session(ages, SCHEMA, budget=budget, name="a", ledger=tmp_path / "study.db").release(ask, epsilon=0.5).save(files[2])
    for file in files:
        assert verified(tmp_path, file.name).exit_code == 0, verified(tmp_path, file.name).stdout
        body = json.loads(file.read_text())
        body["certificate"]["total"]["epsilon"] *= 0.5
        (tmp_path / "edited.json").write_text(json.dumps(body))
        assert "total" in verified(tmp_path, "edited.json").stdout
