"""Charges for parts of a table: the largest sum of one record, exactly, durably, also among processes and after kills."""

import itertools
import json
import os
import random
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_ledger import TERMS, in_child, needs_fork, rehash, tamper

from pellucid import BudgetExceeded
from pellucid.errors import LedgerError
from pellucid.ledger import Ledger
from pellucid.ledger.scopes import Search, Tally, region_of
from pellucid.ledger.values import Due

EITHER = {"currency": "either", "delta": "1e-6", "relation": "replace", "unit": "one row", "pure": 10**12, "order": 12}


def scope(**where):
    return json.dumps({"said": "some", "where": where}, sort_keys=True)


def only(*values):
    return {"in": list(values)}


def between(lo, hi):
    return {"from": lo, "to": hi}


A, B, C = (scope(ward=only(w)) for w in "abc")
AB = scope(ward=only("a", "b"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


def charge(ledger, units, part=None, key="k"):
    return ledger.reserve_all("t", [Due(units, key, "{}", None, part)])[0]


WARDS = st.frozensets(st.sampled_from("abc"), min_size=1).map(lambda some: only(*sorted(some)))
ENDS = st.one_of(st.none(), st.integers(0, 4))
AGES = st.tuples(ENDS, ENDS).filter(lambda e: None in e or e[0] < e[1]).map(lambda e: between(*e))
SEXES = st.sampled_from([only("f"), only("m")])
REGIONS = st.fixed_dictionaries({}, optional={"ward": WARDS, "age": AGES, "sex": SEXES}).filter(bool)


def holds(region, record):
    return all(
        record[name] in said["in"]
        if "in" in said
        else (said["from"] is None or record[name] >= said["from"]) and (said["to"] is None or record[name] < said["to"])
        for name, said in region.items()
    )


@given(st.lists(st.tuples(REGIONS, st.integers(1, 9)), max_size=7), REGIONS)
def test_the_largest_sum_is_that_of_all_records_tried_out(charges, among):
    records = [dict(zip(("ward", "age", "sex"), one)) for one in itertools.product("abcd", range(-1, 6), "fm")]
    paid = {i: sum(units for region, units in charges if holds(region, record)) for i, record in enumerate(records)}
    assert Search().heaviest((region_of(scope(**region)), units) for region, units in charges) == max(paid.values())
    tally = Tally(5, 7)
    for region, units in charges:
        tally = tally.charged(scope(**region), units, 2 * units)
    assert tally.spent() == (5 + max(paid.values()), 7 + 2 * max(paid.values()))
    inside = max(paid[i] for i, record in enumerate(records) if holds(among, record))
    assert tally.spent_in(scope(**among)) == (5 + inside, 7 + 2 * inside)


def test_disjoint_parts_cost_the_largest_overlapping_ones_the_sum(path):
    with Ledger(path, create=True) as ledger:
        ledger.open_account("t", budget=100, **TERMS)
        for part in (A, B, C):
            charge(ledger, 60, part)
        assert ledger.account("t").spent == 60 and ledger.account("t", AB).remaining == 40
        charge(ledger, 30)
        assert ledger.account("t").spent == 90
        charge(ledger, 10, AB)
        assert ledger.account("t").spent == 100 and ledger.account("t", C).remaining == 10
        for units, part in ((1, A), (1, None), (11, C), (1, scope(ward=only("b"), age=between(None, 3)))):
            with pytest.raises(BudgetExceeded):
                charge(ledger, units, part)
        charge(ledger, 10, C)
        assert ledger.account("t").spent == 100 and len(ledger.history()) == 7
        assert ledger.verify().ok
    with Ledger(path) as again:
        assert [here.remaining for _, here in again.parts("t")] == [0, 0, 0, 0]


def test_both_sides_of_an_account_are_counted_by_part(path):
    with Ledger(path, create=True) as ledger:
        ledger.open_account("t", budget=10**12, **EITHER)
        for part in (A, B):
            ledger.reserve_all("t", [Due(8 * 10**11, "k", "{}", "epsilon", part)])
        stands = ledger.account("t")
        assert stands.pure_spent == 8 * 10**11 and stands.parted
        ledger.reserve_all("t", [Due(10**10, "k", "{}", "rho", C)])
        # A release that is not pure ends the pure side for everybody: a replaced record may be in both.
        assert ledger.account("t").pure_spent is None and ledger.account("t", A).pure_spent is None
        assert ledger.account("t", C).spent == 10**10 < ledger.account("t").spent
        assert ledger.verify().ok


def test_after_the_table_changed_everybody_has_spent_what_was_spent(path):
    from pellucid.ledger.declared import Declared

    with Ledger(path, create=True) as ledger:
        table = Declared(None, {"ward": "x"})
        ledger.open_account("t", budget=100, table=table, **TERMS)
        charge(ledger, 40, A)
        ledger.open_account("t", budget=100, table=Declared(None, {"ward": "y"}), changed="second wave", **TERMS)
        assert ledger.account("t", B).spent == 40 and ledger.parts("t") == []
        charge(ledger, 50, B)
        assert ledger.account("t").spent == 90 and ledger.verify().ok


@pytest.mark.parametrize("part", ["", "{}", scope(), scope(ward=only()), scope(age=between(3, 3)), scope(age=between("x", 2))])
def test_what_is_no_part_is_refused_before_it_is_charged(path, part):
    with Ledger(path, create=True) as ledger:
        ledger.open_account("t", budget=100, **TERMS)
        with pytest.raises(LedgerError):
            charge(ledger, 1, part)
        assert ledger.account("t").spent == 0 and len(ledger.history()) == 1


@pytest.mark.parametrize("forged", [B, None])
def test_a_charge_that_is_moved_to_another_part_is_found(path, forged):
    with Ledger(path, create=True) as ledger:
        ledger.open_account("t", budget=100, **TERMS)
        charge(ledger, 60, A), charge(ledger, 30, A), charge(ledger, 10, C)
    tamper(path, f"UPDATE entries SET scope = {'NULL' if forged is None else repr(forged)} WHERE seq = 3")
    with Ledger(path) as ledger:
        assert not ledger.verify().ok
        if forged is not None:
            with pytest.raises(LedgerError, match="altered"):
                charge(ledger, 1, B)
    rehash(path)
    with Ledger(path) as ledger:
        # Said to be for everybody it adds up as before; said to be for others it does not.
        assert ledger.verify().ok == (forged is None) or ledger.verify().first_bad in (3, 4)


def race(path, parts, seed):
    rng, ledger = random.Random(seed), Ledger(path)
    while True:
        part = rng.choice(parts)
        try:
            charge(ledger, 1, part)
        except BudgetExceeded:
            if all(ledger.account("t", one).remaining == 0 for one in parts):
                return


@needs_fork
def test_two_processes_on_disjoint_parts_get_the_budget_each_and_no_more(path):
    with Ledger(path, create=True) as ledger:
        ledger.open_account("t", budget=15, **TERMS)
    children = [in_child(lambda seed=seed: race(path, (A, B, C), seed)) for seed in range(2)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    with Ledger(path) as ledger:
        assert ledger.account("t").spent == 15 and len(ledger.history()) == 1 + 3 * 15
        assert ledger.verify().ok


@needs_fork
def test_processes_that_are_killed_leave_every_charge_where_it_was(path):
    with Ledger(path, create=True) as ledger:
        ledger.open_account("t", budget=10**6, **TERMS)
    read, write = os.pipe()

    def act():
        ledger = Ledger(path)
        for number in itertools.count():
            part = (A, B, AB, None)[number % 4]
            paid = charge(ledger, 1 + number, part)
            os.write(write, f"{paid.seq} {1 + number} {number % 4}\n".encode())

    children = [in_child(act) for _ in range(2)]
    os.close(write)
    with os.fdopen(read) as lines:
        told = [next(lines) for _ in range(24)]
        for child in children:
            os.kill(child, signal.SIGKILL)
        told += [line for line in lines if line.endswith("\n")]
    for child in children:
        os.waitpid(child, 0)
    with Ledger(path) as ledger:
        assert ledger.verify().ok
        entries = {entry.seq: entry for entry in ledger.history()}
        for seq, amount, part in (map(int, line.split()) for line in told):
            assert (entries[seq].amount, entries[seq].scope) == (amount, (A, B, AB, None)[part])
        sums = [sum(e.amount for e in entries.values() if e.kind == "reserve" and e.scope in some)
                for some in ((A, AB, None), (B, AB, None))]  # fmt: skip
        assert ledger.account("t").spent == max(sums)


def test_a_thousand_disjoint_parts_are_charged_and_ways_of_overlapping_have_an_end(path):
    parts = [(region_of(scope(code=only(str(i)))), 1) for i in range(1000)]
    assert Search(5000).heaviest(parts) == 1
    wide = [(region_of(scope(**{f"c{i}": between(j, j + 2) for i in range(9)})), 1 + j % 3) for j in range(60)]
    mixed = [
        (region_of(scope(**{f"c{k}": between((j * 7 + k) % 11, (j * 7 + k) % 11 + 6) for k in range(9)})), 1) for j in range(60)
    ]
    with pytest.raises(LedgerError, match="overlap in too many ways"):
        Search(2000).heaviest([*wide, *mixed])
