"""Lists of explainers: previewed, refused, charged and released as a whole; each the same as if it were asked for alone."""

import contextlib
import io
import os
import subprocess
import sys
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from people import make_people, risk_without_smoker
from sklearn.ensemble import HistGradientBoostingClassifier
from sources import Silent

import pellucid as pel
from pellucid.engine import LocalEngine, progress
from pellucid.mechanisms import source
from pellucid.mechanisms.labels import Labels
from pellucid.public.rows import Rows
from pellucid.query import Joint, Records, Sum, parts_of
from pellucid.query.bounds import Box
from pellucid.release import session as session_module

PURE, ZCDP = pel.Budget(1.0), pel.Budget(1.0, 1e-6, accounting="zcdp")
EITHER, CAREFUL = pel.Budget(1.0, 1e-6, accounting="either"), pel.Budget(1.0, 1e-6)
BUDGETS = {"pure": PURE, "zcdp": ZCDP, "either": EITHER, "careful": CAREFUL}
AGE, SEX, SCHOOL = pel.Distribution("age", bins=10), pel.Distribution("sex"), pel.Distribution("school")


@pytest.fixture
def opened(schema):
    def open_session(budget=PURE, **more):
        return pel.Session(make_people(500), schema, budget=budget, **more)

    return open_session


@pytest.fixture
def curve(schema):
    model = pel.Model(risk_without_smoker, output=(0, 1), features=list(schema)[:-1], trained_on="other data")
    return pel.PartialDependence(model, "age", points=5, method="values")


def reserved(session):
    return [entry for entry in session.history() if entry.kind == "reserve"]


def silent(monkeypatch):
    monkeypatch.setattr(source, "current", Silent(0))


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_a_price_is_split_evenly_and_adds_up(opened, curve, budget):
    session = opened(budget)
    previews = session.preview([AGE, SEX, curve], share=0.75)
    assert session.spent == 0 and previews.affordable and len(previews) == 3
    made = session.release([AGE, SEX, curve], share=0.75)
    assert isinstance(made, pel.Released) and len(made) == 3
    assert [one.certificate.explainer["explainer"] for one in made] == ["Distribution", "Distribution", "PartialDependence"]
    assert float(made.total) == pytest.approx(float(previews.total))
    assert made.total.epsilon == pytest.approx(session.spent.epsilon, rel=1e-6)
    assert str(made.left) == str(session.remaining) == str(previews.afterwards)
    assert len({str(paid) for paid in made.charged}) == 1
    assert len(reserved(session)) == 3 and session.ledger.verify().ok


def test_shares_of_the_price_and_prices_of_their_own(opened):
    session = opened()
    made = session.release([(AGE, {"share": 0.5}), SEX, SCHOOL], epsilon=0.4)
    assert [round(float(paid), 12) for paid in made.charged] == [0.2, 0.1, 0.1]
    made = session.release([(AGE, {"epsilon": 0.3}), (SEX, {"share": 0.2})])
    assert [float(paid) for paid in made.charged] == [0.3, 0.2]
    assert float(session.remaining) == pytest.approx(0.1)


def test_three_thirds_fill_an_account(opened):
    session = opened()
    session.release([AGE, SEX, SCHOOL], epsilon=1)
    assert float(session.remaining) < 1e-11


def test_results_by_name_and_number(opened, curve, tmp_path):
    made = opened().release({"how old": AGE, "women and men": (SEX, {"share": 0.2})}, epsilon=0.5)
    assert made.names == ("how old", "women and men") and made["how old"] is made[0] and made[-1] is made["women and men"]
    assert "how old" in made and "sexes" not in made and made[0] in made
    assert dict(made.items())["how old"] is made[0] and made[:1] == (made[0],) and list(made) == [made[0], made[1]]
    with pytest.raises(pel.PlanError, match="did you mean 'how old'"):
        made["how odl"]
    files = made.save(tmp_path / "found")
    assert [file.name for file in files] == ["01-how-old.json", "02-women-and-men.json"]
    assert pel.load(files[0]).to_json() == made[0].to_json()
    plain = opened().release([AGE, pel.Distribution("age", bins=5), curve], epsilon=0.9)
    assert plain.names == ("Distribution age", "Distribution age (2)", "PartialDependence age")
    assert "3 explanations for ε = 0.9; left ε = 0.1" in str(plain) and "PartialDependence age" in str(plain)
    assert plain._repr_html_().count("<details>") == 3


