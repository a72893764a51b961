"""What every engine must do, checked against plain loops over single rows: inherit `EngineConformance` and say how to make one.

    class TestMine(EngineConformance):
        def make(self, frame, schema, relation="replace", unit=pel.Unit()):
            return MyEngine(...)

The oracle beside it decodes every cell by itself and adds up what the bound says of one row, pair or block at a time. It sees the
keys of secret labels that the engine drew, so it can tell which rows must stay, who must be paired with whom and which block is
whose.
"""

import hashlib
import math
import os
import pickle
import secrets
import struct
import warnings
from abc import ABC, abstractmethod
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from sources import Seeded

import pellucid as pel
from pellucid.mechanisms import source
from pellucid.public.rows import Rows
from pellucid.query import Blocks, Couples, Joint, Pairs, Records, Sum
from pellucid.query.bounds import Ball, Box, Cells, CountedBox, CrossCells
from pellucid.query.functions import BlockFunction, Limits, sent_whole

sent_whole(__name__)

SCHEMA = pel.Schema(
    {
        "age": pel.Number(0, 16, integer=True, missing=7),
        "lab": pel.Number(0, 4, missing=float("nan")),
        "word": pel.Number(-1, 1),
        "sex": pel.Category(["F", "M", "X"], missing="X", unknown="M"),
        "code": pel.Category([0, 1, 2], unknown=2),
        "smoker": pel.Boolean(),
    }
)
RELATIONS = ("replace", "add-remove")
UNITS = (pel.Unit(), pel.Unit("id"), pel.Unit("id", max_rows=3))
ODD = {
    "age": [math.nan, math.inf, -math.inf, 1e300, -3.0, 2.5],
    "lab": [math.nan, math.inf, -1e300, 4.000001, -0.0],
    "word": [None, "", "eleven", "1e999", "-inf", " 0.25 ", "nan"],
    "sex": [None, "", "f", "Q", "F ", "1"],
    "code": [-1, 7, 10**12],
}


def people(size=90, seed=0):
    """A table whose cells have types that every kind of storage knows; every third one is hostile."""
    rng = np.random.default_rng(seed)
    columns = {
        "age": rng.integers(0, 17, size).astype(float),
        "lab": rng.integers(0, 65, size) / 16,
        "word": [str(v) for v in rng.integers(-8, 9, size) / 8],
        "sex": rng.choice(["F", "M", "X"], size).tolist(),
        "code": rng.integers(0, 3, size),
        "smoker": rng.random(size) < 0.5,
        "id": [None if v < 2 else f"p{v}" for v in rng.integers(0, 25, size)],
    }
    for name, cells in ODD.items():
        for i in range(0, size, 3):
            columns[name][i] = cells[rng.integers(len(cells))]
    text = {name: pd.array(columns[name], dtype="str") for name in ("word", "sex", "id")}
    return pd.DataFrame({**columns, **text})


def means(rows):
    return np.stack([rows["age"] / 16, rows["lab"] / 4, rows["word"]], axis=1)


def cells(rows):
    return rows["code"].astype(int)[:, None], np.full((len(rows), 1), 0.75), (rows["age"] - 8)[:, None]


def groups(rows):
    return rows["sex"].astype(int), [rows["code"].astype(int), rows["smoker"].astype(int)]


def count(rows):
    return np.ones((len(rows), 1))


def conditions(rows):
    """Every cell in one of four conditions, column after column."""
    return np.zeros(len(rows), dtype=int), [rows.conditions[name].astype(int) for name in ALL]


def where_known(rows):
    return ~(rows.absent("word") | rows.absent("sex")), np.stack([rows["word"], rows["age"] / 16], axis=1)


def known_of_two(rows, others):
    share = np.mean([~some.absent("word") for some in (rows, others)], axis=0)
    return share, (rows["word"] * others["age"] / 16)[:, None]


def differences(rows, others):
    return np.stack([(rows["age"] - others["age"]) / 16, rows["smoker"] * others["word"]], axis=1)


def block_means(rows):
    return [rows["age"].mean() / 16, float(len(rows))] if len(rows) else [0.5, 0.0]


