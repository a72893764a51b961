"""The account a session opens is the one that was meant: nothing starts anew by chance, and no table answers for another."""

import json
import shutil
from pathlib import Path

import pytest
from people import make_people
from store_conformance import in_child, needs_fork

import pellucid as pel

BEFORE = Path(__file__).parents[1] / "before"
SEX = pel.Distribution("sex")
RECORD = {"age": 40, "children": 3, "bmi": 25.0, "lab": 1.0, "sex": "F", "school": "primary", "smoker": False}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.db"


@pytest.fixture
def open_session(people, schema, path):
    def make(data=people, schema=schema, name="ward", **options):
        return pel.Session(data, schema, pel.Budget(epsilon=1.0), name=name, ledger=path, **options)

    return make


def test_a_ledger_that_is_named_is_made_on_purpose(open_session, path):
    with pytest.raises(pel.LedgerUnavailable, match=r"there is no ledger.*put it back.*create=True.*`pellucid ledger create"):
        open_session()
    assert not path.exists()
    open_session(create=True).release(SEX, epsilon=0.25)
    assert open_session().spent == 0.25 and open_session(create=True).spent == 0.25


def test_a_deleted_ledger_does_not_start_anew(open_session, path):
    open_session(create=True).release(SEX, epsilon=1.0)
    path.unlink()
    with pytest.raises(pel.LedgerUnavailable, match="put it back"):
        open_session()


def test_an_account_is_made_on_purpose(open_session):
    open_session(create=True).release(SEX, epsilon=1.0)
    with pytest.raises(pel.LedgerError, match=r"'wrad' is not in this ledger \(did you mean 'ward'\?\).*create=True"):
        open_session(name="wrad")
    assert [account.name for account in open_session().ledger.accounts()] == ["ward"]
    assert open_session(name="other", create=True).spent == 0


@pytest.mark.parametrize("name", ["ward ", "Ward", "WARD", "\tward", "w\uff41rd", "ward\u200b"])
def test_a_name_that_reads_the_same_opens_the_same_account(open_session, name):
    open_session(create=True).release(SEX, epsilon=1.0)
    again = open_session(name=name, create=True)
    assert again.name == "ward" and again.remaining == 0 and again.release(SEX, epsilon=1.0).certificate.account == "ward"
    assert len(again.ledger.accounts()) == 1


@pytest.mark.parametrize("name", ["ward\n7", "ward\x1b[2J", "\u2028", "\u200b"])
def test_names_with_control_characters_are_refused(open_session, name, path):
    with pytest.raises(pel.LedgerError, match="name"):
        open_session(name=name, create=True)


def test_a_session_in_memory_needs_nothing(people, schema):
    session = pel.Session(people, schema, pel.Budget(epsilon=1.0))
    line = session.release(SEX, epsilon=0.5).certificate.text.splitlines()[2]
    assert line == "    PROVED; the total is known to one process only"


def test_the_status_of_a_release_on_disk_has_no_reservation(open_session):
    certificate = open_session(create=True).release(SEX, epsilon=0.5).certificate
    assert certificate.status_line == "PROVED" and certificate.status == "proved"


def test_another_table_is_not_answered_from_the_old_ones_releases(open_session):
    open_session(create=True).release(SEX, epsilon=0.25)
    larger = make_people(4000)
    with pytest.raises(pel.AccountMismatch, match=r"number of people was 3,000 and is 4,000.*name=.*changed="):
        open_session(larger)
    session = open_session(larger, changed="second wave")
    found = session.release(SEX, epsilon=0.25)
    assert session.spent == 0.5 and abs(found.counts.sum() - 4000) < 200
    assert session.release(SEX, epsilon=0.25).to_json() == found.to_json() and session.spent == 0.5
    change = [entry for entry in session.history() if entry.kind == "changed"]
    assert [entry.purpose for entry in change] == ["second wave"] and json.loads(change[0].request)["table"]["people"] == 4000
    assert session.ledger.verify().ok
    assert open_session(larger).spent == 0.5, "once it is on record nothing more need be said"


def test_a_program_that_is_run_again_declares_its_change_once(open_session):
    open_session(create=True)
    larger = make_people(4000)
    for _ in range(3):
        session = open_session(larger, changed="second wave")
        session.release(SEX, epsilon=0.25)
    assert session.spent == 0.25 and sum(entry.kind == "changed" for entry in session.history()) == 1


def test_a_change_that_nothing_public_shows_can_be_declared(open_session):
    open_session(create=True).release(SEX, epsilon=0.25)
    session = open_session(make_people(3000, seed=1), changed="records were corrected")
    session.release(SEX, epsilon=0.25)
    assert session.spent == 0.5


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"age": pel.Number(17, 100), "sex": pel.Category(["F", "M"])}, "column 'age' was declared otherwise"),
        ({"sex": pel.Category(["M", "F"])}, "column 'sex' was declared otherwise"),
        ({"lab": pel.Number(0, 6)}, "column 'lab' was declared otherwise"),
    ],
)
def test_a_column_that_is_declared_otherwise_is_another_table(open_session, columns, words):
    open_session(create=True)
    with pytest.raises(pel.AccountMismatch, match=words):
        open_session(schema=pel.Schema(columns))


