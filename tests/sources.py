"""Sources of randomness for tests. Those that change the law say `private = False`: what they touch is certified not private."""

import itertools
import math
import os
import random
import secrets
from fractions import Fraction

import numpy as np

from pellucid.mechanisms import bulk, samplers
from pellucid.mechanisms.assignment import draw_assignment
from pellucid.mechanisms.labels import Labels


class Repeatable:
    """Production's own samplers, on random bytes that are the same in every run of a test: what a test finds, it finds again.

    The laws are exact, so releases are certified as production's are. Whether the operating system is asked for randomness is
    for the tests of the mechanisms and of the audit, which do without this. A child process draws as production does: were it to
    go on with its parent's bytes, two children would draw the same noise.
    """

    private = True

    def __init__(self, seed):
        self._random, self._process = random.Random(seed), os.getpid()

    def bits(self, count):
        return self._random.randbytes(count) if os.getpid() == self._process else secrets.token_bytes(count)

    def below(self, end):
        return self._random.randrange(end) if os.getpid() == self._process else secrets.randbelow(end)

    def laplace(self, scale, size):
        return bulk.laplace(Fraction(scale), size, self.bits)

    def gaussian(self, scale, size):
        return bulk.gaussian(Fraction(scale), size, self.bits)

    def cube(self, ratio, size):
        return samplers.cube(ratio, size, self.below) if size < 64 else bulk.cube(ratio, size, self.bits)

    def pick(self, scores, rate, flip):
        return (samplers.permute_and_flip if flip else samplers.exponential)(scores, rate, self.below)

    def assign(self, scores, rate, picks, candidates):
        return draw_assignment(scores, rate, self.below, picks, candidates)


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


class Chosen(Labels):
    """Labels that a test chooses, all of them different: of a row by its number, of a person by an id that is such a number."""

    def __init__(self, labels):
        super().__init__(bytes(32))
        self.chosen = np.array(labels, dtype=np.uint64)

    def of_row_numbers(self, numbers):
        return np.stack([self.chosen[numbers.astype(int)]] * 2, axis=1)

    of_numbers = of_row_numbers
