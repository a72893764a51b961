"""What every ledger store has to pass.

A test class inherits `StoreConformance`, or `DurableStoreConformance` if entries outlive the process, and gives the fixture
`make_store(name="one", busy_seconds=5.0)`. Its first call with a name makes an empty store of that name. If the store is
durable, every further call opens the same one again, for itself, in this process or in another. A store whose entries are files
that anyone can copy inherits `CopiedStoreConformance` too, and gives the fixture `copy_store(name, copy)`, which copies them to
a new name as any program would. Nothing else is asked of a store: the checks use the protocol only.
"""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from pellucid.errors import BudgetExceeded, LedgerCorrupt, LedgerError, LedgerUnavailable
from pellucid.ledger import Ledger
from pellucid.ledger.chain import next_entry, sha256
from pellucid.ledger.spool import Kept
from pellucid.ledger.values import Due

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
TERMS = {"currency": "epsilon", "delta": "0", "relation": "replace", "unit": "person"}
LARGEST = 2**63 - 1


def following(store, head, text=None, **values):
    """An entry that follows `head`."""
    usual = {"account": "a", "kind": "reserve", "amount": 1, "budget": 10, "spent": 0, "bounded": True}
    return next_entry(store.start, head, **{**usual, "released": "" if text is None else sha256(text), **values})


def put(store, turn, account="a", kind="reserve", text=None, **values):
    """Append the next entry of the chain in this turn."""
    entry = following(store, turn.ends(account)[0], text, account=account, kind=kind, **values)
    turn.append(entry, text)
    return entry


def add(store, *args, **values):
    """Append the next entry of the chain in a turn of its own."""
    with store.writing() as turn:
        return put(store, turn, *args, **values)


def entries(store):
    with store.reading() as turn:
        return list(turn.entries())


def is_chain(found):
    return [e.seq for e in found] == list(range(1, len(found) + 1)) and all(
        later.previous == earlier.hash for earlier, later in zip(found, found[1:])
    )


@contextmanager
def refused(kind=LedgerError, words=None):
    """An error in words: one of ours, with nothing of the backend behind it."""
    with pytest.raises(kind, match=words) as caught:
        yield caught
    error = caught.value
    assert isinstance(error, LedgerError) and str(error)
    assert error.__cause__ is None and (error.__suppress_context__ or error.__context__ is None)


