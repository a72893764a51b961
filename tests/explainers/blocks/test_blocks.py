"""Any plot and any ranking: answers of blocks against hand-made ones, functions that misbehave, and an audit of the blocks."""

import importlib
import json
import math
import pickle
import sys
import time
from fractions import Fraction

import cloudpickle
import numpy as np
import pandas as pd
import pytest
from checks import noise
from sources import Chosen, Silent

import pellucid as pel
from pellucid.engine import LocalEngine, trial
from pellucid.engine.sandbox import Outcomes
from pellucid.explainers.blocks.functions import SMALLEST_BLOCK, OnGrid, OnItems, blocks_for_plot, blocks_for_votes
from pellucid.mechanisms import labels as secret
from pellucid.query import Blocks, Sum
from pellucid.query.bound import UNITS
from pellucid.query.bounds import Box
from pellucid.query.functions import BlockFunction, Limits, digest_of

# Functions of this file are sent whole: otherwise every worker would import the tests, and with them the package.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = pel.Schema({"age": pel.Number(0, 99, integer=True), "pay": pel.Number(0, 10), "sex": pel.Category(["F", "M"])})
ONE = Limits(workers=1)


def table(rows=600, seed=11):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"age": rng.integers(0, 100, rows), "pay": rng.random(rows) * 10, "sex": rng.choice(["F", "M"], rows)})


def session(data, relation="replace", epsilon=10.0, **options):
    return pel.Session(data, SCHEMA, budget=pel.Budget(epsilon=epsilon), neighbors=relation, **options)


def quartiles(rows):
    return rows["pay"].quantile([0.25, 0.5, 0.75])


def pay_by_sex(rows):
    return rows.groupby("sex")["pay"].mean()


