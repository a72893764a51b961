"""The demo: a real health table, a model, a budget, three releases with their certificates, pictures and one HTML page.

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
from . import report

if TYPE_CHECKING:
    from rich.console import Console

NEEDS = ("matplotlib", "sklearn", "statsmodels")
CODEBOOK = "RAND health insurance experiment, variable definitions in statsmodels"
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
    unit = pel.Unit(max_rows=5)
    session = pel.Session(table, schema(), budget=pel.Budget(epsilon=4.0), name="rand-hie", ledger=ledger, unit=unit, create=True)
    console.print(f"   budget ε = 4, already spent: {session.spent}, ledger {ledger.name}\n")

    curve = pel.PartialDependence(model, "disea")
    console.print("[bold]3. What would it be worth? Looking costs nothing[/]")
    console.print(str(session.preview(curve, epsilon=0.5)), highlight=False)
    console.print(f"   an error of ±0.25 visits would take {session.cost_for(curve, error=0.25)}\n", highlight=False)

    console.print("[bold]4. Three releases, all paid for before a row is read, in one pass over the table[/]")
    wanted = {
        "Predicted visits by chronic conditions": (curve, {"epsilon": 1.0}),
        "Accumulated effect of chronic conditions": (pel.AccumulatedEffects(model, "disea"), {"epsilon": 2.0}),
        "Distribution of chronic conditions": (pel.Distribution("disea", bins=15), {"epsilon": 0.5}),
    }
    released = session.release(wanted, by="demo", purpose="a first look")
    for file, (title, explanation) in zip(released.save(folder), released.items()):
        file.with_suffix(".png").write_bytes(report.picture(explanation, title))
    console.print(str(released), highlight=False, soft_wrap=True)

    console.print("\n[bold]5. The certificate of the first one[/]")
    console.print(str(released[0].certificate), highlight=False, soft_wrap=True)
    together = pel.total([explanation.certificate for explanation in released if explanation.certificate])
    console.print(f"\n   all of them together: {together}", highlight=False)
    title, budget = "What drives predicted visits to a doctor", (session.spent, session.whole)
    report.write(folder / "report.html", list(released.items()), title, budget)
    console.print(f"   the ledger verifies: {pel.Ledger(ledger).verify().ok}; run the demo again and identical requests are free")
    console.print(f"\n[bold green]Open {folder / 'report.html'}[/]", highlight=False)