def test_the_whole_list_is_refused(opened, curve, monkeypatch):
    session, read = opened(), []
    monkeypatch.setattr(LocalEngine, "totals", lambda *_: read.append(1))
    asked = [(AGE, {"epsilon": 0.5}), (curve, {"epsilon": 0.4}), (SEX, {"epsilon": 0.2})]
    preview = session.preview(asked)
    assert not preview.affordable and [one.affordable for one in preview] == [True, True, False]
    assert "cannot pay for the whole list" in str(preview)
    with pytest.raises(
        pel.BudgetExceeded, match=r"asked epsilon = 1.1 for 3 releases, left 1, missing 0.1.*at most 1 in all"
    ) as no:
        session.release(asked)
    assert (no.value.asked, no.value.left) == (pytest.approx(1.1), 1.0) and "nothing charged" in str(no.value)
    assert not reserved(session) and session.spent == 0 and not read


def test_kinds_together_that_neither_side_can_pay_are_refused(opened):
    session = opened(EITHER)
    asked = [
        (AGE, {"share": 0.6, "kind": "pure"}),
        (SEX, {"share": 0.7, "kind": "zcdp"}),
        (SCHOOL, {"share": 0.3, "kind": "zcdp"}),
    ]
    with pytest.raises(pel.BudgetExceeded, match=r"asked rho = .* for 3 releases"):
        session.release(asked)
    assert not reserved(session)
    made = session.release(asked[1:])
    assert made.total.rho == pytest.approx(session.whole.rho) and session.ledger.verify().ok


def test_both_sides_of_one_list_have_one_sum(opened):
    session = opened(EITHER)
    made = session.release([(AGE, {"share": 0.3, "kind": "pure"}), (SEX, {"share": 0.1, "kind": "zcdp"})])
    assert made.total.epsilon == pytest.approx(session.spent.epsilon) and made.total.currency == "either"
    assert str(made.total).startswith("ε = 0.3 and ρ = ")


@pytest.mark.parametrize(
    "wrong, words",
    [
        ([], "an empty list"),
        ({}, "an empty list"),
        ([AGE, pel.Distribution], "number 2 of the list: Distribution is a class"),
        ([AGE, "sex"], "number 2 of the list: str is not an explainer"),
        ((AGE, {"epsilon": 0.1}), "dict|give a list"),
        ([(AGE, {"epsilonn": 0.1})], "'epsilonn' is not known"),
        ([(AGE, 0.1)], "number 1 of the list"),
        ([(AGE, {"by": "Ada"})], "once for the whole list"),
        ({1: AGE}, "no name"),
        ([AGE, pel.Distribution("agee")], "agee"),
    ],
)
def test_what_is_wrong_with_a_list_is_said_before_it_is_paid_for(opened, wrong, words):
    session = opened()
    for ask in (session.release, session.preview):
        with pytest.raises(pel.PellucidError, match=words):
            ask(wrong, epsilon=0.5)
    assert not reserved(session)


@pytest.mark.parametrize(
    "items, price, words",
    [
        ([AGE, SEX], {}, "exactly one of"),
        ([(AGE, {"epsilon": 0.1}), SEX], {}, "number 2 of the list has no price"),
        ([(AGE, {"epsilon": 0.1}), SEX], {"epsilon": 0.5}, "price of its own"),
        ([(AGE, {"share": 0.8}), (SEX, {"share": 0.3})], {"epsilon": 0.5}, "add up to at most 1.*add up to 1.1"),
        ([(AGE, {"share": 1}), SEX], {"epsilon": 0.5}, "leave something"),
        ([AGE, SEX], {"epsilon": 0.5, "share": 0.5}, "exactly one of"),
        ([AGE, SEX], {"epsilon": 1e-9}, "too small"),
    ],
)
def test_prices_that_do_not_go_together(opened, items, price, words):
    session = opened()
    with pytest.raises(pel.PlanError, match=words):
        session.release(items, **price)
    assert not reserved(session)


