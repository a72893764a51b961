"""Measures the privacy that is promised: the distinguishing game, the search for neighbours that break a bound, and attacks.

Whatever is in here uses public records, never those of a session. A lower bound above a claim refutes the claim; one below it
proves nothing: proofs are in `proofs/`.
"""

from .game import Row, play
from .neighbours import Neighbours
from .search import Moved, World, search

__all__ = ["Moved", "Neighbours", "Row", "World", "play", "search"]
