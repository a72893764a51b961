"""What every explainer that answers question after question must satisfy: one suite, inherited by each.

A suite says which streams to try (`streams`), what to ask them (`questions`) and which tables are neighbours. Everything a
stream asks goes through the door, so the suite stands there: it sees every query with its calibration, and checks it
as the contract of releases does: neighbours, noise, charges, sabotage.
"""

import contextlib
import json
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from checks import assert_within, check_scores, expected_std, noise
from sources import Scaled, Seeded

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.mechanisms import Norms, source
from pellucid.query import Choice
from pellucid.release.door import Door
from pellucid.release.stream import Channel

BUDGET = pel.Budget(epsilon=4.0, delta=1e-6)


@dataclass
class Seen:
    """One question at the door: what was asked, with which calibration, for how much."""

    query: Any
    how: Any
    spend: Any


@contextlib.contextmanager
def door_seen():
    """Everything that goes through any door meanwhile."""
    seen, noisy, chosen = [], Door._noisy, Door._chosen

    def noisy_seen(self, stage, query, how, spend, *claims):
        seen.append(Seen(query, how, spend))
        return noisy(self, stage, query, how, spend, *claims)

    def chosen_seen(self, stage, choice, how, spend):
        seen.append(Seen(choice, how, spend))
        return chosen(self, stage, choice, how, spend)

    Door._noisy, Door._chosen = noisy_seen, chosen_seen
    try:
        yield seen
    finally:
        Door._noisy, Door._chosen = noisy, chosen


