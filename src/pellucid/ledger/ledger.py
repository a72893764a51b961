"""The ledger itself: what may be charged, and what is put on record. Where entries are kept is up to its store."""

from __future__ import annotations

import difflib
import functools
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ..errors import AccountMismatch, BudgetExceeded, LedgerCorrupt, LedgerError, LedgerUnavailable
from .chain import Recount, entry_hash, next_entry, sha256
from .declared import Declared
from .names import checked_name, find
from .scopes import MOST, Tally
from .spool import Kept
from .store import LedgerStore, ReadingTurn, WritingTurn
from .values import (
    Account,
    Due,
    Entry,
    Reservation,
    VerifyResult,
    checked_terms,
    checked_text,
    checked_units,
    from_units,
    show,
    within,
)

HASH = re.compile("[0-9a-f]{16,64}")
"""The hash of an entry, or as much of it as tells it from all others."""


class Ledger:
    """Accounts and their chained entries in one SQLite file, in memory when `path` is None, or in a store of another kind.

    `durable` tells whether charges outlive the process: an in-memory ledger forgets what was spent when the process ends, and
    belongs to that process alone. A file may be opened by any number of processes and threads, and a `Ledger` may be carried
    through a fork. `busy_seconds` is how long to wait for the others. A file that does not exist, or is empty, is refused: it
    may have been lost. `create=True` makes it a new ledger. A `LedgerStore` is used as it was opened, and is closed with the
    ledger.

    Names of accounts are compared without case, and without spaces around them.
    """

    def __init__(self, path: str | os.PathLike[str] | LedgerStore | None, busy_seconds: float = 30.0, *, create: bool = False):
        if not isinstance(path, LedgerStore):
            # Imported here because SQLAlchemy is slow to load, and much of Pellucid (saved explanations, plots) needs no ledger.
            from .sqlite import SqliteStore

            path = SqliteStore(path, busy_seconds, create=create)
        self._store: LedgerStore = path
        self._charged = 0
        self.path, self.durable = path.place, path.durable
        self._catch_up()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. An in-memory ledger is forgotten."""
        self._store.close()

    def open_account(
        self,
        name: str,
        *,
        currency: str,
        budget: int,
        delta: str,
        relation: str,
        unit: str,
        pure: int | None = None,
        order: Fraction | None = None,
        create: bool = True,
        table: Declared | None = None,
        changed: str = "",
    ) -> Account:
        """Create the account, or reopen it on the terms it was created with; with `create=False`, only reopen it.

        Reopening with the budget the account was created with, or with the one it was raised to since, gives the account at
        its current budget; any other difference is an AccountMismatch. So is another `table` than the account was opened for,
        unless `changed` says why: then it is put on record, and no earlier release is replayed.

        With currency "either" `budget` is that of the ρ side at the Rényi order `order`, and `pure` that of the pure side.
        """
        asked = checked_terms(currency, budget, delta, relation, unit, pure, order)
        checked_text("changed", changed)
        with self._store.reading() as turn:
            known = self._named(turn, name)
            if known is None and not create:
                raise self._unknown(turn, name)
        stored = self._create(name, asked, table) if known is None else known
        with self._store.reading() as turn:
            account, first = self._standing(turn, stored)
        _check_terms(account, first, asked)
        if table is None:
            return account
        return replace(account, changed=self._declare(stored, table, changed if known is not None else ""))

    def _create(self, name: str, terms: dict[str, Any], table: Declared | None) -> str:
        request = terms if table is None else {**terms, "table": table.to_dict()}
        with self._writing() as turn:
            # Another process may have opened the account since.
            known = self._named(turn, name)
            if known is not None:
                return known
            name = checked_name(name)
            head, _ = self._ends(turn, name)
            self._append(
                turn, head, account=name, kind="open", amount=terms["budget"], request=json.dumps(request, sort_keys=True),
                budget=terms["budget"], spent=0, bounded=True,
                pure=terms.get("pure"), pure_budget=terms.get("pure"), pure_spent=0 if "pure" in terms else None,
            )  # fmt: skip
            return name

    def _declare(self, name: str, table: Declared, changed: str) -> int:
        """Compare the table with the one on record, record what is new about it, and tell since when it is this one."""
        with self._store.reading() as turn:
            if self._news(turn, name, table, changed) is None:
                return self._changed(turn, name)
        with self._writing() as turn:
            news = self._news(turn, name, table, changed)
            if news is not None:
                head, latest = self._open_ends(turn, name)
                kind, recorded = news
                request, purpose = json.dumps({"table": recorded.to_dict()}), changed if kind == "changed" else ""
                self._append(
                    turn, head, account=name, kind=kind, purpose=purpose, request=request,
                    **latest.standing,
                )  # fmt: skip
            return self._changed(turn, name)

    def _news(self, turn: ReadingTurn, name: str, table: Declared, changed: str) -> tuple[str, Declared] | None:
        """The entry that is to be written about this table: its kind and what it holds; None if all of it is known."""
        said = turn.declarations(name)
        newest = said[-1] if said else turn.first(name)
        assert newest is not None
        self._check(newest)
        content = json.loads(newest.request).get("table")
        recorded = table if content is None else Declared.from_dict(content)
        differences = recorded.differences(table)
        reasons = [entry.purpose for entry in said if entry.kind == "changed"]
        # A program that is run again with the same reason means the same change.
        if changed and (differences or reasons[-1:] != [changed]):
            return "changed", table
        if content is None:
            return "table", table
        if differences:
            raise AccountMismatch(
                f"account {name!r} was opened for another table: {'; '.join(differences)}. If these are other people, give them "
                "an account of their own (name=). If it is the same table and it changed, say why with changed=, for example "
                "Session(..., changed='second wave'): it goes on record, what was spent stays spent, and earlier releases are "
                "not replayed."
            )
        joined = recorded.joined(table)
        return None if joined == recorded else ("table", joined)

    def _changed(self, turn: ReadingTurn, account: str) -> int:
        return max((entry.seq for entry in turn.declarations(account) if entry.kind == "changed"), default=0)

    def currency(self, name: str) -> str | None:
        """What an account of this name counts; None if there is none."""
        with self._store.reading() as turn:
            known = self._named(turn, name)
            return None if known is None else self._standing(turn, known)[0].currency

    def has_pure_charges(self, name: str) -> bool:
        """Whether a pure release was charged to an account that counts either way: without one, all of its ρ is zCDP's."""
        with self._store.reading() as turn:
            known = self._named(turn, name)
            charges = (entry for entry in turn.entries(known) if entry.kind == "reserve" and entry.amount) if known else ()
            return any(entry.pure is not None for entry in charges)

    def account(self, name: str, scope: str | None = None) -> Account:
        """The account as it stands now; with a scope, as it stands for the records of that part of the table."""
        with self._store.reading() as turn:
            account = self._standing(turn, name)[0]
            return account if scope is None else account.seen_from(*self._tally(turn, account).spent_in(scope))

    def parts(self, name: str) -> list[tuple[str, Account]]:
        """The parts of the table that were charged since it last changed, each with the account as it stands for its records."""
        with self._store.reading() as turn:
            account = self._standing(turn, name)[0]
            tally = self._tally(turn, account)
            return [(scope, account.seen_from(*tally.spent_in(scope))) for scope, *_ in tally.parts]

    def _tally(self, turn: ReadingTurn, account: Account) -> Tally:
        """What was charged for the whole table and for its parts; checked, as charges rest on it."""
        charges = turn.of_parts(account.name, account.changed)
        for entry in charges:
            self._check(entry)
        return Tally.of(account.spent, account.pure_spent, charges)

    def accounts(self) -> list[Account]:
        """Every account, oldest first."""
        with self._store.reading() as turn:
            return [self._standing(turn, name)[0] for name in turn.names()]

    def replay(self, account: str, key: str) -> str | None:
        """The released text of the newest request with this key, or None. Free: it was released before.

        An empty key is never replayed, nor is what was released of another table.
        """
        if not key:
            return None
        with self._store.reading() as turn:
            name = self._named(turn, account) or account
            changed = self._changed(turn, name)
            for kept, charge in reversed(self._waiting(turn)):
                if charge.account == name and charge.key == key and charge.seq > changed:
                    return kept.text
            found = turn.newest_release(name, key)
        # By its charge: a release that was stored late is still one of the table that it was charged for.
        return None if found is None or (found[0].refers_to or 0) <= changed else self._checked_release(*found)

    def thread(self, account: str, key: str, after: int = 0) -> list[tuple[Entry, str | None]]:
        """The entries of an account with this key that came after entry `after`, oldest first, with the text of each commit.

        Those that were about another table are left out.
        """
        self._catch_up()
        with self._store.reading() as turn:
            name = self._named(turn, account) or account
            changed = self._changed(turn, name)
            found = [pair for pair in turn.thread(name, key, max(after, changed)) if (pair[0].refers_to or pair[0].seq) > changed]
        for entry, text in found:
            self._check(entry)
            if entry.kind == "commit":
                self._checked_release(entry, text)
        return found

    def texts(self, account: str) -> list[str]:
        """All that was released from an account, oldest first, whatever table it was about."""
        self._catch_up()
        with self._store.reading() as turn:
            found = [(entry, text) for entry, text in turn.everything() if entry.account == account and entry.kind == "commit"]
        return [self._checked_release(entry, text) for entry, text in found]

    def reserve(
        self,
        account: str,
        amount: int,
        *,
        key: str,
        request: str,
        by: str = "",
        purpose: str = "",
        changed: int | None = None,
        currency: str | None = None,
    ) -> Reservation:
        """Charge the account. When this returns the charge is on disk and stays spent, whatever happens next.

        BudgetExceeded is raised with nothing written. Call this before any data is read. Whoever holds a table gives the
        account's `changed` as it was when it was opened; AccountMismatch if somebody declared another table since. `currency`
        says what `amount` counts, where the account counts either way.
        """
        return self.reserve_all(account, [Due(amount, key, request, currency)], by=by, purpose=purpose, changed=changed)[0]

    def reserve_all(
        self, account: str, dues: Sequence[Due], *, by: str = "", purpose: str = "", changed: int | None = None
    ) -> list[Reservation]:
        """Charge the account for all of these in one turn: nobody else is charged in between, and it is all of them or none."""
        checked = [replace(due, units=checked_units("the charge", due.units)) for due in dues]
        return self._reserve(account, checked, by, purpose, changed)

    def prepaid(
        self, account: str, *, key: str, request: str, by: str = "", purpose: str = "", changed: int | None = None
    ) -> Reservation:
        """Put a question on record that an earlier charge with the same key has paid for; it costs nothing more."""
        return self._reserve(account, [Due(0, key, request)], by, purpose, changed)[0]

    def _reserve(self, account: str, dues: Sequence[Due], by: str, purpose: str, changed: int | None) -> list[Reservation]:
        for due in dues:
            checked_text("key", due.key), checked_text("request", due.request)
        asker = {"by": checked_text("by", by), "purpose": checked_text("purpose", purpose)}
        made: list[Reservation] = []
        with self._writing() as turn:
            head, latest = self._open_ends(turn, account)
            name = latest.account
            if changed is not None and self._changed(turn, name) != changed:
                raise AccountMismatch(
                    f"another session has put on record that the table of account {name!r} changed. Open this session again, "
                    "with the table as it is now; nothing was charged."
                )
            standing = self._standing(turn, name)[0]
            standing = replace(standing, parted=standing.parted or any(due.scope is not None for due in dues))
            tally = after = self._tally(turn, standing)
            for due in dues:
                after = after.charged(due.scope, *standing.charge(due.units, due.currency))
            spent, pure_spent = after.spent(MOST)
            if not within(standing.budget, spent, standing.pure_budget, pure_spent):
                raise self._refused(self._seen_by(standing, tally, dues[0].scope), dues)
            for due in dues:
                if not due.units and not (due.key and turn.has_paid(name, due.key)):
                    raise LedgerError("nothing was paid for this key yet. Reserve an amount for it first.")
                amount, pure = standing.charge(due.units, due.currency)
                scope = due.scope if amount else None
                tally = tally.charged(scope, amount, pure)
                spent, pure_spent = tally.spent()
                standing = replace(standing, spent=spent, pure_spent=pure_spent)
                head = latest = self._append(
                    turn, head, account=name, kind="reserve", amount=amount, pure=pure, key=due.key, request=due.request, **asker,
                    **{**latest.standing, "spent": spent, "pure_spent": pure_spent}, scope=scope,
                )  # fmt: skip
                here = self._seen_by(standing, tally, due.scope)
                made.append(
                    Reservation(
                        latest.seq, name, amount, latest.hash, latest.budget, latest.spent, latest.bounded, latest.pure_spent,
                        latest.pure_budget, here,
                    )
                )  # fmt: skip
        self._charged = max([self._charged, *(paid.seq for paid in made)])
        return made

    @staticmethod
    def _seen_by(account: Account, tally: Tally, scope: str | None) -> Account:
        return account if scope is None else account.seen_from(*tally.spent_in(scope))

    def _refused(self, account: Account, dues: Sequence[Due]) -> BudgetExceeded:
        kinds = {due.currency or account.currency for due in dues}
        if len(kinds) > 1:
            # Pure and zCDP ones together are paid for on the ρ side.
            asked, currency = functools.reduce(Account.paying, dues, account).spent - account.spent, "rho"
        else:
            asked, currency = sum(due.units for due in dues), kinds.pop()
        other = ""
        if account.currency == "either":
            kind, name, sign = ("zCDP", "rho", "ρ") if currency == "epsilon" else ("pure", "epsilon", "ε")
            rest, release = account.most(name), "a {} release" if len(dues) == 1 else "{} releases"
            other = f", or for {release.format(kind)} of at most {sign} = {show(rest)}" if rest else ""
        left = float(from_units(account.most(currency)))
        return BudgetExceeded(account.name, currency, float(from_units(asked)), left, self.durable, other, len(dues))

    def settle(self, reservation: Reservation, released: str) -> Entry | None:
        """Commit what was released, or keep it beside the ledger and commit it at the next use, if it cannot be written now.

        None if it waits. It is replayed all the same, so whoever asks again does not pay again.
        """
        try:
            return self.commit(reservation, released)
        except (LedgerUnavailable, LedgerCorrupt):
            self._store.spool.put(Kept(reservation.seq, reservation.hash, released))
            return None
        except KeyboardInterrupt:
            self._store.spool.put(Kept(reservation.seq, reservation.hash, released))
            raise

    def waiting(self) -> int:
        """How many released texts wait to be committed."""
        with self._store.reading() as turn:
            return len(self._waiting(turn))

    def kept_beside(self) -> set[int]:
        """The numbers of the charges whose released texts wait to be committed."""
        with self._store.reading() as turn:
            return {charge.seq for _, charge in self._waiting(turn)}

    def _waiting(self, turn: ReadingTurn) -> list[tuple[Kept, Entry]]:
        """What waits for a commit, with its charge. What belongs to another ledger, or was committed since, does not."""
        found = []
        for kept in self._store.spool.items():
            paid, done = turn.charge(kept.seq)
            if paid is not None and paid.hash == kept.hash and paid.kind == "reserve" and done is None:
                found.append((kept, paid))
        return found

    def _catch_up(self) -> None:
        """Commit what waits. If that cannot be done now either, it waits on."""
        for kept in self._store.spool.items():
            with suppress(LedgerError):
                with self._store.writing() as turn:
                    paid, done = turn.charge(kept.seq)
                    ours = paid if paid is not None and paid.hash == kept.hash else None
                    if ours is not None and done is None:
                        self._commit(turn, ours, kept.text)
                if ours is not None:
                    self._store.spool.remove(kept)

    @contextmanager
    def _writing(self) -> Iterator[WritingTurn]:
        self._catch_up()
        with self._store.writing() as turn:
            yield turn

    def commit(self, reservation: Reservation, released: str) -> Entry:
        """Store what was released for a reservation, once."""
        checked_text("the released text", released)
        with self._store.writing() as turn:
            paid, done = turn.charge(reservation.seq)
            if paid is None or paid.hash != reservation.hash or paid.kind != "reserve":
                raise LedgerError(
                    f"reservation {reservation.seq} of account {reservation.account!r} is not in this ledger. "
                    "Commit to the ledger that made the reservation."
                )
            if done is not None:
                raise LedgerError(
                    f"reservation {reservation.seq} of account {reservation.account!r} was committed before. "
                    "Reserve again for another release."
                )
            return self._commit(turn, paid, released)

    def _commit(self, turn: WritingTurn, paid: Entry, released: str) -> Entry:
        head, latest = self._open_ends(turn, paid.account)
        return self._append(
            turn, head, released, account=paid.account, kind="commit", refers_to=paid.seq, key=paid.key, by=paid.by,
            purpose=paid.purpose, released=sha256(released),
            **latest.standing,
        )  # fmt: skip

    def not_private(self, account: str, why: str) -> Entry:
        """Record that something without a guarantee happened to this private object: its total is not bounded any more."""
        checked_text("why", why, required=True)
        with self._writing() as turn:
            head, latest = self._open_ends(turn, account)
            return self._append(
                turn, head, account=latest.account, kind="not private", purpose=why,
                **{**latest.standing, "bounded": False},
            )  # fmt: skip

    def raise_budget(self, account: str, budget: int, *, by: str, purpose: str, pure: int | None = None) -> Account:
        """Grant the account a larger budget, on record. A budget is never lowered and what was spent is never reset.

        `pure` is the larger budget of the pure side, of an account that counts either way.
        """
        budget = checked_units("budget", budget)
        checked_text("by", by, required=True)
        checked_text("purpose", purpose, required=True)
        with self._writing() as turn:
            head, latest = self._open_ends(turn, account)
            name = latest.account
            if (pure is None) != (latest.pure_budget is None):
                raise LedgerError("both sides of an account that counts either way are raised together; others have one.")
            if pure is not None and checked_units("the pure budget", pure) <= (latest.pure_budget or 0):
                raise LedgerError(f"the pure budget of account {name!r} is {show(latest.pure_budget or 0)}; give a larger one.")
            if budget <= latest.budget:
                raise LedgerError(
                    f"the budget of account {name!r} is {show(latest.budget)} and can only be raised, not set to "
                    f"{show(budget)}. Give the new total, above {show(latest.budget)}."
                )
            self._append(
                turn, head, account=name, kind="raise", amount=budget - latest.budget, by=by, purpose=purpose,
                pure=None if pure is None else pure - (latest.pure_budget or 0),
                **{**latest.standing, "budget": budget, "pure_budget": pure},
            )  # fmt: skip
            return self._standing(turn, name)[0]

    def history(self, account: str | None = None) -> list[Entry]:
        """The entries of one account, or of all, oldest first."""
        with self._store.reading() as turn:
            name = None if account is None else self._open_ends(turn, account)[1].account
            return list(turn.entries(name))

    def copy_to(self, path: str | os.PathLike[str]) -> None:
        """Make a copy as of one moment, in a new file: for an archive or an auditor. Do not charge both to the same people."""
        self._store.copy_to(os.fspath(path))

    def contains(self, certificate: Any) -> bool:
        """Whether the entry of this certificate is in this ledger.

        Give the certificate, its `.entry`, or the beginning of it that is printed, of at least 16 digits.
        """
        hash = getattr(certificate, "entry", certificate)
        if not isinstance(hash, str) or not HASH.fullmatch(hash := hash.removesuffix("…").lower()):
            raise LedgerError(
                f"an entry is known by the 64 hexadecimal digits of its hash, or by at least the first 16 of them, and this "
                f"{type(certificate).__name__} holds none: ledger.contains(result.certificate)."
            )
        with self._store.reading() as turn:
            if len(hash) == 64:
                return turn.contains(hash)
            found = turn.beginning(hash)
        if found > 1:
            raise LedgerError(f"{found} entries of this ledger begin with {hash}; give more digits of the one you mean.")
        return found == 1

    def verify(self) -> VerifyResult:
        """Recount the whole ledger from its first entry, trusting no stored total.

        Finds an edited, removed, moved or added entry, a changed release, totals that do not add up and an account that paid
        more than its budget; a ledger without any account is not fine either, as it can show nothing. It cannot find that
        somebody cut off the newest entries with care, or put an older copy back: compare `head`, or ask `contains` for the hashes
        that certificates carry.
        """
        count = Recount(self._store.start)
        try:
            with self._store.reading() as turn:
                for entry, text in turn.everything():
                    fault = count.fault(entry, text)
                    if fault:
                        return VerifyResult(False, count.entries, count.entries + 1, fault, count.head)
                stray = turn.stray_text()
                if stray is not None:
                    return VerifyResult(False, count.entries, stray, f"released text {stray} belongs to no entry", count.head)
            damage = self._store.damage()
        except LedgerCorrupt as error:
            return VerifyResult(False, count.entries, count.entries + 1, str(error), count.head)
        if damage:
            return VerifyResult(False, count.entries, None, damage, count.head)
        if not count.entries:
            empty = "it holds no account: nothing was ever opened in it, or it is not the ledger you mean"
            return VerifyResult(False, 0, None, empty, count.head)
        return VerifyResult(True, count.entries, None, f"{count.entries} entries verify", count.head)

    def _append(self, turn: WritingTurn, head: Entry | None, text: str | None = None, **values: Any) -> Entry:
        entry = next_entry(self._store.start, head, **values)
        turn.append(entry, text)
        return entry

    def _ends(self, turn: ReadingTurn, name: str) -> tuple[Entry | None, Entry | None]:
        """The newest entry of all and the newest of one account, which holds its standing; checked, as charges rest on them."""
        head, latest = turn.ends(name)
        if latest is not None:
            self._check(latest)
        if head is not None and head != latest:
            self._check(head)
            if head.account == name:
                raise self._damaged(head.seq, "it is not found among the entries of its account")
        if self._charged and (head is None or head.seq < self._charged):
            raise LedgerCorrupt(
                f"ledger {self.path!r} was replaced by an older copy while it was open: entry {self._charged} is gone. Put the "
                "newer one back; nothing was written."
            )
        return head, latest

    def _open_ends(self, turn: ReadingTurn, name: str) -> tuple[Entry | None, Entry]:
        """The newest entry of all and the newest of the account that this name means."""
        head, latest = self._ends(turn, checked_text("the account's name", name))
        if latest is None:
            known = self._named(turn, name)
            latest = None if known is None else self._ends(turn, known)[1]
        if latest is None:
            raise self._unknown(turn, name)
        return head, latest

    def _named(self, turn: ReadingTurn, name: str) -> str | None:
        """The account that a name means, as it is stored; None if there is none."""
        checked = checked_name(name)
        return name if turn.first(name) is not None else find(checked, turn.names())

    def _unknown(self, turn: ReadingTurn, name: str) -> LedgerError:
        known = turn.names()
        close = difflib.get_close_matches(name, known, n=1)
        meant = f" (did you mean {close[0]!r}?)" if close else ""
        listed = ", ".join(repr(other) for other in known) or "none yet"
        return LedgerError(
            f"account {name!r} is not in this ledger{meant}. Known accounts: {listed}. A new account, with a budget of its own, "
            "is opened on purpose: Session(..., create=True), `pellucid explain --create` or `pellucid ledger create`."
        )

    def _standing(self, turn: ReadingTurn, name: str) -> tuple[Account, Entry]:
        """The account now, and the entry that opened it."""
        _, latest = self._open_ends(turn, name)
        name = latest.account
        first = turn.first(name)
        if first is None:
            raise self._damaged(latest.seq, "the entry that opened its account is missing")
        self._check(first)
        terms = json.loads(first.request)
        account = Account(
            name, terms["currency"], terms["delta"], terms["relation"], terms["unit"],
            latest.budget, latest.spent, bool(latest.bounded), self._changed(turn, name),
            latest.pure_budget, latest.pure_spent, Fraction(terms["order"]) if "order" in terms else None,
            turn.has_parts(name),
        )  # fmt: skip
        return account, first

    def _check(self, entry: Entry) -> None:
        if entry_hash(entry) != entry.hash:
            raise self._damaged(entry.seq, "its hash does not match what is stored")

    def _checked_release(self, entry: Entry, text: str | None) -> str:
        if not isinstance(text, str) or sha256(text) != entry.released:
            raise self._damaged(entry.seq, "its released text was changed or removed")
        return text

    def _damaged(self, seq: int, why: str) -> LedgerCorrupt:
        return LedgerCorrupt(
            f"entry {seq} of ledger {self.path!r} was altered: {why}. Run `pellucid ledger verify`, and restore the file from a "
            "backup; nothing was written."
        )


def _check_terms(account: Account, first: Entry, asked: dict[str, Any]) -> None:
    stored: dict[str, tuple[Any, ...]] = {
        "currency": (account.currency,),
        "delta": (account.delta,),
        "relation": (account.relation,),
        "unit": (account.unit,),
        "budget": tuple(dict.fromkeys((account.budget, first.amount))),
    }
    if account.currency == asked["currency"] == "either":
        # The ρ side follows from the pure one, at the order that the account was opened with.
        stored["budget"], stored["pure"] = (asked["budget"],), tuple(dict.fromkeys((account.pure_budget, first.pure)))
    wrong = []
    for term, allowed in stored.items():
        same = Fraction(asked[term]) == Fraction(allowed[0]) if term == "delta" else asked[term] in allowed
        if not same:
            words = show if term in ("budget", "pure") else repr
            wrong.append(f"{term} is {words(allowed[0])} in the ledger and {words(asked[term])} was asked")
    if wrong:
        raise AccountMismatch(
            f"account {account.name!r} exists on other terms: {'; '.join(wrong)}. Reopen it as it is stored; a larger budget is "
            "granted with raise_budget (`pellucid ledger raise`), and another private object needs another name."
        )
