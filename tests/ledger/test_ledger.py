"""The ledger on real SQLite files: it never overspends, never forgets a charge, and shows every edit."""

import gc
import hashlib
import json
import os
import random
import re
import signal
import sqlite3
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import FrozenInstanceError
from datetime import date
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_conformance import TERMS, in_child, needs_fork

from pellucid.errors import AccountMismatch, BudgetExceeded, LedgerCorrupt, LedgerError, LedgerUnavailable
from pellucid.ledger import SCALE, Ledger, Reservation, budget_units, charge_units, from_units


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.db"


@pytest.fixture(params=["file", "memory"])
def ledger(request, path):
    with Ledger(path if request.param == "file" else None, create=True) as opened:
        opened.open_account("ward-7", budget=10, **TERMS)
        yield opened


def pay(ledger, account="ward-7", amount=1, key="k", released="{}"):
    return ledger.commit(ledger.reserve(account, amount, key=key, request='{"ask": 1}', by="Ada", purpose="report"), released)


def filled(path):
    """Two accounts and every kind of entry that costs or grants: numbers 1 to 9."""
    with Ledger(path, create=True) as ledger:
        ledger.open_account("a", budget=10, **TERMS)
        ledger.open_account("b", budget=20, **{**TERMS, "currency": "rho", "delta": "1e-6"})
        pay(ledger, "a", 3, "first", '{"y": 1}')
        pay(ledger, "b", 5, "second", '{"y": 2}')
        ledger.raise_budget("a", 15, by="Bo", purpose="second year")
        ledger.not_private("b", "seeded noise")
        ledger.reserve("a", 4, key="third", request="{}")
        assert ledger.verify().ok


def tamper(path, *statements):
    with closing(sqlite3.connect(path)) as raw:
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            raw.execute(statement)
        # A forger who can count: whoever cannot has an incomplete ledger.
        (entries,) = raw.execute("SELECT max(seq) FROM entries").fetchone()
        raw.execute(f"PRAGMA user_version={entries}")
        raw.commit()


def rehash(path, start=1):
    """What a forger with the source code would do: make the chain fit again after an edit."""
    with closing(sqlite3.connect(path)) as raw:
        raw.row_factory = sqlite3.Row
        rows = raw.execute("SELECT * FROM entries ORDER BY seq").fetchall()
        version, chain = raw.execute("SELECT version, chain FROM pellucid_ledger").fetchone()
        previous = hashlib.sha256(f"pellucid ledger {version} {chain}".encode()).hexdigest()
        for row in rows:
            values = {**dict(row), "previous": previous}
            values.pop("hash")
            later = {name: values.pop(name) for name in ("pure", "pure_budget", "pure_spent")}
            scope = values.pop("scope")
            values |= later if any(value is not None for value in later.values()) else {}
            values |= {} if scope is None else {"scope": scope}
            previous = hashlib.sha256(json.dumps(list(values.values()), separators=(",", ":")).encode()).hexdigest()
            if row["seq"] >= start:
                raw.execute("UPDATE entries SET previous = ?, hash = ? WHERE seq = ?", (values["previous"], previous, row["seq"]))
        raw.commit()


@given(st.fractions(min_value=0, max_value=10**6))
def test_charges_round_up_and_budgets_round_down(amount):
    assert from_units(budget_units(amount)) <= amount <= from_units(charge_units(amount))
    assert charge_units(amount) - budget_units(amount) <= 1
    assert charge_units(from_units(charge_units(amount))) == charge_units(amount)


def test_a_float_is_converted_exactly():
    assert charge_units(Fraction(0.1)) == SCALE // 10 + 1
    assert budget_units(Fraction("0.1")) == charge_units(Fraction("0.1")) == SCALE // 10


def test_reserve_then_commit(ledger):
    paid = ledger.reserve("ward-7", 4, key="k", request='{"ask": 1}', by="Ada", purpose="report")
    assert ledger.account("ward-7").spent == 4
    entry = ledger.commit(paid, '{"y": "é"}')
    assert (entry.kind, entry.refers_to, entry.by, entry.purpose) == ("commit", paid.seq, "Ada", "report")
    account = ledger.account("ward-7")
    assert (account.budget, account.spent, account.remaining, account.bounded) == (10, 4, 6, True)
    assert [e.kind for e in ledger.history("ward-7")] == ["open", "reserve", "commit"]
    assert ledger.history("ward-7") == ledger.history()
    assert ledger.history()[-1] == entry
    assert ledger.verify().ok and ledger.verify().head == entry.hash and ledger.verify().entries == 3