def test_without_noise_a_plot_is_the_mean_over_blocks(silent, monkeypatch):
    data, count = table(), 7
    labels = np.random.default_rng(5).permutation(len(data)).astype(np.uint64)
    monkeypatch.setattr(secret, "fresh", lambda: Chosen(labels))
    explainer = pel.PrivatePlot(quartiles, x=[0.25, 0.5, 0.75], output=(0, 10), blocks=count, limits=ONE)
    by_rank = np.argsort(labels)
    cut = [data.iloc[by_rank[np.arange(len(data)) * count // len(data) == b]] for b in range(count)]
    drawn = [data[labels % count == b] for b in range(count)]
    for relation, blocks in (("replace", cut), ("add-remove", drawn)):
        found = session(data, relation).release(explainer, share=1)
        np.testing.assert_allclose(found.y, np.mean([quartiles(b) for b in blocks], axis=0), atol=1e-7)
        assert found.x == (0.25, 0.5, 0.75) and found.count == count


def test_without_noise_a_ranking_counts_votes(silent):
    data = table()
    explainer = pel.PrivateRanking(lambda rows: ["pay", "age"] if len(rows) else [], ["age", "pay", "sex"], blocks=5, limits=ONE)
    found = session(data).release(explainer, share=1)
    assert found.ranking == ("pay", "age", "sex") and found.votes.tolist() == [1.0, 2.0, 0.0]
    assert found.tiers() == [("pay",), ("age",), ("sex",)] or len(found.tiers()) < 3


def test_a_plot_over_a_column_uses_its_public_grid():
    found = session(table()).release(pel.PrivatePlot(pay_by_sex, "sex", output=(0, 10), blocks=20, limits=ONE), epsilon=10.0)
    assert found.x == ("F", "M") and found.categorical and found.feature == "sex"
    assert np.abs(found.y - 5).max() < 2


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([1.0, 2.0, 3.0], [1, 2, 3]),
        (([0.0, 4.0], [0.0, 4.0]), [1, 2, 3]),
        ({0.0: 0.0, 4.0: 4.0}, [1, 2, 3]),
        (pd.Series([0.0, 4.0], index=[0, 4]), [1, 2, 3]),
        (([2.0, 2.0, 0.0, 4.0], [1.0, 3.0, 0.0, 4.0]), [1, 2, 3]),
        ([math.nan, 2.0, 4.0], [3, 2, 4]),
        (([5.0], [7.0]), [7, 7, 7]),
        (([math.nan, 1.0], [9.0, 7.0]), [7, 7, 7]),
    ],
)
def test_answers_become_heights(answer, expected):
    np.testing.assert_allclose(OnGrid((1.0, 2.0, 3.0), False)(answer), expected)


def test_answers_by_category():
    fill = OnGrid(("F", "M", "X"), True)
    np.testing.assert_allclose(fill({"M": 4.0, "F": 2.0}), [2, 4, 3])
    np.testing.assert_allclose(fill((np.array(["X", "M", "F"]), [1.0, 2.0, 3.0])), [3, 2, 1])
    np.testing.assert_allclose(OnGrid((False, True), True)((np.array([True, False]), [1.0, 0.0])), [0, 1])


@pytest.mark.parametrize("answer", [[1.0], "text", None, ([1, 2], [3]), [math.nan] * 3, {"a": 1}, object()])
def test_nonsense_is_refused_inside_the_block(answer):
    with pytest.raises(Exception):  # noqa: B017
        OnGrid((1.0, 2.0, 3.0), False)(answer)


def test_answers_become_scores():
    rank = OnItems(("a", "b", "c"))
    assert rank(["b", "a"]).tolist() == [1, 2, 0] and rank({"c": 3, "a": 1, "b": 2}).tolist() == [1, 2, 3]
    assert rank(pd.Series([3.0, 1.0, 2.0], ["b", "a", "c"])).tolist() == [1, 3, 2] and rank(np.array([1, 2, 3])).tolist() == [
        1,
        2,
        3,
    ]
    for nonsense in (["a", "a"], ["z"], {"a": 1}, [1, 2], [1, 2, math.nan], None, 5):
        with pytest.raises((ValueError, TypeError)):
            rank(nonsense)


@pytest.mark.parametrize("rule", [lambda rows, items, epsilon: blocks_for_plot(rows, epsilon), blocks_for_votes])
def test_blocks_follow_from_public_numbers(rule):
    assert rule(30_000, 20, 0.5) > rule(30_000, 20, 5) > 10 and rule(10, 20, 1) == 1
    assert rule(30_000, 20, 0.01) == rule(30_000, 20, 1e-9) == 30_000 // SMALLEST_BLOCK
    assert rule(10**7, 20, 1) >= rule(10**4, 20, 1) and rule(10**6, 2, 1000.0) >= 10


class Hostile:
    """Raises, prints, mutates, eats memory, dies or returns nonsense, depending on who is in the block."""

    def __call__(self, rows):
        import os
        import sys
        import warnings

        secret = f"SECRET-{rows['pay'].iloc[0]!r}"
        print(secret)
        print(secret, file=sys.stderr)
        os.write(1, secret.encode())
        os.write(2, secret.encode())
        warnings.warn(secret, stacklevel=1)
        kind = int(rows["age"].iloc[0]) % 7
        mean = rows["pay"].mean()
        rows.loc[:, "pay"] = -1.0
        if kind == 0:
            raise ValueError(secret)
        if kind == 1:
            os._exit(3)
        if kind == 2:
            return np.ones(10**8).repeat(100)
        if kind == 3:
            return secret
        if kind == 4:
            raise KeyboardInterrupt(secret)
        return [mean]


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_a_function_that_misbehaves_neither_breaks_nor_leaks(relation, tmp_path, capfd):
    data = table(1200)
    before = data.copy()
    account = session(data, relation, name="ward", ledger=tmp_path / "ledger.db", create=True)
    explainer = pel.PrivatePlot(Hostile(), x=[0], output=(0, 10), blocks=40, limits=Limits(workers=2, memory=200 * 2**20))
    found = account.release(explainer, epsilon=5.0)
    pd.testing.assert_frame_equal(data, before)
    assert found.y.shape == (1,) and np.isfinite(found.y).all()
    report = account.owner_report()
    assert report.blocks == 40 and 0 < report.answered < 40
    written = capfd.readouterr()
    assert written.out == written.err == ""
    shown = [found.to_json(), repr(found), found.certificate.text, str(account.history()), pickle.dumps(found).decode("latin1")]
    shown += [(tmp_path / "ledger.db").read_bytes().decode("latin1")]
    for text in shown:
        assert "SECRET" not in text and "Outcomes" not in text and "answered" not in text
    assert json.loads(found.to_json())["content"]["count"] == 40


def test_a_failing_block_counts_as_the_default(silent):
    data = pd.DataFrame({"age": [1, 0] * 50, "pay": [8.0] * 100, "sex": ["F"] * 100})

    def fails_for_the_old(rows):
        return [rows["pay"].mean()] if (rows["age"] < 99).all() else 1 / 0

    data.loc[0, "age"] = 99
    for default, expected in ((None, (8 * 9 + 5) / 10), (2.0, (8 * 9 + 2) / 10), ((3.0,), (8 * 9 + 3) / 10)):
        account = session(data)
        found = account.release(
            pel.PrivatePlot(fails_for_the_old, [0], output=(0, 10), blocks=10, default=default, limits=ONE), share=1
        )
        assert found.y[0] == pytest.approx(expected) and account.owner_report() == Outcomes(10, 9, 1, 0, 0)

    def votes(rows):
        return ["pay", "age"] if (rows["age"] < 99).all() else 1 / 0

    account = session(data)
    found = account.release(pel.PrivateRanking(votes, ["age", "pay"], blocks=10, limits=ONE), share=1)
    assert found.votes.tolist() == pytest.approx([0.05, 0.95])


def test_slow_blocks_run_side_by_side():
    """200 blocks of a second each: sleeping costs no core, so many run at a time."""

    def slow(rows):
        time.sleep(1)
        return [rows["pay"].mean()]

    explainer = pel.PrivatePlot(slow, x=[0], output=(0, 10), blocks=200, limits=Limits(workers=50))
    account = session(table(2000))
    started = time.monotonic()
    found = account.release(explainer, epsilon=10.0)
    assert abs(found.y[0] - 5) < 1 and account.owner_report() == Outcomes(200, 200, 0, 0, 0)
    assert time.monotonic() - started < 100


def test_a_block_that_never_ends_counts_as_the_default(silent):
    def never(rows):
        while (rows["age"] == 99).any():
            pass
        return [10.0]

    data = table(100).assign(age=0)
    data.loc[3, "age"] = 99
    account = session(data)
    found = account.release(pel.PrivatePlot(never, [0], output=(0, 10), blocks=4, limits=Limits(seconds=1, workers=2)), share=1)
    assert found.y[0] == pytest.approx((30 + 5) / 4) and account.owner_report().slow == 1


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda rows: 1 / 0, "ZeroDivisionError"),
        (lambda rows: [1.0, 2.0], "2 heights .* 1 places"),
        (lambda rows: rows["weight"], "weight"),
    ],
)
def test_a_function_that_fails_on_public_records_is_refused_before_payment(function, match):
    account = session(table())
    with pytest.raises(pel.ModelError, match=match):
        account.release(pel.PrivatePlot(function, [0], output=(0, 10), limits=ONE), epsilon=1.0)
    assert float(account.spent) == 0


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"function": 5}, "cannot be called"),
        ({"x": []}, "1 to 1000"),
        ({"x": [1, 1]}, "different"),
        ({"x": [2, 1]}, "sort"),
        ({"x": "weight"}, "column of the schema"),
        ({"output": 5}, "declare the range"),
        ({"output": (1, 0)}, "lower end"),
        ({"blocks": 0}, "blocks"),
        ({"default": 11}, "inside"),
        ({"default": (1.0, 2.0)}, "heights for"),
        ({"uses": [quartiles]}, "pel.Derived"),
        ({"x": None}, "list the places"),
        ({"x": [[1, 2]]}, "list the places"),
        ({"x": [1 + 2j]}, "neither numbers nor text"),
        ({"x": [10**400]}, "neither numbers nor text"),
        ({"default": "x"}, "inside"),
        ({"limits": None}, "pel.Limits"),
        ({"label": object()}, "give text"),
        ({"output": (-1e308, 1e308)}, "change its unit"),
    ],
)
def test_bad_plots_are_refused(change, match):
    account = session(table())
    with pytest.raises(pel.PlanError, match=match):
        request = {"function": lambda rows: [0.0], "x": [0], "output": (0, 10), "limits": ONE, **change}
        account.release(pel.PrivatePlot(**request), epsilon=1.0)
    assert float(account.spent) == 0


