"""Parts of a table: who is in them, what they cost, and what somebody who tries to cheat gets."""

import math
import os
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pellucid as pel
from pellucid.engine import LocalEngine, PartEngine, ProcessEngine
from pellucid.ledger import Ledger
from pellucid.ledger.scopes import Tally
from pellucid.public.where import Where
from pellucid.query import Pairs, Sum
from pellucid.query.bounds import Box
from pellucid.release.part import Part

pytestmark = pytest.mark.filterwarnings("ignore:.*such a part cannot be seen:UserWarning")

SCHEMA = pel.Schema(
    {
        "ward": pel.Category(["A", "B", "C"]),
        "age": pel.Number(0, 99, integer=True),
        "dose": pel.Number(0, 1),
        "seen": pel.Date("2020-01-01", "2024-12-31"),
        "known": pel.Category(["no", "yes", "unknown"], missing="unknown"),
    }
)


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "ward": rng.choice(["A", "B", "C", "X", None], rows, p=[0.4, 0.3, 0.2, 0.05, 0.05]),
            "age": rng.choice([-5, 0, 17, 40, 99, 400], rows),
            "dose": rng.choice([0.0, 0.1 + 0.2, 0.3, 0.5, 1.0, 7.0, np.nan], rows),
            "seen": "2022-05-01",
            "known": rng.choice(["no", "yes", None], rows),
        }
    )


def opened(relation="add-remove", epsilon=1.0, rows=300, unit=None, **more):
    data = table(rows)
    if unit is not None:
        data["id"] = np.arange(rows) // 2
    return pel.Session(
        data, SCHEMA, budget=pel.Budget(epsilon=epsilon, **more), neighbors=relation, unit=unit, expected_rows=rows
    )


def counts(bins=3, feature="dose"):
    return pel.Distribution(feature, bins=bins)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_three_disjoint_parts_cost_one_and_the_whole_table_counts_in_each(relation):
    session = opened(relation)
    made = [session.where(ward=ward).release(counts(), epsilon=0.5) for ward in "ABC"]
    assert session.spent == 0.5 and [one.certificate.total["epsilon"] for one in made] == [0.5] * 3
    session.release(counts(), epsilon=0.25)
    part = session.where(ward="A")
    assert session.spent == 0.75 and part.remaining == 0.25 and session.where(age=(0, 10)).remaining == 0.25
    with pytest.raises(pel.BudgetExceeded):
        part.release(counts(4), epsilon=0.26)
    with pytest.raises(pel.BudgetExceeded):
        session.where(ward=["A", "B"]).release(counts(4), epsilon=0.26)
    again = part.release(counts(), epsilon=0.5)
    assert again.certificate.entry == made[0].certificate.entry and session.spent == 0.75  # a replay
    session.where(ward=["A", "B"], age=(0, 50)).release(counts(4), epsilon=0.25)
    assert session.spent == 1.0 and session.where(ward="C").remaining == 0.25
    assert session.where(ward="A").where(age=(50, None)).remaining == 0.25
    assert session.ledger.verify().ok


@pytest.mark.parametrize("accounting", ["zcdp", "either"])
def test_accounts_with_delta_count_parts_too(accounting):
    session = opened("replace", delta=1e-6, accounting=accounting)
    for ward in "ABC":
        session.where(ward=ward).release(counts(), share=0.6, kind=None if accounting == "zcdp" else "zcdp")
    assert session.ledger.account(session.name).remaining > 0.39 * session.ledger.account(session.name).budget
    with pytest.raises(pel.BudgetExceeded):
        session.release(counts(), share=0.41, kind=None if accounting == "zcdp" else "zcdp")


def lost(session, explainer, before, after, where, epsilon):
    """What a release on a part loses between two tables, by the exact totals and the noise that is planned: its L1 loss."""
    part = session.where(where)
    stage = part.plan(explainer, epsilon=epsilon).stages[0]
    found = []
    for people in (before, after):
        whole = LocalEngine(people, SCHEMA, session.neighbors, session.unit)
        found.append(PartEngine(whole, Where.of(SCHEMA, where)).totals(stage.query))
    return sum(abs(a - b) for a, b in zip(*found)) / float(stage.how.scale)


