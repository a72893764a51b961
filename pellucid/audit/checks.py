"""What no game sees: noise that is not fresh, cells in stored texts, shapes that follow the data, a budget that is spent twice.

Every check makes its own small tables and ledgers, and says in words what it found.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import PellucidError
from ..explainers.statistics.completeness import Completeness
from ..explainers.statistics.distribution import Distribution
from ..explainers.statistics.statistic import Statistic
from ..ledger.accounting import Budget
from ..mechanisms import Mechanism, add_noise
from ..public.schema import Category, Number, Schema, Unit
from ..release.session import Session

DRAWS = 4000
SIGMAS = 5.0
"""A check that draws is wrong about good noise once in a million times."""
SCHEMA = Schema({"age": Number(17, 90), "dose": Number(0, 1), "sex": Category(["F", "M"])})
KINDS = {"laplace": ("L1", "discrete-laplace"), "k-norm": ("L∞", "k-norm-lattice"), "gaussian": ("L2", "discrete-gaussian")}


@dataclass(frozen=True)
class Finding:
    """What a check found."""

    name: str
    passed: bool
    text: str

    @property
    def verdict(self) -> str:
        return "holds" if self.passed else f"broken: {self.text}"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def checks() -> list[Callable[[], Finding]]:
    """All of them, in the order of their cost."""
    return [fresh_noise, own_noise, low_bits, one_unit_left, fixed_shape, no_canaries, quiet_refusal]


def _mechanism(kind: str, size: int, scale: int = 10**6) -> Mechanism:
    norm, claim = KINDS[kind]
    return Mechanism(kind, size, Fraction(scale), norm, float(scale), Fraction(1), claim)  # type: ignore[arg-type]


def fresh_noise() -> Finding:
    """Draws that follow one another have nothing to do with each other, and none is used twice."""
    worst, repeated = 0.0, 0
    for kind in KINDS:
        drawn = [tuple(add_noise([0, 0, 0], _mechanism(kind, 3))) for _ in range(DRAWS)]
        repeated += DRAWS - len(set(drawn))
        noise = _signs(np.array(drawn, dtype=float))
        worst = max(worst, float(np.abs((noise[1:] * noise[:-1]).mean(axis=0)).max()))
    limit = SIGMAS / DRAWS**0.5
    text = f"{repeated} of {3 * DRAWS} draws came twice; largest correlation of draws in a row {worst:.3f} (limit {limit:.3f})"
    return Finding("fresh noise at every call", repeated == 0 and worst <= limit, text)


def own_noise() -> Finding:
    """Every number has noise of its own: signs of two coordinates agree half of the time. (K-norm noise has one common size.)"""
    worst = 0.0
    for kind in KINDS:
        noise = _signs(np.array([add_noise([0] * 4, _mechanism(kind, 4)) for _ in range(DRAWS)], dtype=float))
        products = noise.T @ noise / DRAWS
        worst = max(worst, float(np.abs(products - np.diag(np.diag(products))).max()))
    limit = SIGMAS / DRAWS**0.5
    text = f"largest correlation of the signs of two coordinates {worst:.3f} (limit {limit:.3f})"
    return Finding("own noise for every number", worst <= limit, text)


def _signs(noise: np.ndarray) -> np.ndarray:
    return np.where(noise > 0, 1.0, -1.0)


def low_bits() -> Finding:
    """The last bits of wide noise are those of a fair coin: floats rounded to a grid of their own give totals away."""
    worst = 0.0
    for kind in KINDS:
        drawn = np.array([add_noise([0], _mechanism(kind, 1, 10**9))[0] for _ in range(DRAWS)])
        for bit in range(8):
            worst = max(worst, abs(float(((drawn >> bit) & 1).mean()) - 0.5))
    limit = SIGMAS / 2 / DRAWS**0.5
    return Finding(
        "low bits of noise", worst <= limit, f"a low bit is one with probability 1/2 ± {worst:.3f} (limit {limit:.3f})"
    )


def _table(rows: int = 40) -> dict[str, list[Any]]:
    ages = [float(17 + i % 70) for i in range(rows)]
    return {"age": ages, "dose": [0.5] * rows, "sex": ["F", "M"] * (rows // 2) + ["F"] * (rows % 2)}


def one_unit_left() -> Finding:
    """Fifty threads ask at once for the last of a budget that one of them can pay."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "audit.db")
        session = Session(_table(), SCHEMA, Budget(1.0), name="audit", ledger=path, create=True)

        def ask(i: int) -> bool:
            try:
                session.release(Distribution("sex"), epsilon=1.0, fresh=True)
            except PellucidError:
                return False
            return True

        with ThreadPoolExecutor(50) as pool:
            paid = sum(pool.map(ask, range(50)))
        spent = float(session.spent)
        session.ledger.close()
    return Finding(
        "fifty threads and one unit left", paid == 1 and spent == 1.0, f"{paid} of 50 were paid for, spent {spent:g} of 1"
    )


def fixed_shape() -> Finding:
    """What is released has the same shape whatever the cells say."""
    usual = _table()
    strange = {**usual, "sex": [f"new {i}" for i in range(40)], "age": [float("nan")] * 20 + [1e300] * 20}
    different = []
    for explainer in (Distribution("sex"), Distribution("age"), Statistic("age*dose"), Completeness()):
        shapes = set()
        for table in (usual, strange):
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
    """Cells and ids that nobody else could have written turn up in no result, certificate, text or ledger."""
    word, number, who = f"canary-{secrets.token_hex(8)}", 45.0 + secrets.randbelow(10**9) * 1e-9, f"person-{secrets.token_hex(8)}"
    table = _table()
    table["sex"][0], table["age"][0] = word, number
    ids = [who, *(f"p{i}" for i in range(39))]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "audit.db")
        session = Session({**table, "id": ids}, SCHEMA, Budget(10.0), unit=Unit("id"), name="audit", ledger=path, create=True)
        for explainer in (Distribution("sex"), Distribution("age"), Statistic("age"), Completeness()):
            made = session.release(explainer, epsilon=1.0)
            texts = [made.to_json(), repr(made), str(made.certificate), made.to_frame().to_csv()]
            found += [type(explainer).__name__ for text in texts for canary in (word, repr(number), who) if canary in text]
        session.ledger.close()
        for file in Path(folder).iterdir():
            held = file.read_bytes().decode("latin-1")
            found += [file.name for canary in (word, repr(number), who) if canary in held]
    return Finding("no cell and no id in what is stored", not found, f"found in {', '.join(sorted(set(found))) or 'nothing'}")


def quiet_refusal() -> Finding:
    """A refusal takes as long beside many odd rows as beside few: it reads none."""
    read: list[int] = []
    sessions = [Session(table, SCHEMA, Budget(1.0)) for table in (_table(40), {**_table(20_000), "sex": ["?"] * 20_000})]
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