@pytest.mark.parametrize(
    ("items", "match"), [("ab", "list of text"), (["a"], "2 to 1000"), (["a", "a"], "different"), ([1, 2], "text"), (5, "text")]
)
def test_bad_items_are_refused(items, match):
    with pytest.raises(pel.PlanError, match=match):
        pel.PrivateRanking(quartiles, items)


def test_models_a_function_uses_are_on_the_certificate():
    model = pel.Model(lambda d: d["pay"] / 10, output=(0, 1), features=["pay"], trained_on="this data", name="payer")
    explainer = pel.PrivatePlot(quartiles, [0.25, 0.5, 0.75], output=(0, 10), blocks=3, uses=[model], limits=ONE)
    certificate = session(table()).release(explainer, epsilon=1.0).certificate
    assert certificate.status == "conditional" and "payer" in certificate.text
    plain = pel.PrivatePlot(quartiles, [0.25, 0.5, 0.75], output=(0, 10), blocks=3, limits=ONE, uses="nothing")
    certificate = session(table()).release(plain, epsilon=1.0).certificate
    assert certificate.status == "proved for isolated functions" and "public" in " ".join(certificate.assumptions)


def test_a_request_is_replayed_and_another_function_is_not():
    account, made = session(table()), []
    for power in (1, 1, 2):

        def curve(rows, power=power):
            return [rows["pay"].mean() ** power / 10]

        made.append(account.release(pel.PrivatePlot(curve, [0], output=(0, 10), blocks=3, limits=ONE), epsilon=1.0))
    assert made[0].y[0] == made[1].y[0] != made[2].y[0]


