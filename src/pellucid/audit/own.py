"""Audits of one's own releases, on made-up records: their results are kept for the certificates of the same requests."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import LoadError, PellucidError, PlanError
from ..public.schema import check_relation
from ..release.explainer import Explainer
from ..release.plan import Public
from ..release.request import audit_key, request_of
from .game import Row, play
from .search import World

CONFIDENCE = 0.99
"""Of every row."""
STAMP = re.compile(
    r"(broken: [^\n]{1,300}; )?≥ (inf|\d+\.\d\d) of a claimed \d+\.\d\d( at δ = [\d.e-]+)?, with [\d.]+ %, "
    r"by [\d,]+ releases beside each of two tables, pellucid (?P<version>\S+), \d{4}-\d\d-\d\d"
)
"""A line as `Row.stamp` says it: nothing else gets on a certificate."""
NOT_WRITTEN = (
    "{!r} cannot be written, and an audit keeps its results there: make the folder writable, or copy the study and what it loads "
    "to another one (its data is not needed)."
)


@dataclass(frozen=True)
class Own:
    """One release to be audited, and all that it is asked under."""

    title: str
    explainer: Explainer
    world: World
    expected_rows: int | None = None

    @property
    def key(self) -> str:
        """What its audit is known by. It says nothing of any data, so none is needed."""
        world, spend = self.world, self.world.public(1).spend
        public = Public(world.schema, check_relation(world.relation), world.unit, spend, None, self.expected_rows)
        return audit_key(request_of(self.explainer, public), public)

    def play(self, *, runs: int, seconds: float = math.inf, told: Callable[[], None] = lambda: None) -> Row:
        """Audit it beside the neighbours that a search over made-up tables finds."""
        if self.explainer.asks_one_by_one:
            raise PlanError(
                f"{type(self.explainer).__name__} answers questions one after another, and only one of them can be audited here: "
                "give it record=."
            )
        return play(self.explainer, self.world, runs=runs, seconds=seconds, confidence=CONFIDENCE, name=self.title, told=told)


def tried(own: Own, **how: Any) -> tuple[Row | None, str]:
    """The row of a release, or why there is none: tables of a few made-up records are not for every release."""
    try:
        return own.play(**how), ""
    except PellucidError as error:
        return None, str(error)


def keep(file: Path, stamps: Mapping[str, str]) -> None:
    """Write down results by request, beside those of the same version that are there."""
    known = {**stamps_of(file), **stamps}
    made = {key: {"audited": stamp, "seal": seal(key, stamp)} for key, stamp in known.items()}
    part = file.with_name(f".{file.name}.part")
    try:
        part.write_text(json.dumps(made, ensure_ascii=False, indent=1), encoding="utf-8")
        part.replace(file)
    except OSError:
        raise PellucidError(NOT_WRITTEN.format(str(file))) from None


def check_kept(file: Path) -> None:
    """Whether results can be written down and read again, before minutes go by."""
    stamps_of(file)
    part = file.with_name(f".{file.name}.part")
    try:
        part.write_text("", encoding="utf-8")
        part.unlink()
    except OSError:
        raise PellucidError(NOT_WRITTEN.format(str(file))) from None


def seal(key: str, stamp: str) -> str:
    """Binds a result to its request: `key` is the digest of the request, its model's fingerprint, the relation and the unit, and
    the stamp has the version. It shows a line that was moved or edited. It has no secret in it, so it does not show who made it:
    whoever can write the file and has the package can seal anything."""
    return hashlib.sha256(f"pellucid audit\n{key}\n{stamp}".encode()).hexdigest()


def stamps_of(file: Path) -> dict[str, str]:
    """What was kept of audits of this version; nothing where nothing was."""
    if not file.exists():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError
        return {key: stamp for key, line in found.items() if (stamp := _opened(key, line)) is not None}
    except (OSError, ValueError, TypeError, KeyError):
        raise LoadError(
            f"{file.name} is not what `pellucid audit` writes: run it again after removing the file, or only remove it. "
            "Nothing was charged."
        ) from None


def _opened(key: str, line: Any) -> str | None:
    """The stamp of a line; None where it is of another version, or of one that did not seal."""
    from .. import __version__

    sealed = isinstance(line, dict)
    said = STAMP.fullmatch(line["audited"] if sealed else line)
    if said is None or (sealed and (line["seal"] != seal(key, said[0]) or len(line) != 2)):
        raise ValueError
    return said[0] if sealed and said["version"] == __version__ else None