def test_parts_is_attained():
    """Claim: parts. One record in one part, in two that overlap, and one that is replaced inside a part or moves to another."""
    base = table(20)
    two = [({"ward": "A"}, 0.5), ({"ward": ["A", "B"], "dose": (0, 0.4)}, 0.25)]
    one = pd.DataFrame([{"ward": "A", "age": 3, "dose": 0.1, "seen": "2022-05-01", "known": "no"}])
    session = opened("add-remove")
    for where, epsilon in two:
        session.where(where).release(counts(), epsilon=epsilon)
    loss = sum(lost(session, counts(), base, pd.concat([base, one]), where, epsilon) for where, epsilon in two)
    assert loss == pytest.approx(0.75) and session.spent == pytest.approx(loss)

    session, elsewhere = opened("replace"), one.assign(dose=0.9)
    session.where(ward="A").release(counts(), epsilon=0.5), session.where(ward="B").release(counts(), epsilon=0.5)
    before, after = pd.concat([base, one]), pd.concat([base, elsewhere])
    loss = lost(session, counts(), before, after, {"ward": "A"}, 0.5)
    assert loss == pytest.approx(0.5) and session.spent == pytest.approx(loss)
    moved = [lost(session, counts(), before, pd.concat([base, one.assign(ward="B")]), {"ward": w}, 0.5) for w in "AB"]
    assert moved == pytest.approx([0.25, 0.25])


def forget_to_double(patch):
    patch.setattr(Part, "changes", property(lambda self: 1))


WHERES = (
    {"ward": "A"}, {"ward": ["A", "B"]}, {"ward": "C"}, {"age": (0, 40)}, {"age": (40, None)}, {"dose": (0, 0.3)},
    {"dose": (0.3, 1)}, {"dose": (0.1 + 0.2, 1)}, {"ward": "A", "age": (17, 100)}, {"known": "unknown"},
    {"known": ["no", "yes"], "dose": (0, 1)},
)  # fmt: skip
ROW = st.fixed_dictionaries(
    {
        "ward": st.sampled_from(["A", "B", "C", "X", None]),
        "age": st.sampled_from([-5, 0, 16, 17, 39, 40, 99, 400]),
        "dose": st.sampled_from([0.0, -0.0, 0.3, math.nextafter(0.3, 1), 0.1 + 0.2, 1.0, 2.0, math.nan, math.inf]),
        "seen": st.just("2022-05-01"),
        "known": st.sampled_from(["no", "yes", None]),
    }
)


def worst(session, asked, before, after):
    return sum(lost(session, counts(), before, after, where, epsilon) for where, epsilon in asked)


@settings(max_examples=12)
@given(
    st.sampled_from(["add-remove", "replace"]),
    st.lists(st.tuples(st.sampled_from(WHERES), st.sampled_from([0.25, 0.5])), min_size=1, max_size=4),
    ROW,
    ROW,
)
def test_no_neighbour_loses_more_than_the_account_says(relation, asked, one, other):
    """Over parts that overlap, touch and are disjoint; records at borders, out of range, missing, undeclared."""
    session = opened(relation, epsilon=4.0, rows=12)
    for bins, (where, epsilon) in enumerate(asked):
        session.where(where).release(counts(2 + bins), epsilon=epsilon)
    base, more = table(12), pd.DataFrame([one])
    before = base if relation == "add-remove" else pd.concat([base, pd.DataFrame([other])])
    assert worst(session, asked, before, pd.concat([base, more])) <= session.spent + 1e-9