def test_columns_may_be_added_and_left_out(open_session, people, schema):
    few = pel.Schema({"sex": schema["sex"]})
    open_session(schema=few, create=True)
    session = open_session()
    assert open_session(schema=few).spent == 0 and open_session().spent == 0
    assert [entry.kind for entry in session.history()] == ["open", "table"], "what is new is recorded once"
    otherwise = pel.Schema({"sex": schema["sex"], "age": pel.Number(0, 99)})
    with pytest.raises(pel.AccountMismatch, match="column 'age'"):
        open_session(schema=otherwise)


def test_where_a_bound_comes_from_is_no_part_of_the_table(open_session, people):
    columns = {"age": pel.Number(17, 90, integer=True, source="form 12")}
    open_session(schema=pel.Schema(columns), create=True)
    open_session(schema=pel.Schema({"age": pel.Number(17, 90, integer=True, source="form 13")}))


def test_a_table_without_a_known_column_is_another(open_session, people, schema):
    open_session(schema=pel.Schema({"sex": schema["sex"]}), create=True)
    with pytest.raises(pel.AccountMismatch, match="none of the columns"):
        open_session(schema=pel.Schema({"age": schema["age"]}))


def test_under_add_remove_the_number_of_people_is_not_recorded(people, schema, path):
    for data in (people, make_people(40)):
        session = pel.Session(data, schema, pel.Budget(1.0), "add-remove", "ward", path, create=True)
    assert len(session.history()) == 1 and json.loads(session.history()[0].request)["table"]["people"] is None
    assert "3000" not in session.history()[0].request


def test_a_session_whose_table_was_replaced_pays_no_more(open_session):
    """Otherwise it would put releases of the old table among those of the new one."""
    old = open_session(create=True)
    new = open_session(make_people(4000), changed="second wave")
    with pytest.raises(pel.AccountMismatch, match=r"another session has put on record.*nothing was charged"):
        old.release(SEX, epsilon=0.25)
    assert new.spent == 0


def test_a_stream_does_not_go_on_with_another_table(open_session, model):
    explainer = pel.LocalLinear(model, questions=2)
    with open_session(create=True).open(explainer, epsilon=0.4) as local:
        local.explain(RECORD)
        assert local.answered == 1
    with open_session(make_people(4000), changed="second wave").open(explainer, epsilon=0.4) as local:
        assert local.answered == 0 and local.spent == 0
        assert local.explain(RECORD).source == "data"


def test_an_account_of_the_version_before_learns_its_table_when_it_is_opened(path, people):
    import recording

    shutil.copy(BEFORE / "ledger.db", path)
    first = recording.session_on(path, "ward-ε")
    entry = first.history()[-1]
    assert entry.kind == "table" and json.loads(entry.request)["table"]["people"] == 240 and first.ledger.verify().ok
    entries = len(first.history())
    assert len(recording.session_on(path, "ward-ε").history()) == entries
    with pytest.raises(pel.AccountMismatch, match="number of people was 240 and is 239"):
        pel.Session(recording.table().iloc[1:], recording.schema(), recording.ACCOUNTS["ward-ε"], name="ward-ε", ledger=path)


def test_a_ledger_with_names_that_read_the_same_goes_on(people, schema, path):
    """As the version before could make it."""
    with pel.Ledger(path, create=True) as ledger:
        for name in ("ward", "Ward", "ward "):
            with ledger._writing() as turn:
                terms = {"currency": "epsilon", "delta": "0", "relation": "replace", "unit": "one row", "budget": 10**12}
                ledger._append(
                    turn, turn.ends(name)[0], account=name, kind="open", amount=10**12, request=json.dumps(terms),
                    budget=10**12, spent=0, bounded=True,
                )  # fmt: skip
        assert ledger.verify().ok
    for name, epsilon in (("ward", 0.1), ("Ward", 0.2), ("ward ", 0.3)):
        session = pel.Session(people, schema, pel.Budget(1.0), name=name, ledger=path)
        session.release(SEX, epsilon=epsilon)
        assert session.spent == pytest.approx(epsilon) and session.name == name
    with pytest.raises(pel.LedgerError, match="may mean any of 'ward', 'Ward', 'ward '"):
        pel.Session(people, schema, pel.Budget(1.0), name="WARD", ledger=path, create=True)


@needs_fork
def test_processes_that_open_names_that_read_the_same_make_one_account(people, schema, path):
    import os

    def act(name):
        pel.Session(people, schema, pel.Budget(1.0), name=name, ledger=path, create=True)

    children = [in_child(lambda name=name: act(name)) for name in ("ward", "Ward", "WARD ", " ward")]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    with pel.Ledger(path) as ledger:
        assert len(ledger.accounts()) == 1 and ledger.verify().ok
