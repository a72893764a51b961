"""How finely contributions are rounded: said bound by bound in the threat model, and true."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import pellucid as pel
from pellucid.explainers.blocks.ballots import Ballots
from pellucid.explainers.local.bound import Moments
from pellucid.explainers.shapley.bound import ShapleyVectors
from pellucid.query.bound import Bound
from pellucid.query.bounds import Ball, Box, Cells, CountedBox, CrossCells, Gram
from pellucid.query.reviewed import reviewed_classes

PAGE = (Path(pel.__file__).parents[2] / "docs" / "threat-model.md").read_text(encoding="utf-8")
BOUNDS = {cls.__name__: cls for cls in reviewed_classes() if issubclass(cls, Bound)}


def of_values(bound, largest):
    """How a contribution is given whose first value is a part of the largest one."""
    return lambda part: bound.totals(np.array([[largest * part, *[0.0] * (bound.width - 1)]]))


MOMENTS = Moments(2, joint=0.8, slope=2.0, label=1.5)
SHAPLEY = ShapleyVectors(3, 0.0, 1.0, 0.5)
MADE = {
    "Box": of_values(Box(2, -3.0, 3.0), 3.0),
    "CountedBox": lambda part: CountedBox(2, -3.0, 3.0).totals((np.ones(1), np.array([[3.0 * part, 0.0]]))),
    "Cells": lambda part: Cells(2, value=5.0).totals((np.array([[0]]), np.array([[1.0]]), np.array([[5.0 * part]]))),
    "Ball": of_values(Ball(3, 7.0), 7.0),
    "Gram": of_values(Gram(3, 7.0), 7.0),
    "Moments": of_values(MOMENTS, math.sqrt(max(0.8, 1.5**2 / 2))),
    "ShapleyVectors": of_values(SHAPLEY, SHAPLEY.unit * SHAPLEY.LIMIT),
}
"""For each bound that rounds: the totals of one contribution, whose first value is a part of the largest one."""

WHOLE = {"CrossCells": CrossCells(2, (3,)), "Ballots": Ballots(3)}
"""Bounds of whole numbers, where there is nothing to round."""


def told():
    """The table of the threat model: units of each bound, as a power of two; None where nothing is rounded."""
    rows = re.findall(r"^\| `(\w+)` \|.*\| (2\^(\d+)|whole numbers) \|$", PAGE, re.M)
    return {name: int(power) if power else None for name, _, power in rows}


def test_every_bound_is_in_the_table():
    assert told().keys() == BOUNDS.keys() == MADE.keys() | WHOLE.keys()


@pytest.mark.parametrize("name", sorted(MADE))
def test_the_table_says_how_finely_a_bound_rounds(name):
    """The smallest part that is not rounded away is half a unit."""
    totals, nothing, low, high = MADE[name], MADE[name](0.0), 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if totals(middle) != nothing else (middle, high)
    assert high == pytest.approx(2.0 ** -(told()[name] + 1), rel=1e-3)
    assert BOUNDS[name].grid == 2 ** told()[name]


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_whole_numbers_are_not_rounded(name):
    assert told()[name] is None and WHOLE[name].grid is None


def test_the_coarsest_and_the_finest_are_named():
    known = [power for power in told().values() if power is not None]
    assert f"2^-{min(known)}" in PAGE and min(known) == 15 and max(known) == 30 and "2^-31" not in PAGE