def test_a_ledger_that_counts_less_is_found_out(monkeypatch):
    """Were the largest single charge counted, instead of the largest sum of one record, a record in two parts would lose more."""

    def too_little(self, limit=None):
        return self.base + max((units for _, units, _ in self.parts), default=0), None

    one = pd.DataFrame([{"ward": "A", "age": 3, "dose": 0.1, "seen": "2022-05-01", "known": "no"}])
    asked = [({"ward": "A"}, 0.5), ({"age": (0, 40)}, 0.5)]
    for honest in (True, False):
        with monkeypatch.context() as patch:
            if not honest:
                patch.setattr(Tally, "spent", too_little)
            session = opened()
            for where, epsilon in asked:
                session.where(where).release(counts(), epsilon=epsilon)
            loss = worst(session, asked, table(20), pd.concat([table(20), one]))
            assert (loss <= session.spent + 1e-9) == honest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"ward": "A"}, {"ward": ["A"]}),
        ({"ward": ["B", "A", "B"]}, {"ward": ("A", "B")}),
        ({"age": (17.5, 39.5)}, {"age": (18, 40)}),
        ({"age": 18}, {"age": (18, 19)}),
        ({"age": range(18, 40)}, {"age": (np.int64(18), 40.0)}),
        ({"dose": (-0.0, 0.5)}, {"dose": (None, 0.5)}),
        ({"dose": (0.5, 1.0)}, {"dose": (0.5, 1e300)}),
        ({"age": (-1e6, 40)}, {"age": (0, 40)}),
        ({"seen": ("2022-01-01", "2023-01-01")}, {"seen": (np.datetime64("2022-01-01"), pd.Timestamp("2023-01-01"))}),
    ],
)  # fmt: skip
def test_a_part_has_one_form_however_it_is_spelt(one, other):
    assert Where.of(SCHEMA, one) == Where.of(SCHEMA, other) and Where.of(SCHEMA, one).scope == Where.of(SCHEMA, other).scope


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ({"dose": (0, 0.3)}, {"dose": (0.3, 1)}, 0.25),
        ({"dose": (0, 0.1 + 0.2)}, {"dose": (0.3, 1)}, 0.5),  # 0.1 + 0.2 is the next number after 0.3
        ({"dose": (0, math.nextafter(0.3, 1))}, {"dose": (0.3, 1)}, 0.5),
        ({"age": (0, 40)}, {"age": (39.5, 99)}, 0.25),  # whole numbers from 40 on
        ({"age": (0, 99)}, {"age": (99, None)}, 0.25),
        ({"dose": (0, 1)}, {"dose": (1, None)}, 0.5),  # the end of the range of real numbers belongs to what ends there
        ({"ward": "A", "age": (0, 50)}, {"ward": "B", "age": (0, 50)}, 0.25),
        ({"ward": "A"}, {"age": (0, 50)}, 0.5),
        ({"known": "unknown"}, {"known": ["no", "yes"]}, 0.25),
    ],
)  # fmt: skip
def test_overlaps_are_found_where_floats_have_them(one, other, together):
    session = opened()
    for where in (one, other):
        session.where(where).release(counts(), epsilon=0.25)
    assert session.spent == together


@pytest.mark.parametrize("values", [[0, 1, "1"], ["1", "1.0"], [True, False, "true"], [2.5, "2.50"]], ids=str)
def test_values_that_a_table_of_texts_cannot_tell_apart_have_no_parts(values):
    """Numbers in Parquet and texts in CSV: the same person would be in "1" here and in 1 there, and pay for one of them."""
    session = pel.Session({"c": [1] * 9}, pel.Schema({"c": pel.Category(values)}), budget=pel.Budget(epsilon=1))
    with pytest.raises(pel.PlanError, match="declare one of them"):
        session.where(c=values[-1])


def members(where, people):
    whole = LocalEngine(people, SCHEMA, "add-remove", pel.Unit())
    return PartEngine(whole, Where.of(SCHEMA, where))._numbers().tolist()


