"""The demo: a real health table, a model, a budget, and a whole report with one certificate and one HTML page.

The table is the RAND health insurance experiment as statsmodels ships it: 20,190 person-years of up to five years a
person, without a person id. So the unit is stated honestly, as up to five rows a person that nothing enforces, and every
certificate is conditional on it.
"""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pellucid as pel

from ..errors import MissingExtra

if TYPE_CHECKING:
    from rich.console import Console

NEEDS = ("matplotlib", "sklearn", "statsmodels")
CODEBOOK = "RAND health insurance experiment, variable definitions in statsmodels"
EPSILON = 8.0
"""Of the whole report. It is large because a person may have five rows here, which multiplies all noise by five."""
SOMEBODY = {
    "lncoins": 0.0, "idp": 0, "lpi": 6.0, "fmde": 0.0, "physlm": 1.0, "disea": 25.0, "hlthg": 0, "hlthf": 1, "hlthp": 0,
}  # fmt: skip
"""A made-up patient, whose prediction is explained."""
OURS = "declared for this demo from the meaning of the variable"


def schema() -> pel.Schema:
    """Public bounds, from the codebook where it gives them; none of them was read from the records."""
    return pel.Schema(
        {
            "lncoins": pel.Number(0, math.log(101), source=f"{CODEBOOK}: ln(coinsurance + 1), coinsurance from 0 to 100"),
            "idp": pel.Category([0, 1], source=CODEBOOK),
            "lpi": pel.Number(0, 8, source=f"{OURS}: ln of a yearly payment below 2,980 dollars"),
            "fmde": pel.Number(0, 9, source=f"{OURS}: ln of a maximum expense below 8,100 dollars"),
            "physlm": pel.Number(0, 1, source=CODEBOOK),
            "disea": pel.Number(0, 60, source=f"{OURS}: an index of chronic conditions"),
            "hlthg": pel.Category([0, 1], source=CODEBOOK),
            "hlthf": pel.Category([0, 1], source=CODEBOOK),
            "hlthp": pel.Category([0, 1], source=CODEBOOK),
        }
    )


def load() -> tuple[Any, Any]:
    """The table without its target, and the number of outpatient visits."""
    from statsmodels.datasets import randhie

    table = randhie.load_pandas().data
    return table.drop(columns="mdvis"), table["mdvis"]


def train(table: Any, visits: Any) -> pel.Model:
    """Predicted outpatient visits a year. Trained without privacy on the same people, and declared so."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    fitted = HistGradientBoostingRegressor(loss="poisson", max_iter=60, learning_rate=0.1, min_samples_leaf=100, random_state=0)
    fitted.fit(table, visits)
    return pel.Model(fitted, output=(0, 15), trained_on="this data", name="visits")


def run(folder: Path, console: Console) -> None:
    """Everything the demo shows, written below `folder`."""
    if missing := [name for name in NEEDS if importlib.util.find_spec(name) is None]:
        raise MissingExtra(f"the demo needs {' and '.join(missing)}: install what it needs with `pip install 'pellucid[demo]'`.")
    folder.mkdir(parents=True, exist_ok=True)
    ledger = folder / "demo.db"
    console.print("[bold]1. A table about people, and a model about them[/]")
    table, visits = load()
    model = train(table, visits)
    console.print(f"   {len(table):,} person-years; the model predicts visits to a doctor from {len(model.features)} features\n")

    console.print("[bold]2. A session: one private table, one budget, one ledger[/]")
    unit, budget = pel.Unit(max_rows=5), pel.Budget(epsilon=EPSILON)
    session = pel.Session(table, schema(), budget=budget, name="rand-hie", ledger=ledger, unit=unit, create=True)
    console.print(f"   budget {session.whole}, already spent: {session.spent}, ledger {ledger.name}\n", highlight=False)

    if session.remaining:
        console.print("[bold]3. A whole report: what is worth having, and at which share? Looking costs nothing[/]")
        report = session.report(model, epsilon=EPSILON, most=4, record=SOMEBODY, questions=[SOMEBODY], clusters=3)
        console.print(str(report.plan), highlight=False, soft_wrap=True)

        console.print("\n[bold]4. Pay for it, then read the table[/]")
        made = report.release(by="demo", purpose="a first look")
        made.save(folder)
        console.print(str(made), highlight=False, soft_wrap=True)
        console.print("\n[bold]5. One certificate for all of it[/]")
        console.print(f"   {made.certificate.status_line}", highlight=False, soft_wrap=True)
        console.print(f"   {pel.total([made.certificate])}", highlight=False, soft_wrap=True)
    else:
        console.print(
            "   the budget of this ledger is spent, so nothing more is read: the report of the first run is still there"
        )
    console.print(f"   the ledger verifies: {pel.Ledger(ledger).verify().ok}")
    console.print(f"\n[bold green]Open {folder / 'report.html'}[/]", highlight=False)