ALL = tuple(SCHEMA)
OF_CONDITIONS = (
    Sum(conditions, CrossCells(1, (4,) * len(ALL)), columns=ALL, conditions=ALL),
    Sum(where_known, CountedBox(2, -1, 1, count=True, left_out=True), columns=("age", "word", "sex"), conditions=("word", "sex")),
)
OF_RECORDS = (
    Sum(means, Box(3, -1, 1, count=True), columns=("age", "lab", "word")),
    Sum(means, Ball(3, 1.0), columns=ALL),
    Sum(cells, Cells(3, value=5.0), columns=("age", "code")),
    Sum(groups, CrossCells(3, (3, 2)), columns=("sex", "code", "smoker")),
    Sum(count, Box(1, 0, 1)),
)


def over(kind):
    """A sum over pairs, couples or blocks."""
    if isinstance(kind, Blocks):
        return Sum(block_means, Box(2, 0, 20), over=kind, columns=("age",))
    return Sum(differences, Box(2, -1, 1), over=kind, columns=("age", "smoker", "word"))


class Keys(Seeded):
    """Keys of secret labels that are written down."""

    def __init__(self, seed=0):
        super().__init__(seed)
        self.drawn = []

    def bits(self, count):
        self.drawn.append(super().bits(count))
        return self.drawn[-1]


@contextmanager
def written_keys(seed=0):
    before, source.current = source.current, Keys(seed)
    try:
        yield source.current.drawn
    finally:
        source.current = before


def label_of(key, about, number):
    """(upper half, lower half) of one block of AES."""
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return struct.unpack("<QQ", cipher.update(struct.pack("<QQ", about, number)))


def label_of_text(key, text):
    own = b"".join(struct.pack("<QQ", *label_of(key, 3, i)) for i in range(4))
    return struct.unpack("<QQ", hashlib.blake2b(text.encode(), key=own, digest_size=16).digest())