def test_missing_unreadable_and_clipped_cells_have_their_place():
    people = pd.DataFrame(
        {
            "ward": ["A", "X", None, "B"], "age": [-5, 400, 17, 99], "dose": [np.nan, np.inf, 0.3, -1.0],
            "seen": ["1999-01-01", "nothing", "2024-12-31", "2030-01-01"], "known": [None, "yes", "no", "?"],
        }
    )  # fmt: skip
    assert members({"ward": ["A", "B", "C"]}, people) == [0, 3]
    assert members({"age": (0, 17)}, people) == [0] and members({"age": (99, None)}, people) == [1, 3]
    assert members({"dose": (0, 1)}, people) == [1, 2, 3] and members({"dose": (0, 0.1)}, people) == [3]
    assert members({"seen": ("2020-01-01", "2024-12-31")}, people) == [0]
    assert members({"seen": ("2024-12-31", None)}, people) == [2, 3]
    assert members({"known": "unknown"}, people) == [0, 3]


@pytest.mark.parametrize(
    "where",
    [
        {}, {"nothing": 1}, {"ward": "X"}, {"ward": []}, {"ward": None}, {"age": (40, 40)}, {"age": (40, 18)},
        {"age": (100, 120)}, {"age": (None, 0)}, {"age": (math.nan, 3)}, {"age": (0, math.inf)}, {"age": "old"},
        {"age": (1, 2, 3)}, {"age": True}, {"age": 18.5}, {"dose": 0.5}, {"seen": ("soon", None)},
        {"age": range(0, 40, 2)}, {"age": (10**400, None)},
    ],
)  # fmt: skip
def test_what_is_no_part_is_refused_and_nothing_charged(where):
    session = opened(rows=10)
    with pytest.raises(pel.PlanError):
        session.where(where)
    assert session.spent == 0


def test_parts_of_parts_that_nobody_can_be_in_are_refused():
    part = opened(rows=10).where(ward=["A", "B"], age=(0, 40))
    with pytest.raises(pel.PlanError, match="empty"):
        part.where(ward="C")
    with pytest.raises(pel.PlanError, match="empty"):
        part.where(age=(40, 50))


def test_with_an_id_column_parts_add_up():
    session = opened(unit=pel.Unit("id", max_rows=2))
    made = [session.where(ward=ward).release(counts(), epsilon=0.25) for ward in "AB"]
    assert session.spent == 0.5 and not made[0].certificate.part["apart"] and "add up" in str(made[0].certificate)


def test_without_one_several_rows_are_paid_for_by_all_their_changes():
    for relation, changes in (("add-remove", 3), ("replace", 6)):
        session = opened(relation, unit=None)
        session.unit = pel.Unit(max_rows=3)
        part = session.where(ward="A")
        assert part.plan(counts(), epsilon=0.5).public.rows_per_unit == changes
        alone = opened().where(ward="A").plan(counts(), epsilon=Fraction(1, 2 * changes))
        assert float(part.plan(counts(), epsilon=0.5).stages[0].how.scale) == pytest.approx(float(alone.stages[0].how.scale))


def test_the_size_of_a_part_is_secret_under_replace_too():
    part = opened("replace").where(ward="A")
    plan = part.plan(pel.Statistic("age"), epsilon=0.5)
    assert plan.public.rows is None and plan.public.count_needed
    # Two tables of the same public size, whose parts are not: all that is public is the same.
    assert part.expected_rows == opened("replace").where(ward="B").expected_rows == 100


def test_a_part_is_the_table_of_its_records(silent):
    model = pel.Model(lambda d: d["age"] / 99, output=(0, 1), features=["age", "dose"], trained_on="other data")
    data = table(200)
    chosen = data[data.ward.isin(["A", "B"]) & data.age.between(17, 39)]
    budget = pel.Budget(epsilon=100.0)
    whole = pel.Session(data, SCHEMA, budget=budget, neighbors="add-remove", expected_rows=200)
    alone = pel.Session(chosen, SCHEMA, budget=budget, neighbors="add-remove", expected_rows=50)
    part = whole.where(ward=["A", "B"], age=(17, 40), expected_rows=50)
    for explainer in (counts(), pel.Statistic("age"), pel.PartialDependence(model, "dose", points=3)):
        ours, theirs = (s.release(explainer, epsilon=10.0).to_frame() for s in (part, alone))
        pd.testing.assert_frame_equal(ours, theirs)