def in_child(act):
    """The number of a process that ends well if `act` does."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return child


def ended_well(*children):
    return [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)


def check_whole_turns(writer, reader):
    half = threading.Event()

    def write():
        with writer.writing() as turn:
            put(writer, turn)
            half.set()
            time.sleep(0.1)
            put(writer, turn)

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        assert half.wait(5)
        assert len(entries(reader)) in (0, 2)
        written.result()
    assert len(entries(reader)) == 2


class StoreConformance:
    """For every store, in memory or not."""

    @pytest.fixture
    def make_store(self):
        raise NotImplementedError("a store's own test class makes its stores")

    def test_a_new_store_is_empty(self, make_store):
        store = make_store()
        with store.reading() as turn:
            assert turn.ends("a") == (None, None) and turn.first("a") is None and turn.names() == []
            assert list(turn.entries()) == list(turn.entries("a")) == list(turn.everything()) == turn.thread("a", "k") == []
            assert turn.newest_release("a", "k") is None and turn.charge(1) == (None, None)
            assert turn.has_paid("a", "k") is False and turn.contains("0" * 64) is False and turn.stray_text() is None
            assert turn.declarations("a") == []
        assert store.damage() is None and store.spool.items() == []

    def test_every_store_has_a_start_of_its_own(self, make_store):
        starts = {make_store(name).start for name in ("one", "two")}
        assert len(starts) == 2 and all(len(start) == 64 for start in starts)

    @pytest.mark.parametrize(
        "values",
        [
            {"amount": LARGEST, "budget": LARGEST, "spent": LARGEST, "bounded": True},
            {"amount": 0, "budget": 0, "spent": 0, "bounded": False},
            {"request": "é ü 漢 🜁 'quoted' \"double\" %s :name \\ \n\t", "by": " ", "purpose": "", "key": "k" * 500},
            {"request": "x" * 1_000_000},
            {"pure": LARGEST, "pure_budget": LARGEST, "pure_spent": 0},
            {"pure": None, "pure_budget": 5, "pure_spent": None},
        ],
    )
    def test_an_entry_comes_back_as_it_was(self, make_store, values):
        store = make_store()
        add(store)
        entry = add(store, kind="commit", text="é\r\n" * 1000, refers_to=1, **values)
        with store.reading() as turn:
            found = list(turn.everything())[1]
        assert found == (entry, "é\r\n" * 1000)
        assert {name: type(value) for name, value in vars(found[0]).items()} == {n: type(v) for n, v in vars(entry).items()}

    def test_a_turn_reads_what_it_appended(self, make_store):
        store = make_store()
        with store.writing() as turn:
            one = put(store, turn, kind="open")
            two = put(store, turn, kind="commit", refers_to=1, key="k", text="t")
            assert turn.ends("a") == (two, two) and turn.first("a") == one and turn.names() == ["a"]
            assert turn.charge(1) == (one, two) and turn.newest_release("a", "k") == (two, "t")

    def test_the_ends_are_the_newest_of_all_and_of_the_account(self, make_store):
        store = make_store()
        first, _, latest = add(store, "a"), add(store, "b"), add(store, "a")
        head = add(store, "b")
        with store.reading() as turn:
            assert turn.ends("a") == (head, latest) and turn.ends("b") == (head, head) and turn.ends("c") == (head, None)
            assert turn.first("a") == first and turn.first("c") is None
            assert list(turn.entries("a")) == [first, latest] and len(list(turn.entries())) == 4

    def test_names_are_those_of_opened_accounts_oldest_first(self, make_store):
        store = make_store()
        for account, kind in (("z", "open"), ("z", "reserve"), ("a", "open"), ("m", "reserve")):
            add(store, account, kind)
        with store.reading() as turn:
            assert turn.names() == ["z", "a"]

    def test_a_charge_and_the_commit_that_refers_to_it(self, make_store):
        store = make_store()
        first, second = add(store), add(store)
        done = add(store, kind="commit", refers_to=2, text="t")
        with store.reading() as turn:
            assert turn.charge(1) == (first, None) and turn.charge(2) == (second, done)
            assert turn.charge(3) == (done, None) and turn.charge(99) == (None, None)

    def test_the_newest_release_of_a_key(self, make_store):
        store = make_store()
        for key, text in (("k", "old"), ("k", "new"), ("other", "else")):
            paid = add(store, key=key)
            add(store, kind="commit", refers_to=paid.seq, key=key, text=text)
        add(store, key="k")
        with store.reading() as turn:
            entry, text = turn.newest_release("a", "k")
            assert (entry.seq, entry.kind, text) == (4, "commit", "new")
            assert turn.newest_release("b", "k") is None and turn.newest_release("a", "none") is None

    def test_a_thread_is_in_order_and_begins_after_a_number(self, make_store):
        store = make_store()
        for account, key in (("a", "k"), ("b", "k"), ("a", "other"), ("a", "k"), ("a", "k")):
            add(store, account, key=key)
        add(store, kind="commit", refers_to=4, key="k", text="t")
        with store.reading() as turn:
            assert [(entry.seq, text) for entry, text in turn.thread("a", "k")] == [(1, None), (4, None), (5, None), (6, "t")]
            assert [entry.seq for entry, _ in turn.thread("a", "k", after=4)] == [5, 6]
            assert turn.thread("a", "k", after=6) == []

    def test_only_a_charge_above_nothing_has_paid(self, make_store):
        store = make_store()
        add(store, amount=0, key="k")
        add(store, kind="open", amount=5, key="k")
        add(store, "b", amount=1, key="k")
        with store.reading() as turn:
            assert turn.has_paid("a", "k") is False and turn.has_paid("b", "k") is True
        add(store, amount=1, key="k")
        with store.reading() as turn:
            assert turn.has_paid("a", "k") is True and turn.has_paid("a", "other") is False

    def test_declarations_are_those_of_the_account_oldest_first(self, make_store):
        store = make_store()
        for account, kind in (("a", "open"), ("a", "table"), ("b", "table"), ("a", "reserve"), ("a", "changed"), ("a", "table")):
            add(store, account, kind)
        with store.reading() as turn:
            assert [(entry.seq, entry.kind) for entry in turn.declarations("a")] == [(2, "table"), (5, "changed"), (6, "table")]
            assert [entry.seq for entry in turn.declarations("b")] == [3] and turn.declarations("c") == []

    def test_texts_wait_in_the_order_of_their_charges_until_they_are_removed(self, make_store):
        store = make_store()
        late, early = Kept(7, "7" * 64, "é\n\ud800" * 100), Kept(2, "2" * 64, "")
        for kept in (late, early, early):
            store.spool.put(kept)
        assert store.spool.items() == [early, late]
        store.spool.remove(early)
        store.spool.remove(early)
        assert store.spool.items() == [late]
        store.spool.remove(late)
        assert store.spool.items() == []

    def test_a_text_can_wait_while_the_store_is_taken(self, make_store):
        store = make_store()
        with store.writing():
            store.spool.put(Kept(1, "1" * 64, "t"))
            assert store.spool.items() == [Kept(1, "1" * 64, "t")]

    def test_what_waits_is_committed_at_the_next_use(self, make_store):
        store = make_store()
        ledger = Ledger(store)
        ledger.open_account("a", budget=10, **TERMS)
        paid = ledger.reserve("a", 1, key="k", request="{}")
        store.spool.put(Kept(paid.seq, paid.hash, "late"))
        store.spool.put(Kept(paid.seq, "0" * 64, "of another ledger"))
        assert ledger.replay("a", "k") == "late" and ledger.waiting() == 1 and len(ledger.history()) == 2
        ledger.reserve("a", 1, key="", request="{}")
        assert [entry.kind for entry in ledger.history()] == ["open", "reserve", "commit", "reserve"]
        assert ledger.waiting() == 0 and ledger.replay("a", "k") == "late" and ledger.verify().ok
        assert store.spool.items() == [Kept(paid.seq, "0" * 64, "of another ledger")]
        store.spool.put(Kept(paid.seq, paid.hash, "late"))
        ledger.reserve("a", 1, key="", request="{}")
        assert ledger.waiting() == 0 and len(ledger.history()) == 5, "what was committed since is only forgotten"

    def test_hashes_are_found(self, make_store):
        store = make_store()
        one, two = add(store), add(store)
        with store.reading() as turn:
            assert turn.contains(one.hash) and turn.contains(two.hash) and not turn.contains(one.previous)

    @pytest.mark.parametrize("other", ["WARD", "ward ", " ward", "w\u0430rd", "w\u00e4rd", "wa\u0308rd", "ward%", "w_rd"])
    def test_names_and_keys_are_equal_when_their_characters_are(self, make_store, other):
        store = make_store()
        entry = add(store, "ward", key="ward")
        with store.reading() as turn:
            assert turn.ends(other) == (entry, None) and turn.first(other) is None and turn.thread("ward", other) == []

    def test_a_failed_turn_leaves_nothing(self, make_store):
        store = make_store()
        add(store)
        for failure in (ValueError, KeyboardInterrupt):
            with pytest.raises(failure), store.writing() as turn:
                put(store, turn)
                put(store, turn, kind="commit", refers_to=1, text="t")
                raise failure
        with store.reading() as turn:
            assert len(list(turn.entries())) == 1 and turn.charge(1)[1] is None and turn.stray_text() is None
        assert add(store, kind="commit", refers_to=1, text="t").seq == 2

    def test_a_store_only_grows_by_the_next_entry(self, make_store):
        store = make_store()
        add(store)
        add(store, kind="commit", refers_to=1, text="t")
        before = entries(store)
        with store.reading() as turn:
            assert not hasattr(turn, "append")
        taken, skipping = (None, before[0]), following(store, before[1])
        for head in (*taken, skipping):
            with refused() as caught, store.writing() as turn:
                turn.append(following(store, head, request="nobody's business"))
            assert "business" not in str(caught.value)
        with refused(), store.writing() as turn:
            put(store, turn, kind="commit", refers_to=1, text="again")
        assert entries(store) == before and add(store).seq == 3

    def test_threads_take_turns(self, make_store):
        store = make_store()

        def work(_):
            for _ in range(5):
                with store.writing() as turn:
                    head, _ = turn.ends("a")
                    time.sleep(0.002)
                    turn.append(following(store, head))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert len(entries(store)) == 20 and is_chain(entries(store))

    def test_a_reader_sees_whole_turns(self, make_store):
        store = make_store()
        check_whole_turns(store, store)

    def test_a_turn_inside_a_turn_is_refused(self, make_store):
        store = make_store()
        for outer in (store.reading, store.writing):
            for inner in (store.reading, store.writing):
                with outer(), refused(LedgerUnavailable), inner():
                    raise AssertionError("a second turn began inside the first")
        assert add(store).seq == 1

    def test_a_closed_store_says_so(self, make_store):
        store = make_store()
        store.close()
        store.close()
        for turn in (store.reading, store.writing):
            with refused(words="closed"), turn():
                raise AssertionError("a turn began on a closed store")

    @needs_fork
    def test_a_forked_process_shares_the_store_or_is_refused(self, make_store):
        store = make_store()
        add(store)

        def act():
            try:
                add(store)
            except LedgerUnavailable:
                os._exit(3)

        _, status = os.waitpid(in_child(act), 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, 3)
        assert len(entries(store)) == (2 if code == 0 else 1)
        add(store)
        assert is_chain(entries(store))

    def test_a_ledger_runs_on_it(self, make_store):
        store = make_store()
        ledger = Ledger(store)
        assert (ledger.path, ledger.durable) == (store.place, store.durable)
        ledger.open_account("ward-7", budget=10, **TERMS)
        paid = ledger.reserve("ward-7", 4, key="k", request="{}", by="Ada", purpose="report")
        ledger.commit(paid, "answer")
        ledger.commit(ledger.prepaid("ward-7", key="k", request="{}"), "again")
        ledger.raise_budget("ward-7", 12, by="Bo", purpose="second year")
        ledger.not_private("ward-7", "seeded noise")
        with pytest.raises(BudgetExceeded):
            ledger.reserve("ward-7", 9, key="", request="{}")
        account = ledger.account("ward-7")
        assert (account.budget, account.spent, account.bounded) == (12, 4, False)
        assert ledger.replay("ward-7", "k") == "again" and ledger.contains(paid.hash)
        assert ledger.account(" WARD-7 ") == account, "names are compared as a reader would"
        assert [entry.kind for entry, _ in ledger.thread("ward-7", "k")] == ["reserve", "commit", "reserve", "commit"]
        assert ledger.verify().ok and ledger.verify().entries == 7
        ledger.close()
        with refused(words="closed"):
            ledger.accounts()

    def test_charges_are_made_together_or_not_at_all(self, make_store):
        ledger = Ledger(make_store())
        ledger.open_account("a", budget=10, **TERMS)
        with pytest.raises(BudgetExceeded, match="for 2 releases"):
            ledger.reserve_all("a", [Due(6, "k", "{}"), Due(5, "l", "{}")])
        with pytest.raises(LedgerError, match="above 0"):
            ledger.reserve_all("a", [Due(6, "k", "{}"), Due(0, "l", "{}")])
        with pytest.raises(LedgerError, match="cannot be stored"):
            ledger.reserve_all("a", [Due(6, "k", "{}"), Due(1, "\0", "{}")])
        assert ledger.account("a").spent == 0 and len(ledger.history()) == 1
        first, second = ledger.reserve_all("a", [Due(6, "k", "{}"), Due(4, "l", "{}")], by="Ada", purpose="report")
        assert (first.spent, second.spent, second.seq - first.seq) == (6, 10, 1)
        ledger.commit(second, "two")
        ledger.commit(first, "one")
        assert ledger.replay("a", "k") == "one" and ledger.replay("a", "l") == "two" and ledger.verify().ok

    def test_threads_share_one_budget(self, make_store):
        ledger = Ledger(make_store())
        ledger.open_account("shared", budget=40, **TERMS)

        def grab(_):
            granted = 0
            try:
                while True:
                    ledger.reserve("shared", 1, key="k", request="{}")
                    granted += 1
            except BudgetExceeded:
                return granted

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(grab, range(4))) == 40
        assert ledger.account("shared").remaining == 0 and ledger.verify().ok


class DurableStoreConformance(StoreConformance):
    """And for those whose entries outlive the process."""

    def test_a_durable_store_has_a_place(self, make_store):
        store = make_store()
        assert store.durable and store.place

    def test_what_was_written_is_there_when_it_is_opened_again(self, make_store):
        store = make_store()
        add(store)
        add(store, kind="commit", refers_to=1, key="k", text="t")
        with store.reading() as turn:
            before = list(turn.everything())
        store.close()
        again = make_store()
        with again.reading() as turn:
            assert list(turn.everything()) == before
        assert again.start == store.start and add(again).seq == 3

    def test_another_opening_sees_a_turn_as_soon_as_it_has_ended(self, make_store):
        one, two = make_store(), make_store()
        for _ in range(3):
            add(one)
            assert entries(two) == entries(one)
            add(two)
            assert entries(one) == entries(two)
        assert is_chain(entries(one)) and len(entries(one)) == 6

    def test_another_opening_sees_whole_turns(self, make_store):
        check_whole_turns(make_store(), make_store())

    def test_a_reading_turn_sees_one_moment(self, make_store):
        one, two = make_store(), make_store()
        add(one)
        with ThreadPoolExecutor(1) as pool:
            with one.reading() as turn:
                before = list(turn.entries())
                added = pool.submit(add, two)
                time.sleep(0.1)
                assert list(turn.entries()) == before
            added.result()
        assert len(entries(one)) == 2

    def test_a_locked_store_says_so_and_goes_on(self, make_store):
        holder, waiting = make_store(), make_store(busy_seconds=0.2)
        with holder.writing() as turn:
            put(holder, turn)
            begun = time.monotonic()
            with refused(LedgerUnavailable, "locked"):
                add(waiting)
            assert 0.15 < time.monotonic() - begun < 5
        assert add(waiting).seq == 2 and is_chain(entries(holder))

    def test_waiting_for_a_turn_works(self, make_store):
        holder, waiting = make_store(), make_store()
        with ThreadPoolExecutor(1) as pool:
            with holder.writing() as turn:
                put(holder, turn)
                second = pool.submit(add, waiting)
                time.sleep(0.2)
                assert not second.done()
            assert second.result().seq == 2

    @needs_fork
    def test_a_turn_that_has_ended_survives_a_kill(self, make_store):
        make_store().close()

        def act():
            store = make_store()
            for _ in range(3):
                add(store, kind="open")
            os.kill(os.getpid(), signal.SIGKILL)

        os.waitpid(in_child(act), 0)
        store = make_store()
        assert len(entries(store)) == 3 and is_chain(entries(store)) and store.damage() is None

    @needs_fork
    def test_a_turn_that_is_killed_leaves_nothing_and_no_lock(self, make_store):
        make_store().close()

        def act():
            store = make_store()
            add(store)
            with store.writing() as turn:
                put(store, turn, kind="commit", refers_to=1, text="t")
                os.kill(os.getpid(), signal.SIGKILL)

        os.waitpid(in_child(act), 0)
        store = make_store()
        with store.reading() as turn:
            assert len(list(turn.entries())) == 1 and turn.charge(1)[1] is None and turn.stray_text() is None
        assert add(store).seq == 2

    @needs_fork
    def test_processes_take_turns(self, make_store):
        make_store().close()

        def work():
            store = make_store(busy_seconds=30.0)
            for _ in range(10):
                with store.writing() as turn:
                    head, _ = turn.ends("a")
                    time.sleep(0.001)
                    turn.append(following(store, head))

        assert ended_well(*[in_child(work) for _ in range(4)])
        store = make_store()
        assert len(entries(store)) == 40 and is_chain(entries(store))

    @needs_fork
    def test_processes_are_charged_whole_lists(self, make_store):
        """Several charges in one turn: all of them or none, and nobody else's between them."""
        make_store().close()
        Ledger(make_store()).open_account("shared", budget=100, **TERMS)

        def work():
            ledger = Ledger(make_store(busy_seconds=30.0))
            dues = [Due(units, f"{os.getpid()}", "{}") for units in (1, 2, 4)]
            with pytest.raises(BudgetExceeded, match="for 3 releases"):
                while True:
                    paid = ledger.reserve_all("shared", dues)
                    assert [one.seq for one in paid] == list(range(paid[0].seq, paid[0].seq + 3))
                    assert [one.spent - paid[0].spent for one in paid] == [0, 2, 6]

        assert ended_well(*[in_child(work) for _ in range(3)])
        ledger = Ledger(make_store())
        charges = [entry for entry in ledger.history("shared") if entry.kind == "reserve"]
        assert [entry.amount for entry in charges] == [1, 2, 4] * 14 and ledger.account("shared").spent == 98
        assert all(len({entry.key for entry in charges[i : i + 3]}) == 1 for i in range(0, 42, 3)) and ledger.verify().ok

    @needs_fork
    def test_processes_that_make_one_store_together(self, make_store):
        assert ended_well(*[in_child(lambda: add(make_store(busy_seconds=30.0))) for _ in range(6)])
        store = make_store()
        assert len(entries(store)) == 6 and entries(store)[0].previous == store.start and is_chain(entries(store))

    @needs_fork
    def test_an_open_store_goes_through_a_fork(self, make_store):
        store = make_store(busy_seconds=30.0)
        add(store)

        def work():
            for _ in range(5):
                add(store)

        children = [in_child(work) for _ in range(3)]
        work()
        assert ended_well(*children)
        assert len(entries(store)) == 21 and is_chain(entries(store))

    @needs_fork
    def test_a_child_keeps_its_entries_when_its_parent_closes(self, make_store):
        store = make_store()
        (wait, go), (done_in, done_out) = os.pipe(), os.pipe()

        def work():
            add(store)
            os.write(done_out, b"x")
            os.read(wait, 1)
            add(store)

        child = in_child(work)
        os.read(done_in, 1)
        store.close()
        os.write(go, b"x")
        assert ended_well(child)
        for end in (wait, go, done_in, done_out):
            os.close(end)
        assert len(entries(make_store())) == 2

    @needs_fork
    def test_what_waits_survives_a_kill_and_is_seen_by_another_opening(self, make_store):
        make_store().close()

        def act():
            make_store().spool.put(Kept(3, "3" * 64, "t"))
            os.kill(os.getpid(), signal.SIGKILL)

        os.waitpid(in_child(act), 0)
        one, two = make_store(), make_store()
        assert one.spool.items() == two.spool.items() == [Kept(3, "3" * 64, "t")]
        one.spool.remove(Kept(3, "3" * 64, "t"))
        assert two.spool.items() == []


