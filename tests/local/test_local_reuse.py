"""What was answered before: handed on within a distance, by the flag rule, and saved with the stream."""

import json
import time

import numpy as np
import pytest

from pellucid import PellucidError
from pellucid.local.reuse import Answered, History, paper_distance


def answered(*asked, kind="data", phi=None):
    return Answered(asked, phi or asked, kind)


def test_only_answers_from_data_are_handed_on():
    """0.30 lies within 0.2 of a handed-on answer at 0.15, but not of the one it came from."""
    history = History(1, [answered(0.0), answered(0.15, kind="reused"), answered(0.9, kind="history")])
    assert history.nearest((0.15,), 0.2) == (0, pytest.approx(0.15))
    assert history.nearest((0.30,), 0.2) is None and history.nearest((0.95,), 0.2) is None
    assert history.starts((0.9,)) == [0]
    records, explanations = history.fitted()
    assert records.tolist() == [[0.0]] and explanations.tolist() == [[0.0]]


def test_the_nearest_of_many():
    rng = np.random.default_rng(0)
    points = rng.random((300, 4))
    history = History(4, [answered(*map(float, point)) for point in points])
    for z in rng.random((20, 4)):
        away = np.linalg.norm(points - z, axis=1)
        assert history.nearest(z, 5.0) == (int(away.argmin()), pytest.approx(away.min()))
        assert history.starts(z, 5) == np.argsort(away)[:5].tolist()
    assert len(history.starts(points[0])) == 16 and History(4).starts(points[0]) == []
    assert History(4).nearest(points[0], 1.0) is None


def test_it_survives_being_written_down():
    history = History(2, [Answered((0.1, 0.2), (0.3, -0.4), "data", "1/3000", (0.01, 0.02), 1e-4, (), "1/100")])
    history.add(Answered((0.1, 0.25), (0.3, -0.4), "reused", leans_on=(0,)))
    again = History.from_list(2, json.loads(json.dumps(history.to_list())))
    assert again.answered == history.answered and again.nearest((0.1, 0.21), 0.1) == history.nearest((0.1, 0.21), 0.1)


def test_an_answer_of_another_stream_is_refused():
    with pytest.raises(PellucidError):
        History(3).add(answered(0.1, 0.2))


def test_reuse_is_quick():
    rng = np.random.default_rng(1)
    history = History(14, [answered(*map(float, point)) for point in rng.random((1500, 14))])
    z = rng.random(14)
    best = min(_timed(history, z) for _ in range(20))
    assert best < 2e-3


def _timed(history, z):
    begin = time.perf_counter()
    history.nearest(z, 0.3)
    return time.perf_counter() - begin


def test_the_papers_distance():
    assert paper_distance(300) == pytest.approx(0.3293, abs=1e-4)