def test_a_replay_follows_what_a_function_does_and_not_its_name(tmp_path, monkeypatch):
    """A module that was edited, and an object that was changed, are other functions under the same name."""
    monkeypatch.syspath_prepend(tmp_path)
    source = tmp_path / "somebodys_module.py"
    source.write_text("def curve(rows):\n    return [1.0]\n")
    module = importlib.import_module("somebodys_module")
    digests = [digest_of(module.curve)]
    source.write_text("def curve(rows):\n    return [2.0 + 0]\n")
    importlib.reload(module)
    digests.append(digest_of(module.curve))
    quantiles = Held(1.0)
    explainer = pel.PrivatePlot(quantiles, [0], output=(0, 10), blocks=2, limits=ONE)
    digests.append(explainer.describe()["sha256"])
    quantiles.height = 2.0
    digests.append(explainer.describe()["sha256"])
    assert len(set(digests)) == 4 and digest_of(quartiles) == digest_of(quartiles)


class Held:
    def __init__(self, height):
        self.height = height

    def __call__(self, rows):
        return [self.height]


def test_numbers_of_numpy_are_numbers():
    made = pel.PrivatePlot(quartiles, np.array([0.25, 0.5, 0.75]), output=(0, 10), blocks=np.int64(3), limits=ONE)
    assert json.dumps(made.describe()) and made.blocks == 3
    assert session(table()).release(made, epsilon=1.0).x == (0.25, 0.5, 0.75)
    assert pel.PrivateRanking(quartiles, (name for name in ("a", "b"))).items == ("a", "b")


def test_a_column_called_like_ours_keeps_its_places():
    made = pel.PrivatePlot(quartiles, [0.25, 0.5, 0.75], output=(0, 10), blocks=3, limits=ONE, label="y")
    frame = session(table()).release(made, epsilon=1.0).to_frame()
    assert list(frame) == ["feature", "x", "value", "lower", "upper"] and set(frame["feature"]) == {"y"}


class TooMany:
    def over(self, blocks, total, note):
        for _ in blocks:
            yield from [[1.0]] * 100

    def __call__(self, rows):
        return [1.0]


def test_a_map_of_blocks_is_asked_block_by_block():
    """Only our own function of blocks may see them all at once; and it has to answer once for each."""
    asked = Sum(TooMany(), Box(1, 0, 1), over=Blocks(3), columns=("age", "pay", "sex"))
    assert LocalEngine(table(30), SCHEMA, "replace", pel.Unit()).totals(asked) == [3 * UNITS]


def test_a_function_of_blocks_does_not_run_where_the_records_are():
    asked = BlockFunction(quartiles, OnGrid((0.25, 0.5, 0.75), False), (5.0,) * 3, ONE)
    with pytest.raises(AssertionError, match="processes of its own"):
        asked(table())