class CopiedStoreConformance:
    """And for those whose entries are in files that anyone can copy."""

    @pytest.fixture
    def copy_store(self):
        raise NotImplementedError("a store's own test class copies its files")

    def test_a_copy_of_an_open_store_has_every_entry(self, make_store, copy_store):
        store = make_store()
        for i in range(5):
            add(store, kind="open" if i == 0 else "reserve")
            copy_store("one", f"copy {i}")
            copy = make_store(f"copy {i}")
            assert entries(copy) == entries(store) and copy.start == store.start and copy.damage() is None

    @needs_fork
    def test_a_copy_made_at_any_moment_is_whole_or_says_that_it_is_not(self, make_store, copy_store):
        make_store().close()

        def write():
            store = make_store(busy_seconds=30.0)
            while True:
                paid = add(store, key="x" * 700)
                add(store, kind="commit", refers_to=paid.seq, text="t" * 3000)

        writers = [in_child(write) for _ in range(2)]
        store, found = make_store(busy_seconds=30.0), []
        for i in range(10):
            before = len(entries(store))
            assert ended_well(in_child(lambda i=i: copy_store("one", f"copy {i}")))
            found.append(check_copy(lambda i=i: make_store(f"copy {i}", 1.0), before))
        for writer in writers:
            os.kill(writer, signal.SIGKILL)
            os.waitpid(writer, 0)
        assert is_chain(entries(make_store())) and any(found)


def check_copy(opened, before):
    """Whether a copy has all entries there were `before`; if it has not, it must say that it is incomplete."""
    try:
        store = opened()
        found, damage = entries(store), store.damage()
        store.close()
    except LedgerCorrupt as error:
        assert "incomplete" in str(error)
        return False
    if damage:
        assert "incomplete" in damage
        return False
    assert len(found) >= before and is_chain(found)
    return True
