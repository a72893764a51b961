"""Pellucid: explanations of machine-learning models about people, released under differential privacy.

The rooms, each of which imports only from those above it:

    errors        everything that is raised on purpose
    public        what everybody may know: schema, models and clusterings, records asked about, grids
    mechanisms    the only place that draws noise: amounts, calibration, laws, choices, samplers
    sensitivity   certified bounds of formulas and models; which attribute drives them; which steps need noise
    query         what may be asked of data, and how far one unit can move the answer
    engine        rows in, exact integer totals out
    ledger        accounts, charges, hash chain
    release       plan → reserve → run → commit → certificate: sessions, streams, the door
    explainers    one folder a family; start with explainers/curves/partial_dependence.py
    reports       whole reports for one price: the planner, the page, one certificate
    baselines     published mechanisms on plain arrays, for comparison
    cli           the command line, study files, reports, the demo
    surface       the names that `pellucid` offers

ARCHITECTURE.md traces one call through them.
"""

import importlib
import threading
from typing import TYPE_CHECKING, Any

from .public import moved

if TYPE_CHECKING:
    from .surface import *  # noqa: F403

__version__ = "0.2.0"

moved.install()

_loading: set[int] = set()


def __getattr__(name: str) -> Any:
    """Load everything when something is used: `pellucid --help` needs none of it, and pandas alone takes most of its time."""
    # While everything is being loaded, its modules are looked for in the ordinary way.
    if not name.startswith("__") or name == "__all__":
        thread = threading.get_ident()
        if thread not in _loading:
            _loading.add(thread)
            try:
                whole = importlib.import_module(".surface", __name__)
                globals().update({"__all__": whole.__all__, **{known: getattr(whole, known) for known in whole.__all__}})
            finally:
                _loading.discard(thread)
            if name in globals():
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    # What is for others, so that tab completion shows nothing else; the version and the like are there for whoever asks.
    own = [name for name in globals() if name.startswith("__") and name != "__all__"]
    return sorted({*own, *importlib.import_module(".surface", __name__).__all__})