def test_what_takes_one_explainer_says_so_of_a_list(opened, tmp_path):
    session = opened()
    for wrong, words in (
        ([AGE, SEX], "takes one explainer"),
        ("age", "not an explainer"),
        ((one for one in (AGE,)), "or a list"),
    ):
        with pytest.raises(pel.PlanError, match=words):
            session.cost_for(wrong, error=5.0)
    session.release([AGE, SEX], epsilon=0.5).save(tmp_path)
    with pytest.raises(pel.LoadError, match="is a folder"):
        pel.load(tmp_path)
    for wrong in ("study.json", "study.png", "01-distribution-age.json"):
        with pytest.raises(pel.PlanError, match="name of a folder"):
            session.release([AGE, SEX], epsilon=0.5).save(tmp_path / wrong)


def test_what_was_released_before_is_free(opened):
    session = opened()
    before = session.release(AGE, epsilon=0.2)
    preview = session.preview([AGE, SEX], epsilon=0.4)
    assert [one.free for one in preview] == [True, False] and float(preview.total) == 0.2
    assert "free: an identical request was released before" in str(preview)
    made = session.release([AGE, SEX], epsilon=0.4)
    assert made[0].to_frame().equals(before.to_frame()) and [float(paid) for paid in made.charged] == [0.0, 0.2]
    assert float(session.spent) == 0.4 and "free, it was released before" in str(made)
    again = session.release([AGE, SEX], epsilon=0.4)
    assert again.total == 0 and again[1].to_frame().equals(made[1].to_frame()) and "for nothing" in str(again)
    assert float(session.release([AGE, SEX], epsilon=0.4, fresh=True).total) == 0.4


def test_the_same_twice_in_a_list_is_paid_for_once(opened):
    session = opened()
    assert float(session.preview([AGE, AGE], epsilon=0.4).total) == 0.2
    made = session.release([AGE, AGE], epsilon=0.4)
    assert made[0] is made[1] and len(reserved(session)) == 1 and float(session.spent) == 0.2
    session.release([AGE, AGE], epsilon=0.4, fresh=True)
    assert len(reserved(session)) == 3


def test_a_list_of_one_is_that_one(opened, curve, monkeypatch):
    silent(monkeypatch)
    for budget in BUDGETS.values():
        alone, (listed,) = opened(budget).release(curve, epsilon=0.5), opened(budget).release([curve], epsilon=0.5)
        assert alone.certificate.charges == listed.certificate.charges
        assert alone.content() == listed.content()