def test_records_are_frozen(ledger):
    with pytest.raises(FrozenInstanceError):
        ledger.account("ward-7").spent = 0


def test_the_day_is_kept_and_no_moment(path):
    filled(path)
    with Ledger(path) as ledger:
        assert all(date.fromisoformat(e.day) and len(e.day) == 10 for e in ledger.history())
    with closing(sqlite3.connect(path)) as raw:
        assert not re.search(r"\d\d:\d\d", "\n".join(raw.iterdump()))


def test_refusal_writes_nothing(ledger):
    ledger.reserve("ward-7", 8, key="k", request="{}")
    before = ledger.history()
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve("ward-7", 3, key="k", request="{}")
    assert (refused.value.account, refused.value.currency) == ("ward-7", "epsilon")
    assert (refused.value.asked, refused.value.left) == (3 / SCALE, 2 / SCALE)
    assert ledger.history() == before
    ledger.reserve("ward-7", 2, key="k", request="{}")
    assert ledger.account("ward-7").remaining == 0


def test_nothing_is_refunded_for_a_reservation_that_is_never_committed(path):
    with Ledger(path, create=True) as ledger:
        ledger.open_account("ward-7", budget=10, **TERMS)
        ledger.reserve("ward-7", 7, key="k", request="{}")
    with Ledger(path) as ledger:
        assert ledger.account("ward-7").spent == 7
        assert ledger.replay("ward-7", "k") is None


def test_a_reservation_is_committed_once(ledger):
    paid = ledger.reserve("ward-7", 1, key="k", request="{}")
    ledger.commit(paid, "first")
    with pytest.raises(LedgerError, match="committed before"):
        ledger.commit(paid, "second")
    assert ledger.replay("ward-7", "k") == "first"
    assert ledger.verify().ok


def test_a_reservation_belongs_to_its_ledger(ledger):
    with Ledger(None) as other:
        other.open_account("ward-7", budget=10, **TERMS)
        foreign = other.reserve("ward-7", 1, key="k", request="{}")
    ledger.reserve("ward-7", 1, key="k", request="{}")
    for wrong in (foreign, Reservation(99, "ward-7", 1, "x"), Reservation(1, "ward-7", 10, ledger.history()[0].hash)):
        with pytest.raises(LedgerError, match="not in this ledger"):
            ledger.commit(wrong, "{}")


def test_replay_gives_the_newest_committed_text(ledger):
    ledger.open_account("other", budget=10, **TERMS)
    assert ledger.replay("ward-7", "k") is None
    pay(ledger, key="k", released='{"y": 1}')
    pay(ledger, key="k", released='{"y": "ü 2"}')
    pay(ledger, key="", released="never again")
    ledger.reserve("ward-7", 1, key="k", request="{}")
    assert ledger.replay("ward-7", "k") == '{"y": "ü 2"}'
    assert ledger.replay("ward-7", "") is None
    assert ledger.replay("other", "k") is None
    assert ledger.account("ward-7").spent == 4


def test_an_account_reopens_on_its_own_terms(ledger):
    pay(ledger, amount=3)
    again = ledger.open_account("ward-7", budget=10, **TERMS)
    assert again == ledger.account("ward-7") and again.spent == 3
    assert len(ledger.history()) == 3


@pytest.mark.parametrize(
    "term, asked, stored_text, asked_text",
    [
        ("currency", "rho", "'epsilon'", "'rho'"),
        ("relation", "add-remove", "'replace'", "'add-remove'"),
        ("unit", "visit", "'person'", "'visit'"),
        ("budget", 3 * SCALE, "2 in the ledger", "3 was asked"),
    ],
)
def test_reopening_on_other_terms_is_refused(term, asked, stored_text, asked_text):
    ledger = Ledger(None)
    ledger.open_account("ward-7", budget=2 * SCALE, **TERMS)
    with pytest.raises(AccountMismatch) as refused:
        ledger.open_account("ward-7", **{**TERMS, "budget": 2 * SCALE, term: asked})
    message = str(refused.value)
    assert term in message and stored_text in message and asked_text in message and "raise_budget" in message
    assert len(ledger.history()) == 1


def test_delta_is_compared_as_a_number():
    ledger = Ledger(None)
    terms = {**TERMS, "currency": "rho", "budget": 5}
    ledger.open_account("a", **{**terms, "delta": "1e-6"})
    assert ledger.open_account("a", **{**terms, "delta": "0.000001"}).delta == "1e-6"
    with pytest.raises(AccountMismatch, match="delta is '1e-6' in the ledger and '1e-5' was asked"):
        ledger.open_account("a", **{**terms, "delta": "1e-5"})


