"""One account per record: nobody pays more than the guarantee, and who was left out shows in nothing but the totals."""

import pickle
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from asking import nothing, public
from hypothesis import given
from hypothesis import strategies as st
from sources import Silent

import pellucid as pel
from pellucid import PellucidError, query
from pellucid.errors import ReleaseFailed
from pellucid.explainers.local.bound import Moments
from pellucid.explainers.local.encoder import LocalRows
from pellucid.explainers.local.oracles import IndividualOracle
from pellucid.explainers.local.weights import Gaussian
from pellucid.mechanisms import source
from pellucid.release.door import IndividualAsk
from pellucid.release.individual import IndividualAccounts


class Numbers:
    projector = None


class Held:
    """Records as arrays, in two batches."""

    def __init__(self, x, f):
        self.x, self.f, self.rows = np.asarray(x, dtype=float), np.asarray(f, dtype=float), len(x)

    def batches(self):
        half = self.rows // 2
        yield self.x[:half], self.f[:half], None
        yield self.x[half:], self.f[half:], None


@dataclass(frozen=True)
class Question:
    asked: query.Sum
    price: Fraction

    def mechanism(self):
        return IndividualAsk.mechanism(public(), self.asked, self.price)


class Individual:
    """Questions under one account per record, as a stream asks them."""

    def __init__(self, held, rho, records, relation="add-remove", unit=None):
        self.accounts, self.records = IndividualAccounts(held, rho, relation, unit or pel.Unit()), records

    def answer(self, question):
        door = IndividualAsk(self.accounts, public(), nothing)
        return IndividualOracle(door, question.asked, self.records).moments("moments", question.price)

    def catch_up(self, earlier):
        self.accounts.catch_up([(question.asked, question.mechanism().scale) for question in earlier])


def ask(z, price, bandwidth=0.5):
    weight = Gaussian(bandwidth)
    limits = weight.limits(2.0, 1.0)
    rows = LocalRows(Numbers(), tuple(z), weight, 1.0)
    return Question(query.Sum(rows, Moments(len(z), limits.joint, limits.slope, limits.label)), Fraction(price))


def clusters(size=400, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.array([[0.1, 0.1], [0.9, 0.9]])
    x = np.clip(centres[np.arange(size) % 2] + 0.05 * rng.normal(size=(size, 2)), 0, 1)
    return Held(x, np.where(np.arange(size) % 4 < 2, 1.0, -1.0))


def by_hand(held, questions, rho):
    """The totals of every question, with each record's account kept in fractions; who cannot pay once is out for good."""
    spent, out = [Fraction(0)] * held.rows, set()
    answers, kept = [], []
    for question in questions:
        bound, scale = question.asked.bound, question.mechanism().scale
        z = bound.integers(question.asked.map.of(held.x, held.f))
        inside = []
        for i, one in enumerate(z):
            p, q = sum(int(v) ** 2 for v in one[:-1]), int(one[-1]) ** 2
            price = Fraction(p * (p + q)) / (2 * scale * scale)
            # The account of a record is counted in whole parts of 2^-50, rounded up.
            inside.append(i not in out and spent[i] + price <= rho * (1 - Fraction(1, 2**30)))
            spent[i] += price if inside[-1] else 0
            if not inside[-1]:
                out.add(i)
        assert max(spent) <= rho
        answers.append(bound.total_of(z[inside]))
        kept.append(sum(inside))
    return answers, kept


def test_totals_are_those_of_the_records_that_can_pay(monkeypatch):
    monkeypatch.setattr(source, "current", Silent())
    held, rho = clusters(), Fraction(1, 10)
    questions = [ask((0.2, 0.2), rho / 3) for _ in range(12)] + [ask((0.8, 0.8), rho / 3) for _ in range(3)]
    answers, kept = by_hand(held, questions, rho)
    assert kept[0] == 400 and kept[11] < 400
    made = Individual(held, rho, 400)
    for question, wanted in zip(questions, answers):
        noisy = made.answer(question)
        matrix, vector = question.asked.bound.matrix(np.array(wanted, dtype=float))
        unit = question.asked.bound.unit / 400
        assert noisy.matrix == pytest.approx(matrix * unit, abs=1e-15) and noisy.vector == pytest.approx(vector * unit, abs=1e-15)


def test_many_more_questions_than_the_guarantee_pays_for_at_once():
    """The far cluster pays next to nothing for questions about the near one."""
    held, rho = clusters(), Fraction(1, 10)
    near, far = [ask((0.2, 0.2), rho / 2)] * 6, ask((0.8, 0.8), rho / 2)
    _, kept = by_hand(held, [*near, far], rho)
    assert kept[-1] >= 200


def test_accounts_are_computed_again_from_the_questions(monkeypatch):
    monkeypatch.setattr(source, "current", Silent())
    held, rho = clusters(), Fraction(1, 10)
    questions = [ask((0.2, 0.2 + 0.02 * i), rho / 3) for i in range(10)]
    through = Individual(held, rho, 400)
    answers = [through.answer(question) for question in questions]
    again = Individual(held, rho, 400)
    again.catch_up(questions[:6])
    for question, wanted in zip(questions[6:], answers[6:]):
        found = again.answer(question)
        assert np.array_equal(found.matrix, wanted.matrix) and np.array_equal(found.vector, wanted.vector)
    fresh = Individual(held, rho, 400).answer(questions[-1])
    assert not np.array_equal(fresh.matrix, answers[-1].matrix)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(1, 6)), min_size=1, max_size=6))
