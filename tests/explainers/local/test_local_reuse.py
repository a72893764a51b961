"""What was answered before: the nearest answers, quickly."""

import time

import numpy as np
import pytest

from pellucid import PellucidError
from pellucid.explainers.local.history import Answered, History, paper_distance


def answered(*asked, number=0):
    return Answered(asked, asked, number)


def test_the_nearest_of_many():
    rng = np.random.default_rng(0)
    points = rng.random((300, 4))
    history = History(4, [answered(*map(float, point), number=i) for i, point in enumerate(points)])
    for z in rng.random((20, 4)):
        away = np.linalg.norm(points - z, axis=1)
        one, distance = history.nearest(z, 5.0)
        assert (one.number, distance) == (int(away.argmin()), pytest.approx(away.min()))
        assert history.nearest(z, away.min() * 0.99) is None
        assert [one.number for one in history.near(z, 5)] == np.argsort(away)[:5].tolist()
    assert len(history.near(points[0], 16)) == 16 and History(4).near(points[0], 16) == []
    assert History(4).nearest(points[0], 1.0) is None


def test_an_answer_of_another_stream_is_refused():
    with pytest.raises(PellucidError):
        History(3).add(answered(0.1, 0.2))


def test_a_look_up_is_quick():
    rng = np.random.default_rng(1)
    history = History(14, [answered(*map(float, point)) for point in rng.random((1500, 14))])
    z = rng.random(14)
    assert min(_timed(history, z) for _ in range(20)) < 1e-3


def _timed(history, z):
    begin = time.perf_counter()
    history.nearest(z, 0.3)
    return time.perf_counter() - begin


def test_the_papers_distance():
    assert paper_distance(300) == pytest.approx(0.3293, abs=1e-4)
