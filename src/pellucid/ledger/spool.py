"""Where a released text waits when it was paid for and its ledger cannot be written: beside the ledger, until its next use."""

from __future__ import annotations

import json
import os
import secrets
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Kept:
    """A released text whose commit is still to come."""

    seq: int
    """The number of its charge."""
    hash: str
    """The hash of its charge, which tells whether it belongs to a ledger."""
    text: str
    """What was released."""


class Spool(ABC):
    """Texts that wait. It works without a turn, because there is none to be had when it is needed."""

    @abstractmethod
    def put(self, kept: Kept) -> None:
        """Keep a text. Never raises: the release has been paid for and is about to be returned."""

    @abstractmethod
    def items(self) -> list[Kept]:
        """All that waits, in the order of the charges."""

    @abstractmethod
    def remove(self, kept: Kept) -> None:
        """Forget a text that has been committed. Forgetting again does nothing."""


class MemorySpool(Spool):
    """Texts wait in this process."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}

    def put(self, kept: Kept) -> None:
        self._kept[kept.hash] = kept

    def items(self) -> list[Kept]:
        return sorted(self._kept.values(), key=lambda kept: kept.seq)

    def remove(self, kept: Kept) -> None:
        self._kept.pop(kept.hash, None)


class FileSpool(MemorySpool):
    """Texts wait in a folder, a file for each, for whichever process comes next; in memory if there is no room for the file."""

    def __init__(self, folder: str | os.PathLike[str]):
        super().__init__()
        self._folder = Path(folder)

    def put(self, kept: Kept) -> None:
        # Whole or not at all: what is half written has another name.
        part = self._folder / f"{secrets.token_hex(8)}.part"
        try:
            self._folder.mkdir(exist_ok=True)
            with part.open("x", encoding="utf-8") as file:
                json.dump(asdict(kept), file)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self._file(kept))
            _sync_folder(self._folder)
            _sync_folder(self._folder.parent)
        except OSError:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            super().put(kept)

    def items(self) -> list[Kept]:
        waiting: list[str] = []
        with suppress(OSError):
            waiting = [name for name in os.listdir(self._folder) if name.endswith(".json")]
        found = {kept.hash: kept for kept in super().items()}
        for name in waiting:
            with suppress(OSError, ValueError, TypeError):
                kept = Kept(**json.loads((self._folder / name).read_text(encoding="utf-8")))
                if self._file(kept).name == name and isinstance(kept.seq, int) and isinstance(kept.text, str):
                    found.setdefault(kept.hash, kept)
        return sorted(found.values(), key=lambda kept: kept.seq)

    def remove(self, kept: Kept) -> None:
        super().remove(kept)
        with suppress(OSError):
            self._file(kept).unlink(missing_ok=True)
            self._folder.rmdir()

    def _file(self, kept: Kept) -> Path:
        return self._folder / f"{kept.hash}.json"


def _sync_folder(folder: Path) -> None:
    """A file is safe when the folder that names it is on disk too. Not every system can open a folder."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
