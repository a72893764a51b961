"""Curves that lean on public records: what is known of a curve's shape before it is asked about takes noise away afterwards.

A partial dependence is the mean of the curves of records, and the model is public: the curves of public records, drawn from the
schema, tell where the model can move at all, how far, and which parts move together. A released curve is combined with that, by
the weights that the law of its noise gives to both. How much public records are to be believed is not assumed: every degree of it
is weighed by how well it explains the released curve. So where people's curves are of another shape little is taken from public
records, and a curve with little noise stays as it was released. It all happens after the release, and costs nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SHARED = (0.03, 0.1, 0.3, 1.0)
"""How far the mean curve may be from that of public records, in standard deviations of their curves."""
OWN = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""How far each difference may be from what the others say, in root mean squares of that difference among public records."""
OF_PEOPLE = ((0.1, 0.03), (0.1, 0.1), (0.3, 0.1), (0.3, 0.3), (1.0, 0.3), (1.0, 1.0))
"""The same for people made up from released distributions, each beside how much more or less the curve may move than theirs."""
FLOOR = 0.2
"""Where public records do not move, the square of a difference is taken for such a part of the mean square of all."""
NEGLIGIBLE = 1e-14
"""Noise whose variance is so small somewhere, in squared ranges, leaves nothing to do."""
LOPSIDED = 1e-10
"""Noise whose least variance is so small beside its largest is all but known somewhere: floats could not weigh it."""
FAR = 1e100
"""A curve so many standard deviations of its noise away from public records has nothing to do with them, nor with floats."""
FLAT = 0.01
"""Public records are taken to move by such a part of the range in all, at least: people may move where they do not."""


@dataclass(frozen=True, eq=False)
class Shape:
    """What public records say about a curve, in parts of the model's range."""

    curves: np.ndarray
    """Of public records, along the grid."""
    categorical: bool = False
    """Whether the points have no order."""
    of_people: bool = False
    """Whether these records are people made up from released distributions, and not drawn from the declared domains."""

    @functools.cached_property
    def mean(self) -> np.ndarray:
        return np.asarray(self.curves.mean(axis=0))

    @functools.cached_property
    def slope(self) -> np.ndarray:
        """Covariance of a curve that moves as public records do on average, but more or less."""
        centred = self.mean - self.mean.mean()
        return np.outer(centred, centred)

    @functools.cached_property
    def shared(self) -> np.ndarray:
        """Covariance of the curves of public records."""
        apart = self.curves - self.mean
        return np.asarray(apart.T @ apart / len(self.curves))

    @functools.cached_property
    def own(self) -> np.ndarray:
        """Covariance of a curve whose differences, or categories, move each for itself."""
        points = self.curves.shape[1]
        if self.categorical:
            moved = ((self.curves - self.curves.mean(axis=1, keepdims=True)) ** 2).mean(axis=0)
            walk = np.eye(points) - 1 / points
        else:
            moved = (np.diff(self.curves, axis=1) ** 2).mean(axis=0)
            walk = np.concatenate([np.zeros((1, points - 1)), np.tril(np.ones((points - 1, points - 1)))])
            walk = walk - walk.mean(axis=0)
        moved = np.maximum(moved + FLOOR * moved.mean(), (FLAT / len(moved)) ** 2)
        own = np.asarray((walk * moved) @ walk.T)
        # A level that is believed may be wrong, too, by about as much as the shape.
        return own + own.trace() / points**2 if self.of_people else own

    def error_left(self, way: str, noise: Callable[[], np.ndarray]) -> ErrorLeft:
        """What leaning is expected to leave of noise with this covariance, up to a factor; the level of the curve aside.

        It is kept by the name of the way: plans of a price search share it.
        """
        if way not in self._left:
            self._left[way] = ErrorLeft.of(self.slope + self.shared + self.own, noise())
        return self._left[way]

    @functools.cached_property
    def _left(self) -> dict[str, ErrorLeft]:
        return {}


@dataclass(frozen=True, eq=False)
class ErrorLeft:
    """The mean squared error of a curve's shape after leaning, as a function of the size of the noise.

    Along directions in which the noise has variance one and the shape a known variance, each is shrunk by itself.
    """

    shape: np.ndarray
    """The variance of the shape along each direction."""
    weight: np.ndarray
    """What a variance of one along it is in the mean over the points."""

    @classmethod
    def of(cls, shape: np.ndarray, noise: np.ndarray) -> ErrorLeft:
        basis = _centred(len(shape))
        root = np.linalg.cholesky(basis.T @ noise @ basis)
        half = np.linalg.solve(root, basis.T @ shape @ basis)
        values, vectors = np.linalg.eigh(np.linalg.solve(root, half.T))
        return cls(values.clip(0), ((root @ vectors) ** 2).sum(axis=0) / len(shape))

    def __call__(self, size: float) -> float:
        """Where the noise has `size` times the covariance it was made for."""
        return float((self.weight * self.shape * size / (self.shape + size)).sum()) if size > 0 else 0.0


def leaned(released: np.ndarray, noise: np.ndarray, shape: Shape) -> np.ndarray:
    """A curve released with noise of this covariance, leaning on public records; all in parts of the model's range.

    Its level, the mean over the points, stays as it was released, unless people were made up from released distributions: then
    the level is believed as the shape is.
    """
    basis = np.eye(len(released)) if shape.of_people else _centred(len(released))
    noise = basis.T @ noise @ basis
    if len(released) < (2 if shape.of_people else 3) or not np.isfinite(noise).all():
        return released
    least, *_, largest = np.linalg.eigvalsh(noise)
    if least < max(NEGLIGIBLE, LOPSIDED * largest):
        return released
    # From here on in units in which the noise is independent, with variance one.
    root = np.linalg.cholesky(noise)
    apart = np.linalg.solve(root, basis.T @ (released - shape.mean))
    if not np.abs(apart).max() < FAR:
        return released
    slope, shared, own = (
        np.linalg.solve(root, np.linalg.solve(root, basis.T @ part @ basis).T) for part in (shape.slope, shape.shared, shape.own)
    )
    wide, found, fit = (shape.own.trace() / len(shape.own)) ** 0.5, [], []
    for scale, i in OF_PEOPLE if shape.of_people else ((1.0, i) for i in SHARED):
        for j in OWN:
            if j > 1 and j * wide > 1:
                break  # further apart than the range is wide
            expected = scale**2 * slope + i**2 * shared + j**2 * own
            together = np.eye(len(expected)) + expected
            solved = np.linalg.solve(together, apart)
            found.append(expected @ solved)
            # Of the likelihood that this curve was released, by normal laws.
            fit.append(-0.5 * (apart @ solved + np.linalg.slogdet(together)[1]))
    weight = np.exp(np.array(fit) - max(fit))
    moved = basis @ (root @ (weight @ np.array(found) / weight.sum()))
    level = 0.0 if shape.of_people else released.mean() - shape.mean.mean()
    return np.asarray(level + shape.mean + moved)


@functools.lru_cache(maxsize=64)
def _centred(points: int) -> np.ndarray:
    """A basis of the curves whose mean is zero."""
    return np.linalg.qr(np.column_stack([np.ones(points), np.eye(points)[:, 1:]]))[0][:, 1:]
