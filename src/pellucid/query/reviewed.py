"""The register of bounds and scores that noise may be scaled by.

A bound says of itself how far one record can move a total, and a score how far it can move a choice: all noise follows from that.
So only classes that have a theorem in `proofs/` and a test that attains it may speak. They live in this package, in the room of
the explainers that need them, and register themselves there:

    @reviewed
    @dataclass(frozen=True)
    class Moments(Bound): ...
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any, TypeVar

from ..errors import PlanError

C = TypeVar("C", bound=type)
PACKAGE = Path(__file__).parents[1]

_classes: set[type] = set()


def written_here(cls: type) -> bool:
    """Whether a class says that it comes from a file of this package."""
    origin = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return origin is not None and PACKAGE in Path(origin).parents


@functools.lru_cache(maxsize=1024)
def is_ours(cls: type) -> bool:
    """Whether a class is the one that a file of this package defines: a copy with its name is not."""
    found: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is cls and written_here(cls)


def reviewed(cls: C) -> C:
    """Register a bound, an image or a score of this package; one that comes from elsewhere is refused."""
    if not written_here(cls):
        raise PlanError(
            f"{cls.__name__} is not part of Pellucid. Noise is scaled by what reviewed classes say of themselves; to add one, "
            "put it into the package with its proof and the test that attains it (docs/contributing-bound.md)."
        )
    _classes.add(cls)
    return cls


def check_reviewed(value: Any, kind: str) -> None:
    """Refuse what is not of a registered class itself: a subclass may say anything."""
    if type(value) not in _classes:
        raise PlanError(f"{type(value).__name__} is not one of the reviewed {kind}s {', '.join(reviewed_names(value))}.")


def reviewed_names(like: Any) -> list[str]:
    """The names of all registered classes that have a base in common with this one."""
    bases = [base for base in type(like).__mro__ if base.__module__.startswith("pellucid.query")]
    return sorted(c.__name__ for c in _classes if not bases or issubclass(c, tuple(bases)))


def reviewed_classes() -> frozenset[type]:
    """All registered classes."""
    return frozenset(_classes)