def test_raising_a_budget_is_an_entry(ledger):
    pay(ledger, amount=10)
    raised = ledger.raise_budget("ward-7", 25, by="Bo", purpose="ethics board, second year")
    assert (raised.budget, raised.spent, raised.remaining) == (25, 10, 15)
    entry = ledger.history()[-1]
    assert (entry.kind, entry.amount, entry.by, entry.purpose) == ("raise", 15, "Bo", "ethics board, second year")
    for budget in (10, 25):
        assert ledger.open_account("ward-7", budget=budget, **TERMS).budget == 25
    with pytest.raises(AccountMismatch, match="budget"):
        ledger.open_account("ward-7", budget=26, **TERMS)
    pay(ledger, amount=15)
    assert ledger.verify().ok


def test_a_budget_only_rises_and_says_why(ledger):
    for budget in (10, 9):
        with pytest.raises(LedgerError, match="only be raised"):
            ledger.raise_budget("ward-7", budget, by="Bo", purpose="x")
    with pytest.raises(LedgerError, match="by must not be empty"):
        ledger.raise_budget("ward-7", 11, by=" ", purpose="x")
    with pytest.raises(LedgerError, match="purpose must not be empty"):
        ledger.raise_budget("ward-7", 11, by="Bo", purpose="")
    assert len(ledger.history()) == 1
    assert not [name for name in dir(ledger) if "reset" in name or "refund" in name or "delete" in name]


def test_not_private_marks_the_account_for_good(ledger):
    entry = ledger.not_private("ward-7", "noise was seeded")
    assert (entry.kind, entry.purpose, entry.amount) == ("not private", "noise was seeded", 0)
    pay(ledger)
    ledger.raise_budget("ward-7", 20, by="Bo", purpose="x")
    assert ledger.open_account("ward-7", budget=20, **TERMS).bounded is False
    assert ledger.verify().ok


def test_unknown_account_lists_the_known_ones(ledger):
    ledger.open_account("ward-8", budget=1, **TERMS)
    for ask in (ledger.account, ledger.history, lambda name: ledger.reserve(name, 1, key="", request="{}")):
        with pytest.raises(LedgerError, match=r"'ward-9'.*'ward-7', 'ward-8'"):
            ask("ward-9")
    assert [a.name for a in ledger.accounts()] == ["ward-7", "ward-8"]


@pytest.mark.parametrize("amount", [0, -1, True, 0.5, "1", None, 2**63])
def test_only_whole_positive_amounts(ledger, amount):
    with pytest.raises(LedgerError, match="the charge must be"):
        ledger.reserve("ward-7", amount, key="k", request="{}")
    assert len(ledger.history()) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"currency": "euro"}, {"delta": "small"}, {"delta": "1e-6"}, {"delta": "-1"}, {"delta": 0.0}, {"budget": 0},
        {"relation": ""}, {"unit": None}, {"unit": "a\0b"}, {"unit": "\ud800"}, {"name": ""},
    ],
)  # fmt: skip
def test_wrong_terms_are_refused(wrong):
    ledger = Ledger(None)
    with pytest.raises(LedgerError):
        ledger.open_account(**{"name": "a", "budget": 1, **TERMS, **wrong})
    assert ledger.accounts() == [] and ledger.history() == []


def test_contains_finds_what_certificates_carry(ledger):
    entry = pay(ledger)
    assert ledger.contains(entry.hash) and ledger.contains(entry.previous)
    assert not ledger.contains("0" * 64)


def test_contains_takes_the_printed_beginning_of_a_hash(ledger):
    entry = pay(ledger)
    assert ledger.contains(entry.hash[:16]) and ledger.contains(f"{entry.hash[:16]}…") and ledger.contains(entry.hash.upper())
    assert not ledger.contains("0" * 16)


@pytest.mark.parametrize("wrong", ["", "0" * 15, "g" * 64, "0" * 65, 12, None, object()])
def test_contains_refuses_what_is_no_hash(ledger, wrong):
    with pytest.raises(LedgerError, match="first 16") as refused:
        ledger.contains(wrong)
    assert "damaged" not in str(refused.value)


def test_equal_entries_in_two_ledgers_have_different_hashes():
    hashes = []
    for _ in range(2):
        with Ledger(None) as ledger:
            ledger.open_account("a", budget=1, **TERMS)
            hashes.append(ledger.history()[0].hash)
    assert hashes[0] != hashes[1]


