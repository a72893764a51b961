"""Sources of randomness for tests. They say `private = False`, so everything they touch is certified not private."""

import itertools
import math

import numpy as np

from pellucid.mechanisms.assignment import draw_assignment


class Seeded:
    """Reproducible noise of the right shape, from NumPy's generator."""

    private = False

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def laplace(self, scale, size):
        return [round(v) for v in self.rng.laplace(0, scale, size)]

    def gaussian(self, scale, size):
        return [round(v) for v in self.rng.normal(0, scale, size)]

    def cube(self, ratio, size):
        return [round(v) for v in self.rng.gamma(size + 1, float(1 / ratio)) * self.rng.uniform(-1, 1, size)]

    def pick(self, scores, rate, flip):
        best = max(scores)
        weights = np.array([math.exp(float(rate * (s - best))) for s in scores])
        if not flip:
            return int(self.rng.choice(len(scores), p=weights / weights.sum()))
        for i in self.rng.permutation(len(scores)):
            if self.rng.random() < weights[i]:
                return int(i)
        raise AssertionError("the best candidate is always taken")

    def assign(self, scores, rate, picks, candidates):
        return draw_assignment(scores, rate, lambda k: int.from_bytes(self.rng.bytes(32), "big") % k, picks, candidates)

    def bits(self, count):
        return self.rng.bytes(count)


class Silent(Seeded):
    """No noise at all: releases are exact, for comparison with other implementations."""

    def laplace(self, scale, size):
        return [0] * size

    gaussian = cube = laplace

    def pick(self, scores, rate, flip):
        return int(np.argmax(np.array(scores, dtype=object)))

    def assign(self, scores, rate, picks, candidates):
        """The best assignment: by enumeration where that is possible, else a draw at a rate that leaves no choice."""
        rows = candidates or [range(scores.items)] * scores.places
        each = [list(itertools.combinations(row, picks)) for row in rows]
        if math.prod(map(len, each)) <= 20_000:
            return list(max(itertools.product(*each), key=scores.of))
        return super().assign(scores, rate * 10**6, picks, candidates)


class Scaled(Seeded):
    """Noise too small or too large by a factor: what noise tests must notice."""

    def __init__(self, seed, factor):
        super().__init__(seed)
        self.factor = factor

    def laplace(self, scale, size):
        return super().laplace(scale * self.factor, size)

    def gaussian(self, scale, size):
        return super().gaussian(scale * self.factor, size)

    def cube(self, ratio, size):
        return super().cube(ratio / self.factor, size)