def test_one_record_never_pays_more_than_the_guarantee(asked):
    """The true sum of what one record brought, over all questions it took part in, stays below B."""
    rho = Fraction(1, 10)
    for x, f in (([[0.5, 0.5]], [1.0]), ([[0.0, 1.0]], [-0.3])):
        with_, without = Held(x, f), Held(np.empty((0, 2)), np.empty(0))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(source, "current", Silent())
            one, none = Individual(with_, rho, 100), Individual(without, rho, 100)
            lost = Fraction(0)
            for a, b, k in asked:
                question = ask((a, b), rho / k)
                bound, scale = question.asked.bound, float(question.mechanism().scale)
                there, gone = one.answer(question), none.answer(question)
                unit = bound.unit / 100
                moved = (((there.matrix - gone.matrix) / unit) ** 2).sum() + (((there.vector - gone.vector) / unit) ** 2).sum()
                lost += Fraction(float(moved)) / Fraction(2 * scale * scale)
        assert lost <= rho * (1 + Fraction(1, 10**9))


def test_who_was_dropped_shows_in_nothing_but_the_totals():
    """The same questions on data where everybody, somebody or nobody is left: same shapes, noise, words and refusals."""
    rho = Fraction(1, 10)
    seen = []
    for held in (clusters(), Held(np.full((50, 2), 0.35), np.ones(50)), Held(np.empty((0, 2)), np.empty(0))):
        made = Individual(held, rho, 400)
        answers = [made.answer(ask((0.2, 0.2), rho)) for _ in range(5)]
        accounts = made.accounts
        assert not [name for name in dir(accounts) if not name.startswith("_") and name not in ("totals", "catch_up")]
        assert not hasattr(accounts, "__dict__")
        with pytest.raises(TypeError):
            pickle.dumps(accounts)
        seen.append((repr(accounts), [(a.matrix.shape, a.vector.shape, a.matrix_std, a.vector_std) for a in answers]))
    assert seen[0] == seen[1] == seen[2]


def test_what_goes_wrong_says_nothing():
    class Broken(Held):
        def batches(self):
            raise ValueError("record 7 was dropped")

    made = Individual(Broken([[0.5, 0.5]], [1.0]), Fraction(1), 10)
    with pytest.raises(ReleaseFailed) as failure:
        made.answer(ask((0.5, 0.5), 1))
    assert "7" not in str(failure.value)


@pytest.mark.parametrize(
    ("relation", "unit"), [("replace", None), ("add-remove", pel.Unit("id")), ("add-remove", pel.Unit(max_rows=2))]
)
def test_it_is_refused_where_it_is_not_proved(relation, unit):
    with pytest.raises(PellucidError):
        Individual(clusters(), Fraction(1), 400, relation, unit)
