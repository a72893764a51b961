"""What one release keeps between its stages: the same integers, the same pairs, and nothing beyond its room."""

import numpy as np
import pandas as pd
import pytest

import pellucid as pel
from pellucid.engine import Kept, LocalEngine
from pellucid.query import Couples, Joint, Pairs, Records, Sum
from pellucid.query.bounds import Box

SCHEMA = pel.Schema({"a": pel.Number(0, 1), "b": pel.Number(0, 1)})
ROWS = 501


@pytest.fixture
def engine():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"a": rng.random(ROWS), "b": rng.random(ROWS)})
    return LocalEngine(data, SCHEMA, "replace", pel.Unit(), batch_rows=64)


def products(over):
    """Other totals for other pairs."""
    return Sum(lambda rows, others: (rows["a"] * others["b"])[:, None], Box(1, 0.0, 1.0), over=over, columns=("a", "b"))


def means(*columns):
    box = Box(len(columns), 0.0, 1.0)
    return Sum(lambda rows: np.stack([rows[name] for name in columns], axis=1), box, over=Records(), columns=columns)


@pytest.mark.parametrize("over", [Pairs(), Couples()])
def test_stages_of_one_release_see_the_same_pairs_and_others_do_not(engine, over):
    kept = Kept()
    assert engine.totals(products(over), kept) == engine.totals(products(over), kept)
    again = [engine.totals(products(over), Kept()) for _ in range(5)] + [engine.totals(products(over)) for _ in range(5)]
    assert len({tuple(found) for found in again}) > 5


@pytest.mark.parametrize("over", [Pairs(), Couples(), Pairs(3), Couples(2)])
@pytest.mark.parametrize("rows", [ROWS - 1, ROWS, ROWS + 1])
@pytest.mark.parametrize("room", [0, 2 * ROWS, 12 * ROWS, 14 * ROWS, 14 * ROWS + 8 * 64, 22 * ROWS])
def test_how_many_rows_there_are_does_not_decide_whether_stages_share_an_order(over, rows, room):
    """Tables of which one has room for its orders and its neighbour has not would be told apart by two answers."""
    data = pd.DataFrame({"a": np.random.default_rng(0).random(rows), "b": np.random.default_rng(1).random(rows)})
    engine = LocalEngine(data, SCHEMA, "replace" if isinstance(over, Couples) else "add-remove", pel.Unit(), batch_rows=64)
    kept = Kept(room)
    same = engine.totals(products(over), kept) == engine.totals(products(over), kept)
    # Of several repeats the first order is shared and the others are not, with much room and with none.
    assert same == (over.repeats == 1)


def test_repeats_are_draws_of_their_own_of_which_the_first_is_shared(engine):
    kept, whole = Kept(), []

    def noted(rows, others):
        whole.append((rows, others))
        return np.zeros((len(rows), 1))

    asked = [Sum(noted, Box(1, 0.0, 1.0), over=Pairs(repeats), columns=("a", "b")) for repeats in (1, 3)]
    engine.totals(asked[0], kept)
    engine.totals(asked[1], kept)
    pieces = -(-ROWS // 64)
    first, then = whole[:pieces], whole[pieces:]
    assert all(one is other for one, other in zip((r for pair in first for r in pair), (r for pair in then for r in pair)))
    orders = {np.concatenate([rows["a"] for rows, _ in then[k * pieces :][:pieces]]).tobytes() for k in range(3)}
    assert len(orders) == 3


@pytest.mark.parametrize("room", [0, ROWS * 4, 1 << 20])
def test_what_is_kept_changes_no_integer(engine, room):
    kept, plain = Kept(room), engine.totals(Joint([means("a", "b"), means("b")]))
    for _ in range(2):
        assert engine.totals(Joint([means("a", "b"), means("b")]), kept) == plain
        assert engine.totals(means("a"), kept) == plain[:1]


def test_a_map_sees_the_columns_it_named_also_where_more_are_kept(engine):
    kept, seen = Kept(), []

    def noted(rows):
        seen.append(set(rows.columns))
        return rows["b"][:, None]

    engine.totals(Joint([means("a", "b"), Sum(noted, Box(1, 0.0, 1.0), columns=("b",))]), kept)
    assert seen and all(names == {"b"} for names in seen)


def test_without_room_nothing_stays():
    kept = Kept(room=10)
    made = [kept.once("small", 4, object) for _ in range(2)] + [kept.once("large", 7, object) for _ in range(2)]
    assert made[0] is made[1] and made[2] is not made[3]
    assert kept.holds("small", 100) and not kept.holds("large", 7) and kept.holds("other", 6)
    with pytest.raises(TypeError, match="not saved"):
        kept.__reduce__()