class Oracle:
    """The totals of a table by plain loops, given the keys that an engine drew for it, first that of its opening."""

    def __init__(self, frame, schema, relation, unit, keys):
        self.schema, self.relation, self.keys = schema, relation, list(keys)
        self.rows = [{name: self.inside(schema[name], row[name]) for name in schema} for row in _rows(frame)]
        self.conditions = [{name: self.condition(schema[name], row[name]) for name in schema} for row in _rows(frame)]
        self.person = None
        self.parts = [None] * len(self.rows)
        if unit.column:
            ids = [None if pd.isna(row[unit.column]) else row[unit.column] for row in _rows(frame)]
            self.known = list(dict.fromkeys(i for i in ids if i is not None))
            self.person = [None if i is None else self.known.index(i) for i in ids]
            key = self.next_key()
            self.parts = self.kept(unit.max_rows, [label_of(key, 0, i) for i in range(len(ids))])
        self.units = len(self.rows) if self.person is None else len(set(self.person) - {None})

    def next_key(self):
        assert self.keys, "labels were not drawn from the source of randomness"
        key = self.keys.pop(0)
        assert len(key) == 32, "one key is drawn for each order"
        return key

    def next_labels(self):
        """The label of every unit, under the next key: of a row by its number, of a person by the id."""
        key = self.next_key()
        if self.person is None:
            return [label_of(key, 0, i) for i in range(len(self.rows))]
        return [label_of_text(key, one) for one in self.known]

    @staticmethod
    def inside(feature, cell):
        """A cell in its declared domain."""
        if isinstance(feature, pel.Number):
            try:
                number = float(cell)
            except (TypeError, ValueError):
                number = math.nan
            if math.isnan(number):
                return feature.missing if feature.missing != "exclude" else (feature.lo + feature.hi) / 2
            number = min(max(number, feature.lo), feature.hi)
            return float(round(number)) if feature.integer else number
        said = feature.missing if pd.isna(cell) else cell if cell in feature.values else feature.unknown
        return float(feature.values.index(said)) if said in feature.values else 0.0

    @staticmethod
    def condition(feature, cell):
        """0 of a cell as declared, 1 of an empty one, 2 of one that is no number or not declared, 3 of one out of range."""
        if cell is None or cell != cell:
            return 1
        if isinstance(feature, pel.Category):
            return 0 if cell in feature.values else 2
        if isinstance(cell, str) and cell.strip() in ("", "nan"):
            return 1
        try:
            return 0 if feature.lo <= float(cell) <= feature.hi else 3
        except ValueError:
            return 2

    def kept(self, most, labels):
        """How many rows the owner of each row keeps; 0 for a row that goes."""
        parts = [0] * len(self.rows)
        for person in set(self.person) - {None}:
            own = sorted((i for i, p in enumerate(self.person) if p == person), key=lambda i: labels[i])[:most]
            for i in own:
                parts[i] = len(own)
        return parts

    def of(self, *index):
        """These rows as a map sees them."""
        columns = {name: np.array([self.rows[i][name] for i in index], dtype=float) for name in self.schema}
        conditions = {name: np.array([self.conditions[i][name] for i in index], dtype=np.uint8) for name in self.schema}
        return Rows(self.schema, columns, conditions=conditions)

    def totals(self, query):
        total = []
        for part in query.sums if isinstance(query, Joint) else [query]:
            own = [0] * part.size
            for contribution, share in self.contributions(part):
                parts = None if share is None else np.array([share])
                own = [a + b for a, b in zip(own, part.bound.totals(contribution, parts))]
            total += own
        return total

    def contributions(self, part):
        if isinstance(part.over, Records):
            return [(part.map(self.of(i)), self.parts[i]) for i in range(len(self.rows))]
        if isinstance(part.over, Blocks):
            return [(self.answer(part.map, self.of(*block)), None) for block in self.blocks(part.over.count)]
        found = []
        for _ in range(part.over.repeats if self.rows else 0):
            for i, j in self.pairs() if isinstance(part.over, Pairs) else self.couples():
                # Every repeat, and every row of a person, may use its part of the set.
                share = (self.parts[i] or 1) * part.over.repeats
                alone = self.person is None and part.over.repeats == 1
                found.append((part.map(self.of(i), self.of(j)), None if alone else share))
        return found

    def answer(self, map, rows):
        if not isinstance(map, BlockFunction):
            return np.array([map(rows)], dtype=float)
        try:
            return np.array([map.adapt(map.function(rows.frame()))], dtype=float)
        except ArithmeticError:
            return np.array([map.default], dtype=float)

    def pairs(self):
        """(row, row of the next unit in the cyclic order of labels)."""
        own = {i: [i] for i in range(len(self.rows))}
        if self.person is not None:
            own = {p: [i for i, q in enumerate(self.person) if q == p and self.parts[i]] for p in range(self.units)}
        labels = self.next_labels()
        order = sorted(own, key=lambda unit: labels[unit])
        for unit, donor in zip(order, order[1:] + order[:1]):
            for k, i in enumerate(own[unit]):
                yield i, own[donor][k % len(own[donor])]

    def couples(self):
        """Ranks 2j and 2j + 1."""
        labels = self.next_labels()
        order = sorted(range(len(self.rows)), key=lambda i: labels[i])
        return zip(order[0::2], order[1::2])

    def blocks(self, count):
        labels = self.next_labels()
        if self.relation == "replace":
            order = sorted(range(self.units), key=lambda unit: labels[unit])
            block = {unit: rank * count // self.units for rank, unit in enumerate(order)}
        else:
            block = {unit: labels[unit][1] % count for unit in range(self.units)}
        owner = range(len(self.rows)) if self.person is None else self.person
        kept = [i for i in range(len(self.rows)) if self.parts[i] != 0]
        return [[i for i in kept if block[owner[i]] == b] for b in range(count)]


def _rows(frame):
    return [dict(zip(frame, row)) for row in frame.itertuples(index=False, name=None)]


def mean_or_nothing(rows):
    """Fails on some blocks, for reasons in the data."""
    return [rows["age"].mean() / 16, 1 / (len(rows) % 4)]


calls = []


def counted(rows):
    """How often it was called in this process."""
    calls.append(len(rows))
    return [len(calls)]


def as_it_is(answer):
    return answer


FEW = Limits(workers=1)


class Notes:
    """What maps write down, in whichever process they run."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notes")
        os.makedirs(self.path, exist_ok=True)

    def add(self, note):
        with open(os.path.join(self.path, secrets.token_hex(8)), "wb") as file:
            file.write(pickle.dumps(note))

    def all(self):
        found = []
        for name in os.listdir(self.path):
            with open(os.path.join(self.path, name), "rb") as file:
                found.append(pickle.loads(file.read()))
        return found

    def clear(self):
        for name in os.listdir(self.path):
            os.unlink(os.path.join(self.path, name))


class EngineConformance(ABC):
    """The tests that every engine passes."""

    @pytest.fixture(autouse=True)
    def folder_for_files(self, tmp_path):
        self.folder = tmp_path

    @abstractmethod
    def make(self, frame, schema, relation="replace", unit=UNITS[0]):
        """An engine on this table."""

    @abstractmethod
    def change(self, frame):
        """Change the table under the engine that was made of it last: all ages are 16 now."""

    def made(self, frame, relation="replace", unit=UNITS[0], seed=0):
        """An engine, and an oracle that knows the keys of its opening and of every question after it."""
        with written_keys(seed) as drawn:
            engine = self.make(frame, SCHEMA, relation, unit)
        return engine, lambda more: Oracle(frame, SCHEMA, relation, unit, [*drawn, *more])

    def compare(self, frame, query, relation="replace", unit=UNITS[0]):
        for seed in range(3):
            engine, oracle = self.made(frame, relation, unit, seed)
            with written_keys(seed + 10) as drawn:
                found = engine.totals(query)
            asked = oracle(drawn)
            assert found == asked.totals(query) and all(type(v) is int for v in found)
            assert not asked.keys, "more keys were drawn than are needed"

    @pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.text)
    @pytest.mark.parametrize("relation", RELATIONS)
    def test_records(self, relation, unit):
        for query in (*OF_RECORDS, Joint(OF_RECORDS)):
            self.compare(people(), query, relation, unit)

    @pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.text)
    @pytest.mark.parametrize("relation", RELATIONS)
    @pytest.mark.parametrize("kind", [Pairs(), Pairs(3), Blocks(1), Blocks(7), Blocks(200)], ids=repr)
    def test_pairs_and_blocks(self, kind, relation, unit):
        self.compare(people(), over(kind), relation, unit)

    @pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.text)
    @pytest.mark.parametrize("relation", RELATIONS)
    def test_conditions_of_cells(self, relation, unit):
        """What a sum asks to know beside the values: which cells were missing, unreadable or out of range."""
        for query in OF_CONDITIONS:
            self.compare(people(), query, relation, unit)
        pairs = [Pairs(), Pairs(3)] + ([Couples(2)] if relation == "replace" and unit == UNITS[0] else [])
        for kind in pairs:
            counted = CountedBox(1, -1, 1, count=True)
            self.compare(people(), Sum(known_of_two, counted, kind, ("age", "word"), ("word",)), relation, unit)

    @pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.text)
    def test_the_owner_is_told_how_many_cells_are_not_as_declared(self, unit):
        frame = people()
        found = self.made(frame, "add-remove", unit)[0].check()
        conditions = Oracle(frame, SCHEMA, "add-remove", UNITS[0], []).conditions
        assert found.rows == 90 and [column.name for column in found.columns] == list(ALL)
        for column in found.columns:
            wanted = [row[column.name] for row in conditions]
            assert list(column.conditions.values()) == [wanted.count(1 + i) for i in range(len(column.conditions))]
            assert sum(cause.cells for cause in column.causes) == wanted.count(2) + wanted.count(3)
        assert (found.ids is None) == (unit.column is None)
        if found.ids is not None:
            rows = [i for i in frame[unit.column] if i is not None and i == i and str(i).strip()]
            often = [rows.count(one) for one in set(rows)]
            surplus = [number - unit.max_rows for number in often if number > unit.max_rows]
            assert (found.ids.people, found.ids.without) == (len(often), 90 - len(rows))
            assert (found.ids.above, found.ids.left_out) == (len(surplus), sum(surplus))

    @pytest.mark.parametrize("kind", [Couples(), Couples(3)], ids=repr)
    def test_couples(self, kind):
        for size in (90, 91):
            self.compare(people(size), over(kind))

    def test_a_joint_query_over_everything(self):
        self.compare(people(), Joint([over(Blocks(5)), OF_RECORDS[0], over(Pairs(2)), over(Couples())]))

    @pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.text)
    def test_sums_that_read_other_columns_and_conditions_side_by_side(self, unit):
        """However an engine shares its passes, each map sees the columns and conditions that its sum names, and no others."""
        notes = Notes(self.folder)

        def look(rows):
            notes.add((tuple(rows.columns), tuple(rows.conditions)))
            return count(rows)

        looks = [
            Sum(look, Box(1, 0, 1), columns=("sex", "age")),
            Sum(look, Box(1, 0, 1), columns=("word",), conditions=("word",)),
        ]
        joint = Joint([*OF_CONDITIONS, *OF_RECORDS, over(Pairs()), *looks])
        self.compare(people(), joint, "replace", unit)
        notes.clear()
        self.made(people(), "replace", unit)[0].totals(joint)
        assert {(("sex", "age"), ()), (("word",), ("word",))} == set(notes.all())

    @pytest.mark.parametrize("relation", RELATIONS)
    def test_couples_need_a_public_number_of_records(self, relation):
        unit = UNITS[1] if relation == "replace" else UNITS[0]
        engine, _ = self.made(people(), relation, unit)
        with pytest.raises(pel.ReleaseFailed):
            engine.totals(over(Couples()))

    @pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.text)
    @pytest.mark.parametrize("size", [0, 1, 2])
    def test_hardly_anybody(self, size, unit):
        for query in (*OF_RECORDS, *OF_CONDITIONS, over(Pairs(2)), over(Blocks(3))):
            self.compare(people(3).iloc[:size], query, "add-remove", unit)
            if size:
                self.compare(people(3).iloc[:size], query, "replace", unit)

    def test_nobody_has_an_id(self):
        frame = people(6).assign(id=pd.array([None] * 6, dtype="str"))
        for query in (*OF_RECORDS, over(Pairs(2)), over(Blocks(3))):
            self.compare(frame, query, "add-remove", UNITS[2])

    @pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.text)
    def test_how_many_there_are(self, unit):
        for size in (0, 1, 90):
            frame = people(90).iloc[:size]
            engine, oracle = self.made(frame, "add-remove", unit)
            assert engine.rows == size and engine.units == oracle([]).units

    @pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.text)
    def test_batches_are_all_records_in_order(self, unit):
        """Hostile cells take their declared values, each by itself."""
        frame = people(200, seed=5)
        engine, oracle = self.made(frame, unit=unit)
        wanted = oracle([])
        for columns in (ALL, ("sex", "age")):
            for _ in range(2):
                batches = list(engine.batches(columns))
                assert all(set(columns) <= set(batch.columns) for batch in batches)
                for name in columns:
                    read = np.concatenate([batch[name] for batch in batches])
                    np.testing.assert_array_equal(read, [row[name] for row in wanted.rows])
                    assert read.dtype == np.float64
                parts = [None] * len(frame) if unit.column is None else np.concatenate([b.parts for b in batches]).tolist()
                assert parts == wanted.parts and all(batch.schema is SCHEMA for batch in batches)

    def test_the_order_of_rows_does_not_matter(self):
        frame = people()
        for unit in (pel.Unit(), pel.Unit("id", max_rows=100)):
            totals = []
            for seed in range(3):
                shuffled = frame.sample(frac=1, random_state=seed) if seed else frame
                totals.append(self.made(shuffled, unit=unit)[0].totals(Joint(OF_RECORDS)))
            assert totals[0] == totals[1] == totals[2]

    def test_labels_do_not_depend_on_content(self):
        """Two tables of other people, row by row: the same labels give the same partners and the same blocks."""
        seen = {}
        for who in ("one", "other"):
            frame = people().assign(age=np.arange(90) % 17 if who == "one" else 16.0, lab=np.arange(90) / 32)
            engine, notes = self.made(frame)[0], Notes(self.folder)
            notes.clear()

            def look(rows, others, notes=notes):
                notes.add(("pairs", sorted(zip(rows["lab"].tolist(), others["lab"].tolist()))))
                return np.zeros((len(rows), 1))

            def look_at_block(rows, notes=notes):
                notes.add(("block", np.sort(rows["lab"]).tolist()))
                return [0.0]

            with written_keys():
                engine.totals(Sum(look, Box(1, 0, 1), over=Pairs(), columns=("age", "lab")))
                engine.totals(Sum(look_at_block, Box(1, 0, 1), over=Blocks(6), columns=("age", "lab")))
            pairs = sorted(pair for kind, some in notes.all() if kind == "pairs" for pair in some)
            seen[who] = pairs, sorted(some for kind, some in notes.all() if kind == "block")
        assert seen["one"] == seen["other"] and len(seen["one"][0]) == 90 and sum(map(len, seen["one"][1])) == 90

    @pytest.mark.parametrize("relation", RELATIONS)
    def test_a_function_of_blocks(self, relation):
        """It may fail on some of its blocks; the owner alone is told."""
        function = BlockFunction(mean_or_nothing, as_it_is, (0.25, 0.75), FEW)
        query = Sum(function, Box(2, 0, 1), over=Blocks(8), columns=ALL)
        engine, oracle = self.made(people(), relation, UNITS[2])
        with written_keys() as drawn:
            found = engine.totals(query)
        assert found == oracle(drawn).totals(query)
        assert engine.outcomes.blocks == 8 == engine.outcomes.answered + engine.outcomes.failed

    def test_a_function_of_blocks_runs_in_processes_of_its_own(self):
        calls.clear()
        engine, _ = self.made(people())
        found = engine.totals(Sum(BlockFunction(counted, as_it_is, (0.0,), FEW), Box(1, 0, 2), over=Blocks(3), columns=ALL))
        assert calls == [], "user code ran where the records are"
        assert found == [0], "a block saw what another has left: the middle of the range is one call"

    @pytest.mark.parametrize("error", [ValueError, pel.ReleaseFailed, AssertionError, BaseException])
    @pytest.mark.parametrize("kind", [Records(), Pairs(), Blocks(3)], ids=repr)
    def test_errors_say_nothing_about_data(self, kind, error):
        def tells(rows, *others):
            raise error(f"the secret is {rows['age'].tolist()}")

        engine, _ = self.made(people())
        with pytest.raises(pel.ReleaseFailed, match="stays spent") as caught:
            engine.totals(Sum(tells, Box(1, 0, 1), over=kind, columns=("age",)))
        assert "secret" not in str(caught.value) and caught.value.__cause__ is None and caught.value.__context__ is None

    def test_an_interrupt_stays_one_and_warnings_are_not_shown(self):
        def interrupted(rows):
            raise KeyboardInterrupt("the secret")

        def warned(rows):
            warnings.warn(f"the secret is {rows['age'].tolist()}", stacklevel=1)
            return (rows["age"] / np.zeros(len(rows)))[:, None]

        engine, _ = self.made(people())
        with pytest.raises(KeyboardInterrupt) as caught:
            engine.totals(Sum(interrupted, Box(1, 0, 1), columns=("age",)))
        assert caught.value.args == ()
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            engine.totals(Sum(warned, Box(1, 0, 1), columns=("age",)))
        assert not shown

    @pytest.mark.parametrize("unit", UNITS[:2], ids=lambda u: u.text)
    def test_a_table_that_changes_is_not_the_one_that_was_opened(self, unit):
        """The engine has its own, or refuses; whose row is whose was settled when it was opened."""
        frame = people()
        engine, _ = self.made(frame, unit=unit)
        engine.check_unchanged()
        before = engine.totals(OF_RECORDS[0])
        assert engine.totals(OF_RECORDS[0]) == before
        self.change(frame)
        try:
            after = engine.totals(OF_RECORDS[0])
        except pel.ReleaseFailed as refusal:
            assert "changed" in str(refusal)
            with pytest.raises(pel.ReleaseFailed, match="changed"):
                engine.check_unchanged()
        else:
            assert after == before
            engine.check_unchanged()

    @pytest.mark.parametrize("unit", UNITS[:2], ids=lambda u: u.text)
    def test_a_table_that_changes_while_it_is_read_gives_nothing(self, unit):
        """Rows of another table must not get the parts of this one's: checked before reading is not checked."""
        frame = people()
        engine, _ = self.made(frame, unit=unit)
        before, met = engine.totals(OF_RECORDS[0]), Notes(self.folder)
        change = self.change

        def changing(rows):
            if not met.all():
                change(frame)
            met.add(len(rows))
            return means(rows)

        try:
            after = engine.totals(Sum(changing, OF_RECORDS[0].bound, columns=("age", "lab", "word")))
        except pel.ReleaseFailed as refusal:
            assert "changed" in str(refusal) and "stays spent" in str(refusal)
            with pytest.raises(pel.ReleaseFailed, match="nothing more was charged"):
                engine.check_unchanged()
        else:
            assert after == before
        assert met.all(), "the map was not called"

    def test_batches_of_a_table_that_changes_meanwhile_have_no_end(self):
        """Whoever has seen the last batch has seen one table."""
        frame = people()
        engine, oracle = self.made(frame, unit=UNITS[1])
        read = []
        try:
            for batch in engine.batches(("age",)):
                if not read:
                    self.change(frame)
                read += batch["age"].tolist()
        except pel.ReleaseFailed as refusal:
            assert "changed" in str(refusal)
        else:
            assert read == [row["age"] for row in oracle([]).rows]