def age_of(rows, others=None):
    return (rows["age"] if others is None else rows["age"] + others["age"] / 2)[:, None]


@pytest.mark.parametrize("workers", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_engines_read_the_same_part_from_files(tmp_path, workers):
    data = table(3000, seed=3)
    data.to_parquet(tmp_path / "people.parquet", row_group_size=700)
    where = Where.of(SCHEMA, {"ward": "A", "age": (17, None)})
    kinds = {"workers": workers} if workers else {}
    files = (ProcessEngine if workers else LocalEngine)(tmp_path / "people.parquet", SCHEMA, "replace", pel.Unit(), 512, **kinds)
    memory = PartEngine(LocalEngine(data, SCHEMA, "replace", pel.Unit()), where)
    part = PartEngine(files, where)
    total = Sum(age_of, Box(1, -256, 256, count=True), columns=("age",))
    assert part.totals(total) == memory.totals(total)
    # A cyclic order of pairs has everybody once as donor, so a linear map has the same total whatever the order.
    paired = Sum(age_of, Box(1, -256, 256), over=Pairs(), columns=("age",))
    assert part.totals(paired) == memory.totals(paired)


def test_a_part_too_small_to_be_seen_is_said_before_it_is_paid_for():
    session = opened(rows=300)
    tiny = session.where(age=(3, 4))
    assert any("cannot be seen" in note for note in tiny.preview(counts(), epsilon=0.1).notes)
    with pytest.warns(UserWarning, match="cannot be seen"):
        tiny.release(counts(), epsilon=0.1)
    assert not any("cannot be seen" in note for note in session.where(ward="A").preview(counts(), epsilon=0.5).notes)
    assert not any(
        "cannot be seen" in note for note in tiny.where(age=(3, 4), expected_rows=200).preview(counts(), epsilon=0.1).notes
    )


def test_certificates_and_saved_results_say_which_part(tmp_path):
    session = opened("replace")
    made = session.where(ward="A", age=(0, 40)).release(counts(), epsilon=0.5)
    made.save(tmp_path / "one.json")
    loaded = pel.load(tmp_path / "one.json")
    assert loaded.certificate == made.certificate and loaded.certificate.relation == "replace"
    assert "age below 40 and ward is A" in str(loaded.certificate) and "parts" in loaded.certificate.charges[0]["claims"]
    assert "part" not in session.release(counts(4), epsilon=0.25).certificate.to_dict()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_two_processes_that_release_parts_at_once_pay_for_one(tmp_path):
    path, budget = tmp_path / "study.db", pel.Budget(epsilon=0.5)
    data = table(50)
    given = {"budget": budget, "neighbors": "add-remove", "expected_rows": 50, "name": "t", "ledger": path}
    pel.Session(data, SCHEMA, create=True, **given)
    children = []
    for turn in range(2):
        child = os.fork()
        if not child:
            status = 1
            try:
                session = pel.Session(data, SCHEMA, **given)
                for ward in "ABC"[:: 1 if turn else -1]:
                    session.where(ward=ward, expected_rows=50).release(counts(2 + turn), epsilon=0.25)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    with Ledger(path) as ledger:
        assert ledger.account("t").remaining == 0 and ledger.verify().ok
        assert sum(entry.kind == "reserve" for entry in ledger.history()) == 6


def test_one_account_per_record_is_for_the_whole_table():
    model = pel.Model(lambda d: d["age"] / 99, output=(0, 1), features=["age", "dose"], trained_on="other data")
    session = opened(delta=1e-6, accounting="zcdp")
    with pytest.raises(pel.PlanError, match="whole table"):
        session.where(ward="A").open(pel.LocalLinear(model, accounting="individual"), share=0.5)
    assert session.spent == 0