class InteractiveConformance:
    """Inherit, and say what to try."""

    relations = ("replace", "add-remove")

    def streams(self):
        """Explainers to open."""
        raise NotImplementedError

    def questions(self):
        """What to ask each of them, in order; at least three, the last far from the others."""
        raise NotImplementedError

    def schema(self):
        raise NotImplementedError

    def neighbours(self, relation):
        """Pairs of tables that differ in one record; one of them moves the total further than half of what is claimed."""
        raise NotImplementedError

    def sabotages(self):
        """(class, method) of bounds whose norms are halved; the neighbours must give it away."""
        return []

    def canary(self):
        """(table, a number in it that nobody may see)"""
        raise NotImplementedError

    def session(self, table, relation="replace", ledger=None):
        return pel.Session(
            table, self.schema(), budget=BUDGET, neighbors=relation, ledger=ledger, name="contract", expected_rows=len(table),
            create=True,
        )  # fmt: skip

    def asked(self, explainer, table, relation):
        """Everything one stream asks at the door."""
        with door_seen() as seen, noise(Seeded(0)), self.session(table, relation).open(explainer, share=1) as stream:
            for question in self.questions():
                stream.explain(question)
        assert seen
        return seen

    def check_neighbours(self, relation):
        for explainer in self.streams():
            for table, neighbour in self.neighbours(relation):
                engines = [LocalEngine(t, self.schema(), relation, pel.Unit()) for t in (table, neighbour)]
                for one in self.asked(explainer, table, relation)[:40]:
                    doors = [Door(engine.totals, None, None) for engine in engines]
                    if isinstance(one.query, Choice):
                        check_scores(one.query, *(door._exact(one.query.of) for door in doors), relation)
                    else:
                        assert_within(one.how, *(door._totals(one.query, one.how) for door in doors))

    def check_noise(self, relation, test_source=None, draws=300):
        table = self.neighbours(relation)[0][0]
        for explainer in self.streams():
            for one in self.asked(explainer, table, relation)[:3]:
                if isinstance(one.query, Choice):
                    continue
                zeros = [0] * one.query.size
                wanted = expected_std(one.query, relation, one.spend)
                relative = np.array(one.how.relative or (1.0,) * len(zeros))
                with noise(test_source or source.SystemSource()):
                    door = Door(None, self.session(table, relation).plan(explainer, share=1).public, lambda charge: None)
                    door._totals = lambda *_, zeros=zeros: zeros
                    drawn = [
                        np.array(door._noisy("stage", one.query, one.how, one.spend).integers, dtype=float) / relative
                        for _ in range(draws)
                    ]
                measured = float(np.std(np.concatenate(drawn)))
                assert abs(measured / wanted - 1) < 0.12, (explainer, measured / wanted)

    @pytest.fixture(params=["replace", "add-remove"])
    def relation(self, request):
        if request.param not in self.relations:
            pytest.skip("not offered under this relation")
        return request.param

    def test_neighbours_stay_within_the_claimed_sensitivity(self, relation):
        self.check_neighbours(relation)

    def test_noise_has_the_right_scale(self, relation):
        self.check_noise(relation)

    @pytest.mark.parametrize("factor", [0.7, 1.3])
    def test_noise_at_another_scale_is_noticed(self, factor):
        with pytest.raises(AssertionError):
            self.check_noise(self.relations[0], Scaled(1, factor))

    def test_a_halved_sensitivity_is_noticed(self, monkeypatch):
        """With every sensitivity halved where noise scales come from, the noise is not the textbook's."""
        original = pel.query.sensitivities.sensitivity

        def halved(*arguments):
            norms = original(*arguments)
            return Norms(norms.l1 // 2, norms.l2_squared // 4, norms.linf // 2)

        monkeypatch.setattr("pellucid.query.sensitivities.sensitivity", halved)
        with pytest.raises(AssertionError):
            self.check_noise(self.relations[0])

    def test_halved_norms_of_a_bound_are_noticed(self, monkeypatch):
        """A bound that says half of what its theorem says is refuted by the neighbours."""
        if not self.sabotages():
            pytest.skip("has no bound of its own")
        for cls, method in self.sabotages():
            with monkeypatch.context() as patch:
                original = getattr(cls, method)
                patch.setattr(cls, method, lambda self, *given, original=original: _half(original(self, *given)))
                with pytest.raises(AssertionError):
                    for relation in self.relations:
                        self.check_neighbours(relation)

    def test_every_charge_is_on_disk_before_records_are_read(self, relation, tmp_path, monkeypatch):
        table = self.neighbours(relation)[0][0]
        for i, explainer in enumerate(self.streams()):
            path = tmp_path / f"{i}.db"
            read, written = [], []
            door, session = Door._exact, self.session(table, relation, path)
            start = len(session.history())

            def spy(self, query, session=session, door=door, read=read, written=written, start=start):
                read.append(len(read))
                written.append(len([e for e in session.history()[start:] if e.kind == "reserve"]))
                return door(self, query)

            with monkeypatch.context() as patch:
                patch.setattr(Door, "_exact", spy)
                with session.open(explainer, share=1) as stream:
                    for question in self.questions():
                        stream.explain(question)
            assert all(entries > number for number, entries in zip(read, written))

    def test_what_was_charged_is_what_the_answers_cost(self, relation):
        table = self.neighbours(relation)[0][0]
        for explainer in self.streams():
            session = self.session(table, relation)
            with session.open(explainer, share=1) as stream:
                answers = [stream.explain(question) for question in self.questions()]
                assert float(stream.spent) == float(session.spent) <= float(session.whole)
                charged = sum(entry.amount for entry in session.history() if entry.kind == "reserve")
                told = sum(charge["amount"] for answer in answers for charge in answer.certificate.charges)
                whole = float(session.spent) if self.charged_at_once(explainer) else told
                assert charged / 10**12 == pytest.approx(whole, rel=1e-9)

    def charged_at_once(self, explainer):
        """Whether the whole slice is charged when the stream is opened."""
        return False

    def test_it_goes_on_after_a_restart(self, relation, tmp_path):
        table = self.neighbours(relation)[0][0]
        for i, explainer in enumerate(self.streams()):
            path = tmp_path / f"{i}.db"
            with self.session(table, relation, path).open(explainer, share=0.4) as stream:
                stream.explain(self.questions()[0])
                answered, spent = stream.answered, stream.spent
            with self.session(table, relation, path).open(explainer, share=0.4) as again:
                assert (again.answered, again.spent) == (answered, spent) and answered == 1
            with self.session(table, relation, path).open(explainer, share=0.4, name="other") as other:
                assert other.answered == 0

    def test_a_closed_stream_says_so(self, relation):
        for explainer in self.streams():
            with self.session(self.neighbours(relation)[0][0], relation).open(explainer, share=1) as stream:
                pass
            with pytest.raises(pel.StreamClosed, match="open it again"):
                stream.explain(self.questions()[0])

    def test_a_canary_never_appears_in_an_answer(self):
        table, canary = self.canary()
        for explainer in self.streams():
            session = self.session(table, self.relations[-1])
            with session.open(explainer, share=1) as stream:
                for question in self.questions():
                    answer = stream.explain(question)
                    for text in (answer.to_json().encode(), pickle.dumps(answer)):
                        assert repr(canary)[:12].encode() not in text and np.float64(canary).tobytes() not in text
            assert repr(canary)[:12] not in json.dumps([entry.request for entry in session.history()])

    def test_test_noise_is_certified_not_private(self, relation):
        for explainer in self.streams():
            session = self.session(self.neighbours(relation)[0][0], relation)
            with noise(Seeded(0)), session.open(explainer, share=0.5) as stream:
                assert stream.explain(self.questions()[0]).certificate.status == "not private"
            assert not session._account.standing.bounded

    def test_what_stands_next_to_records_is_not_saved(self, relation):
        explainer = self.streams()[0]
        stream = self.session(self.neighbours(relation)[0][0], relation).open(explainer, share=1)
        channel = next(v for v in (*vars(stream).values(), stream._account) if isinstance(v, Channel))
        with pytest.raises(TypeError):
            pickle.dumps(channel)


def _half(value):
    if isinstance(value, Norms):
        return Norms(value.l1 // 2, value.l2_squared // 4, value.linf // 2)
    return value // 2