def test_an_empty_ledger_does_not_verify(path):
    """It can show nothing: who holds a file without an account may hold the wrong one."""
    with Ledger(path, create=True) as ledger:
        found = ledger.verify()
        assert not found.ok and "holds no account" in found.message and found.entries == 0 and found.first_bad is None
        ledger.open_account("a", budget=1, **TERMS)
        assert ledger.verify().ok


def test_charges_are_synced_to_disk(path):
    with Ledger(path, create=True) as ledger:
        assert ledger._store._connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "truncate"
        assert ledger._store._connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert ledger.durable and ledger.path == str(path)


def test_in_memory_is_not_durable():
    ledger = Ledger(None)
    assert ledger.durable is False and ledger.path is None
    for name in ("", ":memory:"):
        with pytest.raises(LedgerError, match="None"):
            Ledger(name)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "pay", "raise", "not private", "reopen"]),
        st.sampled_from(["a", "b"]),
        st.integers(1, 40),
        st.sampled_from(["", "x", "y"]),
    ),
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@given(OPERATIONS)
def test_no_sequence_of_operations_overspends(tmp_path_factory, operations):
    path = tmp_path_factory.mktemp("ledger") / "study.db"
    budget, spent, texts = {"a": 50, "b": 80}, {"a": 0, "b": 0}, {}
    original = dict(budget)
    ledger = Ledger(path, create=True)
    for name in budget:
        ledger.open_account(name, budget=budget[name], **TERMS)
    for what, name, amount, key in operations:
        if what in ("reserve", "pay"):
            if spent[name] + amount > budget[name]:
                with pytest.raises(BudgetExceeded):
                    ledger.reserve(name, amount, key=key, request="{}")
                continue
            paid = ledger.reserve(name, amount, key=key, request="{}")
            spent[name] += amount
            if what == "pay":
                texts[name, key] = f"{paid.seq}"
                ledger.commit(paid, texts[name, key])
        elif what == "raise":
            budget[name] += amount
            ledger.raise_budget(name, budget[name], by="Bo", purpose="more")
        elif what == "not private":
            ledger.not_private(name, "seeded")
        else:
            ledger.close()
            ledger = Ledger(path)
            ledger.open_account(name, budget=original[name], **TERMS)
    for account in ledger.accounts():
        assert (account.budget, account.spent) == (budget[account.name], spent[account.name])
        assert account.remaining >= 0
    for (name, key), text in texts.items():
        assert ledger.replay(name, key) == (text if key else None)
    assert ledger.verify().ok
    ledger.close()


COLUMNS = [
    "account", "kind", "amount", "refers_to", "by", "purpose", "day", "request", "key", "budget", "spent", "bounded", "released",
    "previous", "hash",
]  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
def test_an_edited_column_is_found(path, column):
    filled(path)
    tamper(path, f'UPDATE entries SET "{column}" = 77 WHERE seq = 4')
    with Ledger(path) as ledger:
        found = ledger.verify()
    assert not found.ok and found.first_bad == 4 and "4" in found.message
    assert found.entries == 3 and len(found.head) == 64


@pytest.mark.parametrize(
    "value",
    ["CAST(x'ff' AS TEXT)", "x'00'", "'1.5'", "bounded + 1", "1.5"],
)
def test_an_edit_of_the_type_is_found(path, value):
    filled(path)
    tamper(path, f"UPDATE entries SET bounded = {value} WHERE seq = 4")
    with Ledger(path) as ledger:
        found = ledger.verify()
    assert not found.ok and found.first_bad == 4


def test_every_entry_is_covered(path):
    filled(path)
    for seq in range(1, 10):
        with closing(sqlite3.connect(path)) as raw:
            (before,) = raw.execute("SELECT purpose FROM entries WHERE seq = ?", (seq,)).fetchone()
        tamper(path, f"UPDATE entries SET purpose = purpose || '!' WHERE seq = {seq}")
        with Ledger(path) as ledger:
            assert ledger.verify().first_bad == seq
        tamper(path, f"UPDATE entries SET purpose = '{before}' WHERE seq = {seq}")
    with Ledger(path) as ledger:
        assert ledger.verify().ok


def test_a_removed_entry_is_found(path):
    filled(path)
    tamper(path, "DELETE FROM entries WHERE seq = 5")
    with Ledger(path) as ledger:
        assert "entry 5 is missing" in ledger.verify().message
    tamper(path, "UPDATE entries SET seq = seq - 1 WHERE seq > 5")
    with Ledger(path) as ledger:
        assert ledger.verify().first_bad == 5


def test_swapped_entries_are_found(path):
    filled(path)
    tamper(path, *(f"UPDATE entries SET seq = {new} WHERE seq = {old}" for old, new in ((4, 99), (5, 4), (99, 5))))
    with Ledger(path) as ledger:
        assert ledger.verify().first_bad == 4


