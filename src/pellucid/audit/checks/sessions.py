"""What sessions store, show and refuse."""

from __future__ import annotations

import contextlib
import itertools
import math
import secrets
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ...errors import PellucidError
from ...explainers import Distribution, Statistic
from ...ledger.accounting import Budget
from ...mechanisms import exact
from ...public.schema import Unit
from ...release.session import Session
from .finding import SCHEMA, Finding, explainers, small_table


def one_unit_left() -> Finding:
    """Fifty threads ask at once for the last of a budget that one of them can pay: by one session, and by a session each."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, many in (("shared", 1), ("own", 50)):
            path = Path(folder, f"{name}.db")
            sessions = [Session(small_table(), SCHEMA, Budget(2.0), name="audit", ledger=path, create=True) for _ in range(many)]
            sessions[0].release(Statistic("age"), epsilon=1.0)
            with ThreadPoolExecutor(50) as pool:
                paid = sum(pool.map(_asks_for_the_last, [sessions[i % many] for i in range(50)]))
            found.append((paid, float(sessions[0].spent)))
            for session in sessions:
                session.ledger.close()
    text = "; ".join(f"{paid} of 50 were paid for, spent {spent:g} of 2" for paid, spent in found)
    return Finding("fifty threads and one unit left", all(one == (1, 2.0) for one in found), text)


def _asks_for_the_last(session: Session) -> bool:
    try:
        session.release(Distribution("sex"), epsilon=1.0, fresh=True)
    except PellucidError:
        return False
    return True


def meant_budgets() -> Finding:
    """What an account counts is worth the ε and δ that its owner was told: a Gaussian release of all of it has no more."""
    wrong = []
    for epsilon, delta in itertools.product((0.1, 0.5, 1.0, 3.0, 10.0), (1e-9, 1e-6, 1e-3, 0.05)):
        for counts in ("zcdp", "either"):
            budget = Budget(epsilon=epsilon, delta=delta, accounting=counts)
            if delta_of_gaussian(epsilon, float(budget.amount)) > delta:
                wrong.append(f"ε = {epsilon:g} at δ = {delta:g}, {counts}")
        if Budget(epsilon=epsilon).amount > exact("epsilon", epsilon):
            wrong.append(f"ε = {epsilon:g}")
    return Finding("budgets mean what they say", not wrong, f"counted too generously: {', '.join(wrong) or 'none'}")


def delta_of_gaussian(epsilon: float, rho: float) -> float:
    """The exact δ of Gaussian noise with this ρ (Balle and Wang, 2018).

    >>> round(delta_of_gaussian(1.5685, 0.5), 4)
    0.05
    """
    from scipy.special import log_ndtr, ndtr

    shift = math.sqrt(2 * rho)
    return float(ndtr(shift / 2 - epsilon / shift) - math.exp(epsilon + log_ndtr(-shift / 2 - epsilon / shift)))


def secret_number() -> Finding:
    """Where even the number of people is a secret, nothing that is settled in advance follows it: plans, noise and previews."""
    wrong = []
    for explainer in explainers():
        settled = set()
        for rows in (40, 61):
            session = Session(small_table(rows), SCHEMA, Budget(9.0), neighbors="add-remove", expected_rows=50)
            plan = session.plan(explainer, epsilon=1.0)
            stages = [(stage.name, stage.share, stage.how) for stage in plan.stages]
            settled.add(repr((stages, plan.public.rows, session.preview(explainer, epsilon=1.0))))
        if len(settled) > 1:
            wrong.append(type(explainer).__name__)
    text = f"the exact number of people has a part in {', '.join(wrong) or 'nothing'}"
    return Finding("the number of people is told with noise alone", not wrong, text)


def fixed_shape() -> Finding:
    """What is released has the same shape whatever the cells say: a new category, no category, numbers beyond every range."""
    usual = small_table()
    strange = {**usual, "sex": [f"new {i}" for i in range(40)], "age": [float("nan")] * 20 + [1e300] * 20}
    empty = {"age": [None] * 40, "dose": [None] * 40, "sex": [None] * 40, "outcome": [None] * 40}
    different = []
    for explainer in explainers():
        shapes = set()
        for table in (usual, strange, empty):
            made = Session(table, SCHEMA, Budget(1.0)).release(explainer, epsilon=1.0)
            shapes.add(tuple(sorted((name, _shape(value)) for name, value in made.content().items())))
        if len(shapes) > 1:
            different.append(type(explainer).__name__)
    return Finding(
        "shapes do not follow the data", not different, f"another shape from other cells: {', '.join(different) or 'none'}"
    )


def _shape(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return len(value), *sorted({_shape(one) for one in value}, key=repr)
    return tuple(sorted(map(str, value))) if isinstance(value, dict) else None


def no_canaries() -> Finding:
    """Cells and ids that nobody else could have written turn up in no result, certificate, preview, error or ledger."""
    word, number, who = f"canary-{secrets.token_hex(8)}", 45.0 + secrets.randbelow(10**9) * 1e-9, f"person-{secrets.token_hex(8)}"
    table = small_table()
    table["sex"][0], table["age"][0] = word, number
    ids = [who, *(f"p{i}" for i in range(39))]
    # A number may be written with fewer digits, or as a part of a range that somebody already knows.
    canaries = word, repr(number)[:11], who
    found: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "audit.db")
        session = Session({**table, "id": ids}, SCHEMA, Budget(50.0), unit=Unit("id"), name="audit", ledger=path, create=True)
        for explainer in explainers():
            made = session.release(explainer, epsilon=1.0)
            texts = [made.to_json(), repr(made), str(made.certificate), made.to_frame().to_csv()]
            texts.append(repr(session.preview(explainer, epsilon=1.0)))
            found += [type(explainer).__name__ for text in texts for canary in canaries if canary in text]
        texts = [repr(session), repr(session.history()), _refusal(session)]
        found += ["what a session says" for text in texts for canary in canaries if canary in text]
        session.ledger.close()
        for file in Path(folder).iterdir():
            held = file.read_bytes().decode("latin-1")
            found += [file.name for canary in canaries if canary in held]
    return Finding("no cell and no id in what is stored", not found, f"found in {', '.join(sorted(set(found))) or 'nothing'}")


def _refusal(session: Session) -> str:
    try:
        session.release(Distribution("sex"), epsilon=1000.0)
    except PellucidError as error:
        return str(error)
    return ""


def quiet_refusal() -> Finding:
    """A refusal takes as long beside many odd rows as beside few: it reads none."""
    read: list[int] = []
    sessions = [
        Session(table, SCHEMA, Budget(1.0)) for table in (small_table(40), {**small_table(20_000), "sex": ["?"] * 20_000})
    ]
    for session in sessions:
        session._engine.totals = _counting(session._engine.totals, read)  # type: ignore[method-assign, assignment]
    # In turns, and the shortest of each: the machine may be busy with other things.
    times = [math.inf, math.inf]
    for turn in range(40):
        start = time.perf_counter()
        with contextlib.suppress(PellucidError):
            sessions[turn % 2].release(Distribution("sex"), epsilon=2.0)
        times[turn % 2] = min(times[turn % 2], time.perf_counter() - start)
    ratio = times[1] / times[0]
    text = f"{len(read)} passes over rows for refusals; 20,000 odd rows take {ratio:.2f} times as long as 40"
    return Finding("refusals read nothing", not read and ratio < 5, text)


def _counting(totals: Callable[[Any], list[int]], read: list[int]) -> Callable[[Any], list[int]]:
    def counted(query: Any) -> list[int]:
        read.append(1)
        return totals(query)

    return counted
