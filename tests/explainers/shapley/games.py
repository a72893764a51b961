"""Coalition games as tables over bit masks, their Shapley vectors by definition, and games that are as bad as can be."""

import itertools
import math

import numpy as np


def coefficients(d):
    """Row S: what the value of coalition S contributes to each feature; the last row is the full coalition."""
    weight = [math.factorial(s) * math.factorial(d - 1 - s) / math.factorial(d) for s in range(d)]
    table = np.zeros((2**d, d))
    for mask in range(2**d):
        s = mask.bit_count()
        for j in range(d):
            table[mask, j] = weight[s - 1] if mask >> j & 1 else -weight[s]
    return table


def by_orders(game, d):
    """The Shapley vector as a mean over all orders: slow, and the definition."""
    total = np.zeros(d)
    for order in itertools.permutations(range(d)):
        mask = 0
        for j in order:
            total[j] += game[mask | 1 << j] - game[mask]
            mask |= 1 << j
    return total / math.factorial(d)


def extreme_game(d, direction, prediction=0.5):
    """The 0/1 game whose Shapley vector goes furthest in a direction, given the value of the full coalition."""
    game = (coefficients(d) @ np.asarray(direction, dtype=float) > 0).astype(float)
    game[-1] = prediction
    return game


def named_directions(d):
    """What the games are furthest in: one feature, a difference, a sum of two, a sign pattern with m pluses."""
    unit = np.eye(d)
    found = {"one feature": unit[0]}
    if d > 1:
        found |= {"difference": unit[0] - unit[1], "sum of two": unit[0] + unit[1]}
    found |= {f"{m} pluses": np.where(np.arange(d) < m, 1.0, -1.0) for m in range(d + 1)}
    return found


def adversarial_games(d):
    masks = np.arange(2**d)
    size = np.array([mask.bit_count() for mask in masks])
    yield (size % 2).astype(float)
    for threshold in range(d + 1):
        yield (size >= threshold).astype(float)
        yield (size == threshold).astype(float)
    for j in range(d):
        yield (masks >> j & 1).astype(float)
    rng = np.random.default_rng(d)
    for _ in range(200):
        yield rng.random(2**d)
        yield (rng.random(2**d) < rng.random()).astype(float)
        yield (rng.standard_normal(d) @ np.array([masks >> j & 1 for j in range(d)]) > rng.standard_normal()).astype(float)


def longest(d, tries=60):
    """A long Shapley vector by climbing: the furthest point in the direction of the last one."""
    rng, best, table = np.random.default_rng(0), np.zeros(d), coefficients(d)[:-1]
    for _ in range(tries):
        now = rng.standard_normal(d)
        for _ in range(50):
            now, last = np.sign(table @ now) @ table / 2, now
            if np.allclose(now, last):
                break
        best = max(best, now, key=np.linalg.norm)
    return best