def test_an_edited_release_is_found_and_not_replayed(path):
    filled(path)
    tamper(path, "UPDATE releases SET text = '{\"y\": 3}' WHERE seq = 4")
    with Ledger(path) as ledger:
        assert "released text of entry 4" in ledger.verify().message
        with pytest.raises(LedgerCorrupt, match="released text"):
            ledger.replay("a", "first")
        assert ledger.replay("b", "second") == '{"y": 2}'


@pytest.mark.parametrize(
    "statement, bad",
    [
        ("DELETE FROM releases WHERE seq = 4", 4),
        ("UPDATE releases SET text = x'00' WHERE seq = 4", 4),
        ("INSERT INTO releases VALUES (3, 'x')", 3),
        ("INSERT INTO releases VALUES (42, 'x')", 42),
    ],
)
def test_releases_and_commits_belong_together(path, statement, bad):
    filled(path)
    tamper(path, statement)
    with Ledger(path) as ledger:
        assert ledger.verify().first_bad == bad


@pytest.mark.parametrize(
    "statement, bad, words",
    [
        ("UPDATE entries SET spent = 0 WHERE seq = 9", 9, "do not add up"),
        ("UPDATE entries SET budget = 99 WHERE seq = 7", 7, "do not add up"),
        ("UPDATE entries SET bounded = 1 WHERE seq = 8", 8, "do not add up"),
        ("UPDATE entries SET amount = 40, spent = 43 WHERE seq = 9", 9, "more than the budget"),
        ("UPDATE entries SET amount = -4, spent = -1 WHERE seq = 9", 9, "kind does not allow"),
        ("UPDATE entries SET amount = 'four' WHERE seq = 9", 9, "not a whole number"),
        ("UPDATE entries SET kind = 'gift' WHERE seq = 9", 9, "kind does not allow"),
        ("UPDATE entries SET kind = 'gift', amount = 0 WHERE seq = 9", 9, "unknown kind"),
        ("UPDATE entries SET refers_to = 9 WHERE seq = 6", 6, "commits a reservation"),
        ("UPDATE entries SET account = 'c' WHERE seq = 9", 9, "never opened"),
    ],
)
def test_a_forged_chain_still_has_to_add_up(path, statement, bad, words):
    filled(path)
    rehash(path, start=99)
    tamper(path, statement)
    rehash(path)
    with Ledger(path) as ledger:
        found = ledger.verify()
    assert not found.ok and found.first_bad == bad and words in found.message


def test_a_cut_tail_is_found_through_the_hash_on_a_certificate(path):
    filled(path)
    with Ledger(path) as ledger:
        certificate = ledger.history()[-1].hash
        assert ledger.contains(certificate)
    tamper(path, "DELETE FROM entries WHERE seq = 9")
    with Ledger(path) as ledger:
        assert ledger.verify().ok
        assert not ledger.contains(certificate)


def test_a_beginning_that_several_hashes_have_is_refused(path):
    filled(path)
    tamper(path, "UPDATE entries SET hash = 'aaaaaaaaaaaaaaaa' || substr(hash, 17) WHERE seq < 3")
    with Ledger(path) as ledger, pytest.raises(LedgerError, match=r"2 entries .* more digits"):
        ledger.contains("a" * 16)


def test_a_charge_does_not_rest_on_an_edited_entry(path):
    filled(path)
    tamper(path, "UPDATE entries SET spent = 0 WHERE seq = 9")
    with Ledger(path) as ledger:
        for act in (
            lambda: ledger.reserve("a", 1, key="", request="{}"),
            lambda: ledger.reserve("b", 1, key="", request="{}"),
            lambda: ledger.account("a"),
        ):
            with pytest.raises(LedgerCorrupt, match="entry 9"):
                act()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET spent = 0",
        "DELETE FROM entries WHERE seq = 9",
        "DELETE FROM releases",
        "UPDATE releases SET text = ''",
        "UPDATE pellucid_ledger SET version = 2",
        "DELETE FROM pellucid_ledger",
        "INSERT INTO pellucid_ledger VALUES (2, 'x')",
        "INSERT OR REPLACE INTO releases VALUES (4, 'x')",
        "INSERT OR REPLACE INTO entries SELECT * FROM entries WHERE seq = 9",
        'INSERT OR REPLACE INTO entries SELECT 10, account, kind, amount, refers_to, "by", purpose, day, request, key, budget, '
        "spent, bounded, released, previous, 'new', NULL, NULL, NULL, NULL FROM entries WHERE seq = 4",
        'INSERT INTO entries SELECT 12, account, kind, amount, NULL, "by", purpose, day, request, key, budget, spent, bounded, '
        "released, previous, 'new', NULL, NULL, NULL, NULL FROM entries WHERE seq = 9",
    ],
)
def test_the_database_itself_refuses_edits(path, statement):
    filled(path)
    with closing(sqlite3.connect(path)) as raw, pytest.raises(sqlite3.IntegrityError, match="only grows"):
        raw.execute(statement)
    with Ledger(path) as ledger:
        assert ledger.verify().ok and ledger.verify().entries == 9