def test_a_function_is_tried_once_for_all_prices(monkeypatch):
    """Planning sees the function and does not run it; a search for a price plans dozens of times."""
    tried = []
    monkeypatch.setattr(trial, "try_function", lambda *given: tried.append(given))
    account, explainer = session(table()), pel.PrivatePlot(quartiles, [0.25, 0.5, 0.75], output=(0, 10), limits=ONE)
    explainer.plan(_public())
    assert tried == []
    account.cost_for(explainer, 2.0)
    account.preview(explainer, epsilon=1.0)
    account.preview(pel.PrivatePlot(quartiles, [0.25, 0.5, 0.75], output=(0, 5), limits=ONE, label="pay"), epsilon=1.0)
    assert len(tried) == 1 and tried[0][1:3] == (SCHEMA, ("age", "pay", "sex"))
    account.preview(pel.PrivatePlot(quartiles, [0.25, 0.75], output=(0, 10), limits=ONE), epsilon=1.0)
    assert len(tried) == 2, "another answer is wanted of it"


def special_or_large(rows, size):
    """1 for a block that holds the special record, or more records than the others."""
    return [float((rows["pay"] == 10.0).any() or len(rows) > size)]


def attained(before, after, epsilon):
    """The largest log-ratio of Laplace-noised totals, over where most of the answers are."""
    answers = np.linspace(min(before.min(), after.min()) - 3, max(before.max(), after.max()) + 3, 200)
    density = [np.exp(-np.abs(answers[:, None] - t[None, :]) * epsilon).mean(axis=1) for t in (before, after)]
    usual = (density[0] > 0.02 * density[0].max()) | (density[1] > 0.02 * density[1].max())
    return np.abs(np.log(density[1] / density[0]))[usual].max()


def test_blocks_under_add_remove_pass_an_audit_that_a_balanced_shuffle_fails():
    """Claim: blocks. One more record makes one block larger and sits, almost surely, in another one of a balanced shuffle."""
    count, size, runs = 200, 3, 60
    data = {"age": np.zeros(count * size, dtype=int), "pay": np.zeros(count * size), "sex": ["F"] * (count * size)}
    more = {"age": np.zeros(count * size + 1, dtype=int), "pay": np.r_[data["pay"], 10.0], "sex": ["F"] * (count * size + 1)}
    asked = Sum(lambda rows: special_or_large(rows, size), Box(1, 0, 1), over=Blocks(count), columns=("age", "pay", "sex"))
    found = {}
    for relation in ("replace", "add-remove"):
        totals = ([], [])
        engines = [LocalEngine(rows, SCHEMA, relation, pel.Unit()) for rows in (data, more)]
        for seed in range(runs):
            # The same labels for whoever is in both tables: each run keeps its law, and sampling does not blur the ratio.
            labels = np.random.default_rng(seed).integers(0, 2**60, count * size + 1).astype(np.uint64)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(secret, "fresh", lambda labels=labels: Chosen(labels))
                for engine, kept in zip(engines, totals):
                    kept.append(engine.totals(asked)[0] / UNITS / 2)
        found[relation] = attained(*map(np.array, totals), epsilon=1.0)
    assert found["replace"] > 1.9, "the counterexample must show that the balanced shuffle is wrong here"
    assert found["add-remove"] <= 1 + 1e-9


def test_shares_are_fractions_and_previews_touch_no_data():
    explainer = pel.PrivatePlot(quartiles, [0.25, 0.5, 0.75], output=(0, 10), limits=ONE)
    account = session(table())
    assert account.preview(explainer, epsilon=1.0).largest_error > account.preview(explainer, epsilon=4.0).largest_error
    assert float(account.spent) == 0 and "blocks of about" in str(account.preview(explainer, epsilon=1.0))
    assert explainer.plan(_public()).shares == {"mean": Fraction(1)}


def _public():
    from pellucid.mechanisms import Spend
    from pellucid.release.plan import Public

    return Public(SCHEMA, "replace", pel.Unit(), Spend("epsilon", Fraction(1)), 600)


def test_test_noise_does_not_reach_a_certificate():
    with noise(Silent()):
        made = session(table()).release(
            pel.PrivatePlot(quartiles, [0.25, 0.5, 0.75], output=(0, 10), blocks=2, limits=ONE), share=1
        )
    assert made.certificate.status == "not private"