@pytest.mark.parametrize("neighbors", ["replace", "add-remove"])
@pytest.mark.parametrize("unit", [None, pel.Unit("person", max_rows=3)], ids=["rows", "people"])
def test_a_list_gives_what_its_parts_give_alone(schema, curve, neighbors, unit, monkeypatch, tmp_path):
    """Bit for bit without noise, whoever reads with whom, in memory and from a file."""
    silent(monkeypatch)
    people = make_people(3000).assign(person=np.arange(3000) // 2)
    people.to_parquet(tmp_path / "people.parquet")
    asked = [
        (AGE, {"epsilon": 0.5}),
        (curve, {"epsilon": 1.0}),
        (pel.AccumulatedEffects(curve.model, "bmi"), {"epsilon": 2.0}),
        (pel.PartialDependence(curve.model, "bmi"), {"epsilon": 1.5}),
        (pel.Completeness(), {"epsilon": 0.5}),
        (pel.PermutationImportance(curve.model, "smoker"), {"epsilon": 1.0}),
    ]
    for data in (people, tmp_path / "people.parquet"):
        open_ = {"budget": pel.Budget(99.0), "neighbors": neighbors, "unit": unit, "expected_rows": 3000}
        # Who is paired with whom, and which rows of a person stay, comes from the same source in the same order.
        monkeypatch.setattr("pellucid.mechanisms.labels.fresh", lambda: Labels(bytes(32)))
        one_by_one = pel.Session(data, schema, **open_)
        alone = [one_by_one.release(explainer, **cost) for explainer, cost in asked]
        listed = pel.Session(data, schema, **open_).release(asked)
        for one, other in zip(alone, listed):
            assert one.content() == other.content() and one.certificate.charges == other.certificate.charges


def test_curves_that_share_a_walk_are_those_of_their_own_walks(schema, monkeypatch):
    """Trees that are read, behind a link: a walk for all points of all explainers gives the bits of a walk for each."""
    silent(monkeypatch)
    names, people = ["age", "children", "bmi"], make_people(4000)
    fitted = HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(people[names], people["smoker"])
    model = pel.Model(fitted, features=names, trained_on="other data")
    asked = [pel.PartialDependence(model, name, points=7, method="values") for name in names]
    asked += [pel.PartialDependence(model, names), pel.PartialDependence(model, "bmi"), AGE]
    walks, whole = [], Rows.asking_ahead
    monkeypatch.setattr(Rows, "asking_ahead", lambda rows, points: walks.append(points) or whole(rows, points))
    session = pel.Session(people, schema, budget=pel.Budget(99.0))
    listed = session.release([(one, {"epsilon": 2.0}) for one in asked], fresh=True)
    assert max(len(asked) for points in walks for asked in points.values()) > 30
    monkeypatch.setattr(Rows, "asking_ahead", lambda *_: contextlib.nullcontext())
    for one, other in zip(asked, listed):
        assert session.release(one, epsilon=2.0, fresh=True).content() == other.content()


def test_a_map_of_somebodys_own_may_call_its_settings_what_it_likes(schema):
    @dataclass(frozen=True)
    class Mine:
        points: int = 3

        def __call__(self, rows):
            return rows["age"][:, None]

    engine, query = LocalEngine(make_people(90), schema, "replace", pel.Unit()), Sum(Mine(), Box(1, 17, 90), columns=("age",))
    assert engine.totals(Joint([query, query])) == engine.totals(query) * 2


def test_sums_that_plans_settle_share_one_pass(opened, curve, monkeypatch):
    passes, whole = [], LocalEngine.totals
    monkeypatch.setattr(LocalEngine, "totals", lambda self, query: passes.append(query) or whole(self, query))
    opened().release([AGE, SEX, curve, pel.Completeness()], epsilon=0.8)
    assert len(passes) == 1 and len(parts_of(passes[0])) >= 4
    assert all(isinstance(part.over, Records) for part in parts_of(passes[0]))


def test_a_wide_sum_makes_no_batches_smaller(schema):
    sizes = {}

    @dataclass(frozen=True)
    class Seen:
        width: int

        def __call__(self, rows):
            sizes.setdefault(self.width, []).append(len(rows))
            return np.repeat(rows["age"][:, None], self.width, axis=1)

    def asked(width):
        return Sum(Seen(width), Box(width, 17, 90), columns=("age",))

    engine = LocalEngine(make_people(9000), schema, "replace", pel.Unit())
    alone = [engine.totals(asked(width)) for width in (1, 2000)]
    seen, sizes = sizes, {}
    assert engine.totals(Joint([asked(1), asked(2000)])) == [value for one in alone for value in one]
    assert sizes == seen and len(sizes[1]) == 1 and len(sizes[2000]) > 1


class Breaks(pel.Distribution):
    """A release that stops after it was paid for."""

    stored_as = "tests.Breaks"

    def run(self, ask):
        ask.total("counts")
        raise ZeroDivisionError("post-processing failed")


class Unreadable(pel.Distribution):
    """A release whose map fails on records."""

    stored_as = "tests.Unreadable"

    def plan(self, public):
        planned = super().plan(public)

        def fails(rows):
            raise RuntimeError(f"a secret of {len(rows)} rows")

        query = Sum(fails, Box(1, 0, 1), columns=("age",))
        return pel.Plan(public, (public.stage("counts", query),), planned.details)


@pytest.mark.parametrize(
    "broken, words", [(Breaks("school"), "post-processing failed"), (Unreadable("school"), "rows were read")]
)
def test_what_stops_takes_nothing_else_with_it(opened, broken, words):
    session = opened()
    with pytest.raises(pel.ReleaseFailed, match=words) as failure:
        session.release({"old": AGE, "broken": broken, "sexes": SEX}, epsilon=0.6)
    assert "1 of 3 releases" in str(failure.value) and "'broken'" in str(failure.value) and "secret" not in str(failure.value)
    released = failure.value.released
    assert released.names == ("old", "sexes") and all(one.certificate.private for one in released)
    assert float(session.spent) == pytest.approx(0.6) and float(released.total) == pytest.approx(0.6)
    assert session.release(AGE, epsilon=0.2).to_frame().equals(released["old"].to_frame()), "free from the ledger"
    assert float(session.spent) == pytest.approx(0.6) and session.ledger.verify().ok


def test_a_list_of_which_nothing_was_released_can_be_shown(opened):
    with pytest.raises(pel.ReleaseFailed, match="1 of 1 releases") as failure:
        opened().release([Breaks("school")], epsilon=0.6)
    assert str(failure.value.released).startswith("0 explanation")


def test_a_model_that_is_refused_refuses_the_list(opened, schema):
    session = opened()
    bad = pel.Model(lambda table: np.arange(len(table)), output=(0, 1), trained_on="other data", features=["age"])
    with pytest.raises(pel.ModelError):
        session.release([AGE, pel.PartialDependence(bad, "age"), SEX], epsilon=0.6)
    assert not reserved(session)


def test_a_model_is_tried_once_for_a_list(opened, curve, monkeypatch):
    session, anew, whole = opened(), [], session_module.tried

    def noted(box, schema, asking, again=False):
        anew.extend([box] * again)
        return whole(box, schema, asking, again)

    monkeypatch.setattr(session_module, "tried", noted)
    session.release([curve, pel.PartialDependence(curve.model, "bmi"), pel.PartialDependence(curve.model, "sex")], epsilon=0.9)
    assert anew == [curve.model]


def test_a_stream_and_a_useless_release_are_refused_before_anything_is_paid(opened, curve):
    session = opened()
    with pytest.raises(pel.PlanError, match="one after another"):
        session.release([AGE, pel.LocalLinear(curve.model)], epsilon=0.5)
    assert not reserved(session)


CHILD = """
import sys, pellucid as pel
from people import make_people
schema = pel.Schema({"age": pel.Number(17, 90, integer=True), "sex": pel.Category(["F", "M"])})
session = pel.Session(make_people(200), schema, budget=pel.Budget(epsilon=1.0), name="ward-7", ledger=sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
done = 0
for turn in range(12):
    try:
        session.release([pel.Distribution("age", bins=3 + i) for i in range(5)], epsilon=0.15, fresh=True)
        done += 1
    except pel.BudgetExceeded as refused:
        assert "for 5 releases" in str(refused)
print(done)
"""


def test_two_processes_that_release_lists_are_charged_whole_lists(schema, tmp_path):
    """Five entries at a time and none between them: whoever is refused was charged nothing."""
    file = tmp_path / "study.db"
    two = pel.Schema({name: schema[name] for name in ("age", "sex")})
    pel.Session(make_people(200), two, budget=PURE, name="ward-7", ledger=file, create=True)
    paths = os.pathsep.join(sys.path)
    start = [sys.executable, "-c", CHILD, str(file)]
    children = [
        subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": paths})
        for _ in range(2)
    ]
    assert [child.stdout.readline() for child in children] == ["ready\n"] * 2
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    done = [int(child.communicate(timeout=120)[0]) for child in children]
    assert sum(done) == 6, "0.15 fits six times into 1"
    with pel.Ledger(file) as ledger:
        entries = ledger.history("ward-7")
        charged = [entry for entry in entries if entry.kind == "reserve"]
        assert len(charged) == 30 and ledger.verify().ok
        first = [charged[i].seq for i in range(0, 30, 5)]
        assert [entry.seq for entry in charged] == [seq + i for seq in first for i in range(5)]


def test_one_bar_for_the_list(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.together(2, "releasing") as bar:
        for label in ("age", "sex"):
            bar.label = label
            assert list(progress.track(iter(range(3)), 3, "reading records")) == [0, 1, 2]
            bar.done += 1
    assert "sex" in terminal.getvalue() and "reading records" not in terminal.getvalue()


def test_nothing_is_read_from_the_ledger_after_the_charge(opened, monkeypatch):
    """Once a list is paid for nothing may fail that need not."""
    session = opened()
    store, charged = session.ledger._store, threading.Event()
    whole = session.ledger.reserve_all
    monkeypatch.setattr(session.ledger, "reserve_all", lambda *a, **k: [whole(*a, **k), charged.set()][0])
    reading = store.reading

    def refuses():
        if charged.is_set():
            raise pel.LedgerUnavailable("locked")
        return reading()

    monkeypatch.setattr(store, "reading", refuses)
    made = session.release([AGE, SEX], epsilon=0.4)
    assert len(made) == 2 and float(made.left) == pytest.approx(0.6)
