"""The engines of the package pass the suite, and engines that are broken on purpose do not."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from engine_conformance import UNITS, EngineConformance

from pellucid.engine import Kept, LocalEngine, ProcessEngine, kernel
from pellucid.engine.tables import MemoryTable, ParquetTable
from pellucid.mechanisms import labels as secret
from pellucid.mechanisms.labels import Labels
from pellucid.query import Blocks, Pairs, parts_of


class TestInMemory(EngineConformance):
    options = {}

    def make(self, frame, schema, relation="replace", unit=UNITS[0]):
        # An array that others can write to is not copied on its way into the engine.
        self.ages = frame["age"].to_numpy().copy()
        return LocalEngine({**frame, "age": self.ages}, schema, relation, unit, **self.options)

    def change(self, frame):
        self.ages[:] = 16.0


@pytest.mark.slow  # between two that are not
class TestInSmallBatches(TestInMemory):
    options = {"batch_rows": 7}


class TestLargerThanMemory(TestInMemory):
    """Every order goes through files, in many buckets of which some are empty."""

    options = {"batch_rows": 7, "held": 300}


@pytest.mark.slow  # between two that are not
class TestInFewBuckets(TestInMemory):
    options = {"batch_rows": 50, "held": 3000}


class TestOnAFile(EngineConformance):
    def make(self, frame, schema, relation="replace", unit=UNITS[0]):
        frame.to_parquet(self.folder / "people.parquet", row_group_size=16)
        return LocalEngine(self.folder / "people.parquet", schema, relation, unit, batch_rows=50)

    def change(self, frame):
        frame.assign(age=16.0).to_parquet(self.folder / "people.parquet")


class TestOnAFolder(EngineConformance):
    options: dict[str, int] = {}

    def make(self, frame, schema, relation="replace", unit=UNITS[0]):
        for name, start, stop in (("a", 0, 20), ("b", 20, 21), ("c/d", 21, len(frame))):
            path = self.folder / f"{name}.parquet"
            path.parent.mkdir(exist_ok=True)
            frame.iloc[start:stop].to_parquet(path)
        return LocalEngine(self.folder, schema, relation, unit, **self.options)

    def change(self, frame):
        frame.iloc[20:21].assign(age=16.0).to_parquet(self.folder / "b.parquet")


class TestOnALargeFolder(TestOnAFolder):
    """Orders go through files; batches of rows end where files of the table do."""

    options = {"held": 300}


@pytest.mark.slow
class TestSeveralProcesses(TestInMemory):
    """Slow, because every engine starts two processes; `test_processes` has what is quick."""

    def make(self, frame, schema, relation="replace", unit=UNITS[0]):
        self.ages = frame["age"].to_numpy().copy()
        return ProcessEngine({**frame, "age": self.ages}, schema, relation, unit, **self.options, workers=2)


class DropsTheLast(LocalEngine):
    def _read(self, *asked):
        batches = list(super()._read(*asked))
        batches[-1] = batches[-1].take(np.arange(len(batches[-1]) - 1))
        yield from batches


class CountsOneTwice(LocalEngine):
    def _read(self, *asked):
        for i, batch in enumerate(super()._read(*asked)):
            yield batch.take(np.r_[0, np.arange(len(batch))]) if i == 0 else batch


class LabelsFromContent(LocalEngine):
    """Orders by age. Keys are drawn as they should be, and labels thrown away."""

    def totals(self, query):
        ages = np.concatenate([rows["age"] for rows in self.batches(("age",))]).astype(np.uint64)

        def by_age(labels, start, stop):
            return np.stack([ages[start:stop], np.arange(start, stop, dtype=np.uint64)], axis=1)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Labels, "of_rows", by_age)
            return super().totals(query)


class KeepsTheFirst(LocalEngine):
    """Which rows of a person stay does not depend on labels."""

    def __init__(self, *arguments):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Labels, "of_row_numbers", lambda _, n: np.stack([n, n], axis=1).astype(np.uint64))
            super().__init__(*arguments)


class OneKeyForAll(LocalEngine):
    """Draws a key for every order, and uses the first one."""

    def totals(self, query):
        first = []

        def once(fresh=secret.fresh):
            first.append(fresh())
            return first[0]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(secret, "fresh", once)
            return super().totals(query)


class BalancedForEverybody(LocalEngine):
    """Blocks of equal size need a public number of records."""

    def _contributions(self, part, kept):
        self.relation, before = "replace", self.relation
        try:
            return super()._contributions(part, kept)
        finally:
            self.relation = before


class ForgetsParts(LocalEngine):
    """Every row of a person counts as a whole person."""

    def _read(self, *asked):
        for rows in super()._read(*asked):
            rows.parts = np.minimum(rows.parts, 1)
            yield rows


class TakesEverythingForFine(LocalEngine):
    """Says of no cell that it was not as declared."""

    def _read(self, *asked):
        for rows in super()._read(*asked):
            rows.conditions = {name: np.zeros_like(found) for name, found in rows.conditions.items()}
            yield rows


class Talks(LocalEngine):
    """Lets errors of maps through."""

    def totals(self, query):
        return [v for part in parts_of(query) for v in kernel.total(part, self._contributions(part, Kept(room=0)))]


class RunsFunctionsHere(LocalEngine):
    def totals(self, query):
        def here(function, blocks, count, note):
            return (function.adapt(function.function(rows.frame())) for rows in blocks)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernel, "run_on_blocks", here)
            return super().totals(query)


class ReadsWhatIsThere(LocalEngine):
    """Opens the file again for every question."""

    def totals(self, query):
        again = LocalEngine(self.table.paths[0], self.schema, self.relation, self.unit)
        again.people = self.people
        return again.totals(query)

    def check_unchanged(self):
        pass


class ByName(ParquetTable):
    """Reads whatever file has the name."""

    def batches(self, columns, size):
        for path in self.paths:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(size, columns=list(columns)):
                    yield {name: batch.column(name) for name in columns}


class ChecksOnlyBefore(LocalEngine):
    """Compares the files with those that were opened, and then reads them."""

    def __init__(self, folder, *arguments):
        super().__init__(folder, *arguments)
        self.table = ByName(self.table.paths)

    def _read(self, columns, size, conditions=()):
        batches = super()._read(columns, size, conditions)
        yield next(batches)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self, "check_unchanged", lambda: None)
            yield from batches


class Shares(LocalEngine):
    """Keeps no copy of a table in memory."""

    def __init__(self, *arguments):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MemoryTable, "kept", lambda self: self)
            super().__init__(*arguments)


SABOTAGED = [
    (DropsTheLast, lambda suite: suite.test_records("replace", UNITS[0])),
    (DropsTheLast, lambda suite: suite.test_batches_are_all_records_in_order(UNITS[0])),
    (CountsOneTwice, lambda suite: suite.test_records("add-remove", UNITS[0])),
    (CountsOneTwice, lambda suite: suite.test_batches_are_all_records_in_order(UNITS[0])),
    (LabelsFromContent, lambda suite: suite.test_pairs_and_blocks(Pairs(), "replace", UNITS[0])),
    (LabelsFromContent, lambda suite: suite.test_pairs_and_blocks(Blocks(7), "add-remove", UNITS[0])),
    (LabelsFromContent, lambda suite: suite.test_labels_do_not_depend_on_content()),
    (OneKeyForAll, lambda suite: suite.test_pairs_and_blocks(Pairs(3), "replace", UNITS[1])),
    (KeepsTheFirst, lambda suite: suite.test_records("replace", UNITS[1])),
    (BalancedForEverybody, lambda suite: suite.test_pairs_and_blocks(Blocks(7), "add-remove", UNITS[0])),
    (ForgetsParts, lambda suite: suite.test_records("replace", UNITS[2])),
    (TakesEverythingForFine, lambda suite: suite.test_conditions_of_cells("replace", UNITS[0])),
    (RunsFunctionsHere, lambda suite: suite.test_a_function_of_blocks_runs_in_processes_of_its_own()),
]


class Suite(TestInMemory):
    """The suite for an engine that is broken."""

    __test__ = False

    def __init__(self, kind, folder=None):
        self.kind, self.folder = kind, folder

    def make(self, frame, schema, relation="replace", unit=UNITS[0]):
        return self.kind(frame, schema, relation, unit)


@pytest.mark.parametrize(("kind", "check"), SABOTAGED, ids=lambda v: getattr(v, "__name__", ""))
def test_a_broken_engine_is_noticed(kind, check, tmp_path):
    check(Suite(LocalEngine, tmp_path))
    with pytest.raises(AssertionError):
        check(Suite(kind, tmp_path))


def test_an_engine_that_talks_is_noticed():
    """The error itself comes out, which pytest does not take for the one that is expected."""
    for error in (ValueError, AssertionError):
        with pytest.raises(error, match="the secret"):
            Suite(Talks).test_errors_say_nothing_about_data(Pairs(), error)


def test_an_engine_that_checks_only_before_it_reads_is_noticed(tmp_path):
    class InAFolder(TestOnAFolder):
        __test__ = False
        kind = LocalEngine

        def make(self, frame, schema, relation="replace", unit=UNITS[0]):
            super().make(frame, schema, relation, unit)
            return self.kind(self.folder, schema, relation, unit)

    suite = InAFolder()
    for kind in (LocalEngine, ChecksOnlyBefore):
        for i, check in enumerate(
            (
                suite.test_batches_of_a_table_that_changes_meanwhile_have_no_end,
                lambda: suite.test_a_table_that_changes_while_it_is_read_gives_nothing(UNITS[0]),
                lambda: suite.test_a_table_that_changes_while_it_is_read_gives_nothing(UNITS[1]),
            )
        ):
            suite.kind, suite.folder = kind, tmp_path / f"{kind.__name__}-{i}"
            suite.folder.mkdir()
            if kind is LocalEngine:
                check()
            else:
                with pytest.raises(AssertionError):
                    check()


def test_an_engine_that_shares_its_table_is_noticed():
    class Shared(TestInMemory):
        __test__ = False

        def make(self, frame, schema, relation="replace", unit=UNITS[0]):
            super().make(frame, schema, relation, unit)
            return Shares({**frame, "age": self.ages}, schema, relation, unit)

    for unit in UNITS[:2]:
        with pytest.raises(AssertionError):
            Shared().test_a_table_that_changes_is_not_the_one_that_was_opened(unit)


def test_an_engine_that_overlooks_a_change_is_noticed(tmp_path):
    class OnAFile(TestOnAFile):
        __test__ = False

        def make(self, frame, schema, relation="replace", unit=UNITS[0]):
            engine = super().make(frame, schema, relation, unit)
            return ReadsWhatIsThere(engine.table.paths[0], schema, relation, unit)

    suite = OnAFile()
    suite.folder = tmp_path
    with pytest.raises(AssertionError):
        suite.test_a_table_that_changes_is_not_the_one_that_was_opened(UNITS[1])
