"""The judge of the fuzzing suite: a request is refused before anything is charged, or answered for exactly its price.

Whatever else is raised, charged, shown or lost fails.
"""

import collections
import inspect
import json
import math
import os
import tempfile
import time
import traceback
import warnings
from contextlib import contextmanager

import matplotlib
import numpy as np
import pandas as pd
from hypothesis import HealthCheck, Phase, settings
from strategies import SECRET, made

import pellucid as pel
from pellucid.ledger import from_units

matplotlib.use("Agg")

BATCH = 8
"""New cases of one run. Hypothesis starts to vary the cases it has seen after ten, and new ones are worth more."""
PROFILE = settings(
    max_examples=BATCH + 1,
    deadline=None,
    derandomize=False,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
"""One more than new ones: every run begins with the simplest case. What is found is not made smaller: that takes an hour."""
STATES = ("paid", "free", "refused")
TRIED_APART = {"content", "from_content", "to_json", "save", "certified", "certificate", "plot"}
"""Members of a result that are tried on their own, or that nobody calls."""


class Tally:
    """What became of cases, by explainer, and how long they took."""

    def __init__(self):
        self.counts = collections.defaultdict(collections.Counter)
        self.reasons = collections.Counter()
        self.slowest = []

    def note(self, kind, state, error=None):
        self.counts[kind][state] += 1
        if error is not None:
            self.reasons[f"{kind}: {str(error)[:80]}"] += 1

    @contextmanager
    def timed(self, case):
        start = time.perf_counter()
        yield
        self.slowest = sorted([*self.slowest, (time.perf_counter() - start, case)], key=lambda pair: -pair[0])[:5]

    @property
    def whole(self):
        return sum(self.counts.values(), collections.Counter())

    def __str__(self):
        lines = [f"{'':24}" + "".join(f"{state:>10}" for state in STATES)]
        for kind, counts in [*sorted(self.counts.items()), ("all", self.whole)]:
            lines.append(f"{kind:24}" + "".join(f"{counts[state]:10,}" for state in STATES))
        return "\n".join(lines)


def attempt(case, tally):
    """Try one request from end to end, then once more in a session that is opened again."""
    with tempfile.TemporaryDirectory() as folder, tally.timed(case):
        data = case.table.made_in(folder)
        ledger = os.path.join(folder, "ledger.db") if case.durable else None
        asked_once, asked_again = (stream, stream_again) if case.kind == "stream" else (release, release_again)

        def opened(create=False):
            options = {name: made(value) for name, value in case.session.items()}
            return pel.Session(data, made(case.schema), ledger=ledger, create=create, **options)

        try:
            explainer, session = made(case.explainer), opened(create=True)
        except pel.PellucidError as error:
            return tally.note(case.kind, "refused", told(error))
        with session.ledger:
            found = asked_once(case, explainer, session, tally)
            assert session.ledger.verify().ok
            if found is not None:
                asked_again(case, explainer, session, found)
        if found is not None and case.durable:
            session = opened()
            with session.ledger:
                asked_again(case, explainer, session, found)
        for name in (name for name in os.listdir(folder) if name.startswith("ledger")):
            with open(os.path.join(folder, name), "rb") as file:
                assert SECRET.encode() not in file.read()


def release(case, explainer, session, tally):
    """Plan, preview and release; what was released, or None where it was refused."""
    asked = {**case.cost, **case.asked}
    try:
        plan, told_price = session.plan(explainer, **case.cost), session.charge_for(explainer, **case.cost)
    except pel.PellucidError as error:
        tally.note(case.kind, "refused", told(error))
        with refused_for_free(session):
            session.release(explainer, **asked)
        return None
    price = plan.public.spend.amount
    assert str(plan) and float(told_price) == float(price)
    # Where the number of records is secret a preview needs a guess.
    if session.neighbors == "replace" or session.expected_rows is not None:
        preview = session.preview(explainer, **case.cost)
        assert str(preview) and json.dumps(preview.to_dict()) and not math.isnan(preview.largest_error)
    try:
        with unwarned():
            result = session.release(explainer, **asked)
    except pel.PellucidError as error:
        assert not isinstance(error, pel.ReleaseFailed) and not spent(session)
        assert not isinstance(error, pel.BudgetExceeded) or price > float(session.whole)
        tally.note(case.kind, "refused", told(error))
        return None
    assert paid(session, plan.public.spend.currency) == price
    check(result)
    tally.note(case.kind, "paid")
    return result


def release_again(case, explainer, session, result):
    """An identical request is free, and the same."""
    price = spent(session)
    assert session.release(explainer, **case.cost, **case.asked).to_json() == result.to_json()
    assert not session.charge_for(explainer, **case.cost) and spent(session) == price
    assert session.ledger.contains(result.certificate.entry)


def stream(case, explainer, session, tally):
    """Open a stream and ask one question after another; how many were answered from data, or None where it was refused."""
    try:
        local = session.open(explainer, **case.cost, **case.asked)
    except pel.PellucidError as error:
        assert not spent(session)
        tally.note(case.kind, "refused", told(error))
        return None
    with local:
        for record in case.questions:
            before = spent(session)
            try:
                with unwarned():
                    answer = local.explain(record)
            except pel.PellucidError as error:
                assert not isinstance(error, pel.ReleaseFailed) and spent(session) == before
                tally.note(case.kind, "refused", told(error))
                continue
            told_price = answer.certificate.epsilon if answer.certificate.rho is None else answer.certificate.rho
            assert explainer.accounting == "individual" or float(spent(session) - before) == told_price
            check(answer)
            tally.note(case.kind, "paid" if answer.certificate.charges else "free")
        assert repr(local) and float(local.spent) == float(spent(session))
        return local.answered


def stream_again(case, explainer, session, answered):
    """A stream that is opened again goes on where it was."""
    before = spent(session)
    with session.open(explainer, **case.cost, **case.asked) as local:
        assert local.answered == answered and spent(session) == before


def spent(session):
    return from_units(session.ledger.account(session.name).spent)


def paid(session, currency):
    """What was charged in this currency: accounts that count either way keep the ε of pure releases beside ρ."""
    account = session.ledger.account(session.name)
    return from_units(account.pure_spent if currency == "epsilon" and account.pure_budget is not None else account.spent)


def told(error):
    """An error says something, and nothing about a cell."""
    assert str(error).strip() and SECRET not in "".join(traceback.format_exception(error))
    return error


@contextmanager
def refused_for_free(session):
    try:
        yield
    except pel.PellucidError as error:
        told(error)
    else:
        raise AssertionError("a release was made of what its preview refuses")
    assert not spent(session)


@contextmanager
def unwarned():
    """A warning about cells would be seen."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def check(result):
    """A result can be saved, loaded, read, tabulated and drawn, and says nothing about single cells."""
    text = result.to_json()
    assert SECRET not in text
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result.json")
        result.save(path)
        loaded = pel.load(path)
    assert loaded.to_json() == text and type(loaded) is type(result)
    pd.testing.assert_frame_equal(result.to_frame(), loaded.to_frame())
    for ours, theirs in zip(result.interval(0.9), loaded.interval(0.9)):
        np.testing.assert_array_equal(ours, theirs)
    exercise(loaded)
    exercise(loaded.certificate)
    assert result._repr_html_() and repr(result) and str(result.certificate)
    with warnings.catch_warnings():
        # Fonts lack characters.
        warnings.simplefilter("ignore")
        axes = loaded.plot()
        for figure in {ax.figure for ax in np.atleast_1d(axes).ravel()}:
            figure.canvas.draw()
    matplotlib.pyplot.close("all")


def exercise(thing):
    """Read every property, and call whatever needs no argument."""
    for name, member in inspect.getmembers(type(thing)):
        if name.startswith("_") or name in TRIED_APART:
            continue
        try:
            value = getattr(thing, name)
            if inspect.isfunction(member) and all(p.default is not p.empty for p in inspect.signature(value).parameters.values()):
                value()
        except pel.PellucidError as error:
            # A waterfall of values that do not add up, a heat map of something that is no picture.
            told(error)
