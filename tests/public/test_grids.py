"""Public grids."""

import numpy as np
import pytest

import pellucid as pel
from pellucid.public import grids


def test_grids_come_from_declarations_alone():
    wide, real = pel.Number(0, 99_999, integer=True), pel.Number(0, 1)
    points = grids.curve_points(wide, 30_000, 1.0)
    assert points[0] == 0 and points[-1] == 99_999 and np.all(np.diff(points) > 0) and np.all(points == np.rint(points))
    assert len(grids.curve_points(real, 30_000, 0.1)) < len(grids.curve_points(real, 30_000, 10.0)) <= 65
    assert len(grids.curve_points(pel.Category(list("abc")), 10, 0.1)) == 3
    assert len(grids.edge_candidates(wide)) <= 257 and len(grids.edge_candidates(pel.Number(0, 9, integer=True))) == 10
    np.testing.assert_array_equal(
        grids.nearest(np.array([0.0, 1.0, 4.0]), np.array([-5, 0.4, 0.6, 2.4, 99, np.nan])), [0, 0, 1, 1, 2, -1]
    )


@pytest.mark.parametrize("edges", [2, 3, 21, 130, 131, 200])
def test_a_value_falls_where_a_search_among_the_edges_finds_it(edges):
    rng = np.random.default_rng(edges)
    at = np.unique(np.round(rng.normal(size=edges), 3))
    values = np.concatenate([rng.normal(scale=3, size=1000), at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf)])
    found = grids.Bins(pel.Number(float(at[0]), float(at[-1])), tuple(at.tolist())).index(values)
    assert (found == np.clip(np.searchsorted(at, values, side="right") - 1, 0, len(at) - 2)).all()
