"""What an image is: whole-number combinations of exact totals that are released in their place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..mechanisms import Norms
from .bound import UNITS, Bound


class Image(ABC):
    """A linear image of a sum's totals in whole numbers. Like a bound it says how far one contribution moves what is released."""

    claim: str
    enforced: bool = True
    relative: tuple[float, ...] = ()
    one: int = UNITS
    """Grid units that `Answer.numbers` counts as one."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of released coordinates."""

    @abstractmethod
    def fits(self, bound: Bound) -> bool:
        """Whether the totals are of the kind the image's theorem is about."""

    @abstractmethod
    def of(self, totals: Sequence[int]) -> list[int]:
        """The image of exact totals."""

    @abstractmethod
    def added(self) -> Norms:
        """The largest image of one contribution."""

    @abstractmethod
    def replaced(self) -> Norms:
        """The largest difference between the images of two contributions."""

    @property
    @abstractmethod
    def scale_text(self) -> str:
        """What 2^30 grid units are worth in the user's units, for the certificate."""