def unchained(refused):
    return refused.value.__cause__ is None and (refused.value.__suppress_context__ or refused.value.__context__ is None)


def test_a_file_that_is_no_database(path):
    path.write_bytes(b"age,sex\n17,F\n" * 200)
    with pytest.raises(LedgerCorrupt, match="backup") as refused:
        Ledger(path)
    assert unchained(refused) and "17" not in str(refused.value)
    assert path.read_bytes().startswith(b"age,sex")


def test_another_database_is_left_alone(path):
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE people (age INTEGER)")
        raw.commit()
    before = path.read_bytes()
    with pytest.raises(LedgerCorrupt, match="not a Pellucid ledger"):
        Ledger(path)
    assert path.read_bytes() == before


def test_a_truncated_file(path):
    filled(path)
    with Ledger(path) as ledger:
        ledger.open_account("long", budget=10**6, **TERMS)
        for _ in range(30):
            ledger.reserve("long", 1, key="k" * 500, request="r" * 3000)
    size = path.stat().st_size
    os.truncate(path, size // 2)
    with pytest.raises(LedgerCorrupt, match="damaged") as refused:
        Ledger(path)
    assert unchained(refused)


def test_damage_inside_the_file_is_found(path):
    filled(path)
    with closing(sqlite3.connect(path)) as raw:
        (page,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entries_of_account'").fetchone()
        (size,) = raw.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\0" * size)
    with Ledger(path) as ledger:
        assert not ledger.verify().ok
        with pytest.raises(LedgerCorrupt):
            ledger.reserve("a", 1, key="", request="{}")


def test_another_format_is_refused(path):
    filled(path)
    tamper(path, "UPDATE pellucid_ledger SET version = 9")
    with pytest.raises(LedgerCorrupt, match="format 9; this Pellucid reads format 1"):
        Ledger(path)


def test_a_missing_column_is_refused(path):
    filled(path)
    tamper(path, "ALTER TABLE entries DROP COLUMN day")
    with pytest.raises(LedgerCorrupt):
        Ledger(path)


def test_an_empty_file_becomes_a_ledger_on_purpose(path):
    path.touch()
    with pytest.raises(LedgerUnavailable, match=r"is empty.*create=True"):
        Ledger(path)
    assert path.stat().st_size == 0
    with Ledger(path, create=True) as ledger:
        assert ledger.accounts() == []


def test_a_file_that_is_not_there_is_not_made_by_chance(path):
    words = r"there is no ledger.*put it back.*create=True.*pellucid ledger create"
    with pytest.raises(LedgerUnavailable, match=words) as refused:
        Ledger(path)
    assert unchained(refused) and not path.exists()
    with Ledger(path, create=True) as ledger:
        ledger.open_account("a", budget=1, **TERMS)
    for again in (Ledger(path), Ledger(path, create=True)):
        with again:
            assert [account.name for account in again.accounts()] == ["a"]


@pytest.mark.parametrize("place", ["missing/study.db", "file/study.db", "folder"])
def test_a_place_that_cannot_hold_a_file(tmp_path, place):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(LedgerUnavailable) as refused:
        Ledger(tmp_path / place, create=True)
    assert unchained(refused)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_read_only_directory_or_file(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    filled(folder / "study.db")
    folder.chmod(0o500)
    try:
        with pytest.raises(LedgerUnavailable):
            Ledger(folder / "new.db", create=True)
        (folder / "study.db").chmod(0o400)
        with pytest.raises(LedgerUnavailable):
            Ledger(folder / "study.db").reserve("a", 1, key="", request="{}")
    finally:
        folder.chmod(0o700)


@pytest.mark.parametrize("setting", ["query_only=1", "max_page_count=1"])
def test_a_write_that_fails_loses_nothing(path, setting):
    filled(path)
    with Ledger(path) as ledger:
        ledger.account("a")
        ledger._store._connection.exec_driver_sql(f"PRAGMA {setting}")
        ledger._store._connection.rollback()
        with pytest.raises(LedgerUnavailable) as refused:
            ledger.reserve("a", 1, key="", request="x" * 100_000)
        assert unchained(refused)
        assert ledger.verify().ok and ledger.verify().entries == 9
        ledger.reserve("a", 1, key="", request="{}")
        assert ledger.verify().entries == 10


def test_a_locked_ledger(path):
    filled(path)
    with Ledger(path, busy_seconds=0.2) as ledger, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        start = time.monotonic()
        with pytest.raises(LedgerUnavailable, match=r"locked.*0\.2 s.*busy_seconds") as refused:
            ledger.reserve("a", 1, key="", request="{}")
        assert unchained(refused) and 0.15 < time.monotonic() - start < 5
        assert ledger.account("a").spent == 7, "whoever only reads does not wait for a writer at work"
        other.execute("ROLLBACK")
        ledger.reserve("a", 1, key="", request="{}")
        assert ledger.account("a").spent == 8


def test_a_ledger_that_cannot_even_be_read(path):
    filled(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerUnavailable, match="locked"):
            Ledger(path, busy_seconds=0.2)


def test_waiting_for_the_lock_works(path):
    filled(path)
    with Ledger(path) as ledger, closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
        release.start()
        ledger.reserve("a", 1, key="", request="{}")
        release.join()


def test_a_ledger_that_is_removed_while_open_is_noticed(path):
    filled(path)
    with Ledger(path) as ledger:
        away = path.with_name("away.db")
        path.rename(away)
        with pytest.raises(LedgerUnavailable, match="removed or replaced"):
            ledger.reserve("a", 1, key="", request="{}")
        ledger._store._disconnect()
        with pytest.raises(LedgerUnavailable, match="removed"):
            ledger.reserve("a", 1, key="", request="{}")
        assert not path.exists()
        with Ledger(path, create=True) as impostor:
            impostor.open_account("a", budget=10, **TERMS)
        with pytest.raises(LedgerUnavailable, match="another ledger"):
            ledger.reserve("a", 1, key="", request="{}")


def test_a_closed_ledger_says_so(ledger):
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.accounts()


def test_a_forgotten_ledger_warns_about_nothing(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for place in (path, None):
            Ledger(place, create=True).open_account("a", budget=1, **TERMS)
            gc.collect()


def test_a_path_with_odd_characters(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "säule #1?mode=ro&x=%41.db"
    with Ledger(name, create=True) as ledger:
        ledger.open_account("a", budget=1, **TERMS)
        monkeypatch.chdir("/")
        ledger.reserve("a", 1, key="", request="{}")
    assert (tmp_path / name).exists()


def grab(ledger, granted):
    try:
        while True:
            ledger.reserve("shared", 1, key="k", request="{}")
            granted.append(1)
    except BudgetExceeded:
        return


@pytest.mark.parametrize("kind", ["file", "memory", "one ledger a thread"])
def test_threads_share_one_budget(path, kind):
    ledger = Ledger(None if kind == "memory" else path, create=True)
    ledger.open_account("shared", budget=100, **TERMS)
    granted = []
    with ThreadPoolExecutor(8) as pool:
        for task in [pool.submit(lambda: grab(Ledger(path) if "one" in kind else ledger, granted)) for _ in range(8)]:
            task.result()
    assert len(granted) == 100
    assert ledger.account("shared").remaining == 0 and ledger.verify().ok


@needs_fork
def test_forked_processes_share_one_budget(path):
    ledger = Ledger(path, create=True)
    ledger.open_account("shared", budget=60, **TERMS)
    children = [in_child(lambda: grab(ledger, [])) for _ in range(4)]
    grab(ledger, [])
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert ledger.account("shared").remaining == 0 and ledger.verify().entries == 61 and ledger.verify().ok


@needs_fork
def test_a_forked_process_keeps_its_charges_when_its_parent_closes(path):
    ledger = Ledger(path, create=True)
    ledger.open_account("shared", budget=60, **TERMS)
    (wait, go), (done_in, done_out) = os.pipe(), os.pipe()

    def act():
        ledger.reserve("shared", 1, key="", request="{}")
        os.write(done_out, b"x")
        os.read(wait, 1)
        ledger.reserve("shared", 2, key="", request="{}")

    child = in_child(act)
    os.read(done_in, 1)
    ledger.close()
    os.write(go, b"x")
    assert os.waitpid(child, 0)[1] == 0
    with Ledger(path) as again:
        assert again.account("shared").spent == 3 and again.verify().ok


@needs_fork
def test_an_in_memory_ledger_does_not_fork():
    ledger = Ledger(None)
    ledger.open_account("shared", budget=60, **TERMS)

    def act():
        with pytest.raises(LedgerUnavailable, match="in-memory"):
            ledger.reserve("shared", 1, key="", request="{}")
        ledger.close()

    assert os.waitpid(in_child(act), 0)[1] == 0
    ledger.reserve("shared", 1, key="", request="{}")


def tell(out, text):
    """One write, so that whoever reads what a killed process said never sees half a line."""
    os.write(out, f"{text}\n".encode())


def race(ledger, out):
    granted = []
    grab(ledger, granted)
    tell(out, f"granted {len(granted)}")


def spend(ledger, out):
    while True:
        paid = ledger.reserve("shared", 1, key="again", request="{}")
        tell(out, f"paid {paid.seq} {paid.hash}")
        done = ledger.commit(paid, f'{{"for": {paid.seq}}}')
        tell(out, f"released {paid.seq} {done.hash}")


def start(count, work, path):
    """Processes that each open the file for themselves and begin at the same moment; what they say comes out of the pipe."""
    (gate_in, gate_out), (said, out) = os.pipe(), os.pipe()

    def act():
        os.close(gate_out)
        os.read(gate_in, 1)
        work(Ledger(path), out)

    children = [in_child(act) for _ in range(count)]
    for end in (gate_out, gate_in, out):
        os.close(end)
    return children, said


def listen(said):
    with os.fdopen(said) as lines:
        return [line.split() for line in lines]


@needs_fork
def test_eight_processes_racing_get_exactly_the_budget(path):
    with Ledger(path, create=True) as ledger:
        ledger.open_account("shared", budget=200, **TERMS)
    children, said = start(8, race, path)
    granted = [int(number) for _, number in listen(said)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    assert len(granted) == 8 and sum(granted) == 200
    with Ledger(path) as ledger:
        assert ledger.account("shared").remaining == 0
        assert ledger.verify().ok and ledger.verify().entries == 201


@needs_fork
def test_processes_that_create_one_ledger_together(path):
    children = [in_child(lambda: Ledger(path, create=True).open_account("shared", budget=60, **TERMS)) for _ in range(8)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    with Ledger(path) as ledger:
        assert len(ledger.history()) == 1 and ledger.verify().ok


@needs_fork
def test_killed_processes_leave_every_charge(path):
    with Ledger(path, create=True) as ledger:
        ledger.open_account("shared", budget=10**6, **TERMS)
    paid, released = {}, {}
    rounds = 0
    while rounds < 5 or (not released and rounds < 100):
        rounds += 1
        children, said = start(3, spend, path)
        for child in children:
            time.sleep(random.uniform(0.0, 0.12))
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)
        for what, seq, mark in listen(said):
            (paid if what == "paid" else released)[int(seq)] = mark
        with Ledger(path, busy_seconds=5) as ledger:
            check_survivor(ledger, paid, released)
    assert released


def check_survivor(ledger, paid, released):
    assert ledger.verify().ok
    charges = {e.seq: e for e in ledger.history() if e.kind == "reserve"}
    commits = {e.refers_to: e for e in ledger.history() if e.kind == "commit"}
    assert all(charges[seq].hash == mark for seq, mark in paid.items())
    assert all(commits[seq].hash == mark and seq in charges for seq, mark in released.items())
    assert len(charges) >= len(commits) >= len(released)
    assert ledger.account("shared").spent == len(charges)


def test_a_prepaid_question_is_on_record_and_costs_nothing(ledger):
    with pytest.raises(LedgerError, match="Reserve an amount"):
        ledger.prepaid("ward-7", key="stream", request="{}")
    pay(ledger, amount=3, key="stream", released="opened")
    before = ledger.account("ward-7")
    asked = ledger.prepaid("ward-7", key="stream", request='{"asked": [0.5]}')
    ledger.commit(asked, "answer")
    pay(ledger, amount=2, key="another")
    assert ledger.account("ward-7").spent == before.spent + 2 and ledger.verify().ok
    thread = ledger.thread("ward-7", "stream")
    assert [(entry.kind, entry.amount, text) for entry, text in thread] == [
        ("reserve", 3, None), ("commit", 0, "opened"), ("reserve", 0, None), ("commit", 0, "answer"),
    ]  # fmt: skip
    assert [entry.seq for entry, _ in ledger.thread("ward-7", "stream", after=thread[1][0].seq)] == [asked.seq, asked.seq + 1]
    with pytest.raises(LedgerError, match="Reserve an amount"):
        ledger.prepaid("ward-7", key="", request="{}")
