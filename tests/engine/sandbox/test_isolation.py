"""Isolation: whatever a user's function does, its block gets an answer of the right form, and no other block notices."""

import collections
import contextlib
import gc
import importlib
import importlib.util
import inspect
import math
import os
import secrets
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import cloudpickle
import numpy as np
import pandas as pd
import pytest

from pellucid.engine import sandbox as isolation
from pellucid.engine.sandbox import Isolated, Outcomes
from pellucid.errors import PlanError
from pellucid.query import functions
from pellucid.query.functions import ASSUMPTIONS, Limits

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
ONE = Limits(seconds=1, memory=2**29, workers=1)
ROOT = Path(isolation.__file__).parents[3]


def blocks(count, rows=3):
    """Blocks whose column `number` says which one it is."""
    return [
        {"number": np.full(rows, float(i)), "name": np.array(["é", None, "x"] * rows, dtype=object)[:rows]} for i in range(count)
    ]


def over(function, count=3, size=1, limits=ONE, adapt=None, at=None):
    """The answers of so many blocks, or of those at certain numbers, and what became of them."""
    run = Isolated(function, size, limits, adapt)
    given = blocks(count) if at is None else [blocks(number + 1)[number] for number in at]
    return np.array(list(run.over(given))), run.outcomes


def processes(owner=None):
    """Living processes that carry the mark of this process, or of another owner."""
    return isolation.processes.marked(f"{isolation.worker.MARK}={owner or os.getpid()}-".encode())


def kept():
    """The processes that may stay between runs: the zygote and one template."""
    found = processes()
    return len(found) <= 2 and (not found or isolation.zygote.kept.zygote.process.pid in found)


def gone(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


@pytest.fixture(autouse=True)
def nothing_is_left():
    """No test leaves more than what is kept on purpose."""
    yield
    if sys.platform == "linux":
        assert kept()


@pytest.fixture(autouse=True, scope="module")
def nothing_is_left_at_the_end():
    yield
    isolation.zygote.kept.close()
    if sys.platform == "linux":
        assert processes() == []


@pytest.fixture(params=[pytest.param(True, marks=posix), False], ids=["forked", "spawned"])
def way(request, monkeypatch):
    """Both ways to give a block a process of its own."""
    monkeypatch.setattr(isolation.pool, "FORK", request.param)
    return request.param


# What a friendly function gets.


def test_answers_come_in_the_order_of_the_blocks_in_the_form_asked_for(way):
    function = Isolated(lambda d: [d["number"].iloc[0], len(d), d["name"].isna().sum()], 3, ONE)
    answers = list(function.over(blocks(2)))
    assert all(answer.dtype == np.float64 and answer.shape == (3,) for answer in answers)
    np.testing.assert_array_equal(answers, [[0, 3, 1], [1, 3, 1]])
    assert function.outcomes == Outcomes(blocks=2, answered=2)


@posix
def test_order_is_kept_when_early_blocks_are_late():
    def function(d):
        time.sleep(0.3 if d["number"].iloc[0] % 4 == 0 else 0)
        return d["number"].iloc[0]

    answers, _ = over(function, 9, limits=Limits(workers=3))
    assert answers[:, 0].tolist() == list(range(9))


@posix
def test_frames_arrive_as_they_are():
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": pd.Categorical(["u", "v"]), "d": [1.5, math.nan]}, index=[7, 9])
    expected = frame.copy()

    def function(d):
        pd.testing.assert_frame_equal(d, expected)
        return 1

    assert Isolated(function, 1, ONE).trial([frame]) == [None]


@posix
@pytest.mark.parametrize("as_frame", [False, True])
def test_a_function_may_destroy_its_block_and_the_parent_keeps_its_own(as_frame):
    columns = {"a": np.arange(4.0), "b": np.array(list("xyzw"), dtype=object)}
    columns["a"].flags.writeable = False
    block = pd.DataFrame(columns, copy=False) if as_frame else columns

    def function(d):
        d.loc[0, "a"] = 99.0
        d["a"].to_numpy(copy=False)
        d["b"] = "gone"
        d.drop(index=d.index[1:], inplace=True)
        return d["a"].sum()

    run = Isolated(function, 1, ONE)
    assert run.trial([block, block]) == [None, None]
    assert [answer.tolist() for answer in run.over([block, block])] == [[99.0], [99.0]]
    assert block["a"].tolist() == [0, 1, 2, 3] and list(block["b"]) == list("xyzw")


@posix
def test_what_is_returned_may_take_many_forms():
    def function(d):
        return [[1, 2], (1.0, 2.0), np.array([[1], [2]]), pd.Series([1, 2], index=["p", "q"]), np.array([True, False])][
            int(d["number"].iloc[0])
        ]

    answers, outcomes = over(function, 5, size=2)
    np.testing.assert_array_equal(answers, [[1, 2], [1, 2], [1, 2], [1, 2], [1, 0]])
    assert outcomes.answered == 5


@posix
def test_single_numbers_may_be_nan_or_infinite():
    answers, outcomes = over(lambda d: [math.nan, math.inf, 3], 1, size=3)
    np.testing.assert_array_equal(answers, [[math.nan, math.inf, 3]])
    assert outcomes.answered == 1


@posix
def test_adapt_runs_beside_the_function():
    answers, outcomes = over(
        lambda d: {"x": [0, 1], "y": [0, d["number"].iloc[0]]},
        adapt=lambda curve: (np.interp([0.5, 1.0], curve["x"], curve["y"]), os.getppid() == os.getpid())[0],
        size=2,
    )
    np.testing.assert_array_equal(answers, [[0, 0], [0.5, 1], [1, 2]])
    answers, outcomes = over(lambda d: "fine", adapt=lambda answer: 1 / 0)
    assert np.isnan(answers).all() and outcomes.failed == 3


@posix
def test_a_large_answer_comes_back_whole_although_nobody_asks_for_it_at_once():
    run = Isolated(lambda d: np.arange(300_000) + d["number"].iloc[0], 300_000, ONE).over(blocks(3))
    for i, answer in enumerate(run):
        time.sleep(0.1)
        assert answer[0] == i and answer[-1] == 299_999 + i


# One block does not see another.


class Counter:
    calls = 0

    def __init__(self):
        self.mine = 0

    def __call__(self, d):
        self.mine += 1
        type(self).calls += 1
        return [self.mine, type(self).calls]


def by_value(text):
    """A function defined in a script, with globals of its own."""
    space = {"__name__": "__main__"}
    exec(textwrap.dedent(text), space)
    return space["function"]


def check_every_call_is_the_first(count=3):
    seen = []

    def counting(d, before=[]):  # noqa: B006
        seen.append(1)
        before.append(1)
        counting.calls = getattr(counting, "calls", 0) + 1
        np.counted = getattr(np, "counted", 0) + 1
        os.environ["COUNTED"] = os.environ.get("COUNTED", "") + "x"
        return [len(seen), len(before), counting.calls, np.counted, len(os.environ["COUNTED"])]

    answers, outcomes = over(counting, count, size=5)
    assert outcomes.answered == count
    assert (answers == 1).all()
    assert seen == [] and not hasattr(np, "counted")


def test_every_call_is_the_first(way):
    check_every_call_is_the_first(3 if way else 2)


@posix
def test_globals_and_attributes_start_anew():
    function = by_value("""
        calls = 0
        def function(d):
            global calls
            calls += 1
            return calls
    """)
    assert over(function, 3)[0].tolist() == [[1]] * 3
    module = sys.modules[Counter.__module__]
    cloudpickle.register_pickle_by_value(module)
    try:
        assert over(Counter(), 3, size=2)[0].tolist() == [[1, 1]] * 3
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def check_nothing_of_earlier_blocks_is_left_in_memory():
    """Each block holds a word nobody else has; a fork that searches all its memory for such words finds its own alone."""

    def function(d):
        import re

        found, page = set(), os.sysconf("SC_PAGESIZE")
        with (
            open("/proc/self/maps") as maps,
            open("/proc/self/mem", "rb", 0) as memory,
            open("/proc/self/pagemap", "rb", 0) as there,
        ):
            for line in maps:
                where, mode = line.split()[:2]
                if mode == "rw-p":
                    start, end = (int(part, 16) for part in where.split("-"))
                    # Only pages that were ever written to, in memory or swapped out: most of what is reserved was not.
                    there.seek(start // page * 8)
                    used = np.frombuffer(there.read((end - start) // page * 8), np.uint64) >> np.uint64(62) > 0
                    edges = np.flatnonzero(np.diff(used, prepend=False, append=False)).reshape(-1, 2)
                    for first, last in edges.tolist():
                        memory.seek(start + first * page)
                        found |= set(re.findall(rb"canary-[0-9a-f]{16}", memory.read((last - first) * page)))
        return [len(found), d["secret"].iloc[0].encode() in found]

    def records(count):
        return [{"secret": np.array([f"canary-{secrets.token_hex(8)}"] * 50, dtype=object)} for _ in range(count)]

    run = Isolated(function, 2, Limits(workers=1))
    assert run.trial(records(1)) == [None]
    assert np.array(list(run.over(records(2)))).tolist() == [[1, 1]] * 2
    # Another run forks from the template that the first one has left.
    kept = isolation.zygote.kept.last
    assert np.array(list(run.over(records(1)))).tolist() == [[1, 1]]
    assert isolation.zygote.kept.last is kept


@linux
def test_nothing_of_earlier_blocks_is_left_in_memory():
    check_nothing_of_earlier_blocks_is_left_in_memory()


def check_fresh_randomness_in_every_block():
    import random

    own = np.random.default_rng(5)
    answers, _ = over(lambda d: [np.random.random(), random.random(), own.random()], 3, size=3)
    assert len(set(answers[:, 0])) == len(set(answers[:, 1])) == 3
    assert len(set(answers[:, 2])) == 1


@posix
def test_fresh_randomness_in_every_block():
    check_fresh_randomness_in_every_block()
    answers, _ = over(lambda d: (np.random.seed(3), np.random.random())[1], 2)
    assert len(set(answers[:, 0])) == 1


@linux
def test_memory_that_forks_would_share_is_refused(tmp_path, monkeypatch):
    (tmp_path / "shares.py").write_text(
        "import mmap\nmemory = mmap.mmap(-1, 4096)\ndef function(d):\n    memory[0] += 1\n    return memory[0]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PlanError, match="one block could see another"):
        list(Isolated(importlib.import_module("shares").function, 1, ONE).over(blocks(2)))


@posix
def test_no_bytes_are_written_to_files(tmp_path):
    path = str(tmp_path / "state")

    def function(d):
        with open(path, "ab", 0) as file:
            file.write(b"seen")
        return 1

    answers, outcomes = over(function, 2)
    assert np.isnan(answers).all() and outcomes.failed == 2
    assert Path(path).read_bytes() == b""


@posix
def test_a_trial_says_that_files_cannot_be_written(tmp_path):
    path = str(tmp_path / "state")

    def function(d):
        if d["number"].iloc[0] == 0:
            Path(path).write_text("state")
        if d["number"].iloc[0] == 1:
            np.arange(1000.0).tofile(path)
        try:
            Path(path).write_text("state")
        except OSError:
            raise RuntimeError("no cache") from None

    said = Isolated(function, 1, ONE).trial(blocks(3))
    start = "it failed with a file that it wanted to write: a block cannot write files, so keep everything in memory "
    assert all(sentence.startswith(start) for sentence in said)
    assert "(OSError" in said[0] and "(OSError" in said[1] and said[2] == start + "(RuntimeError: no cache)."


@linux
def test_the_function_sees_nothing_of_the_parent():
    answers, _ = over(
        lambda d: ["pellucid" in sys.modules, len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc") else 3], 2, size=2
    )
    assert (answers[:, 0] == 0).all()
    # Input, output, error, the listing itself, and the file of its own answer.
    assert (answers[:, 1] <= 5).all()


@posix
def test_results_do_not_depend_on_the_machine():
    answers, _ = over(lambda d: [os.environ["OMP_NUM_THREADS"], os.environ["OPENBLAS_NUM_THREADS"], hash("x")], 2, size=3)
    assert (answers[:, :2] == 1).all()
    again, _ = over(lambda d: [1, 1, hash("x")], 2, size=3)
    np.testing.assert_array_equal(answers, again)


# What a hostile function does to its own block only.


def make_deeds():
    """What functions may do to their process, and what it counts as; made here, so that they are sent whole."""

    def raising(kind):
        def deed(d):
            raise kind("the secret of " + str(d["name"].iloc[0]))

        return deed

    def recurse(d):
        return recurse(d)

    def crash(d):
        import ctypes

        ctypes.string_at(0)

    def ignore_signals(d):
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        time.sleep(1000)

    def work(d):
        while True:
            pass

    def ignore_and_work(d):
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        work(d)

    def hoard(d):
        kept = []
        while True:
            kept.append(np.zeros(10**7))

    def garbage(d):
        for descriptor in range(64):
            with contextlib.suppress(OSError):
                os.write(descriptor, b"garbage" * 1000)
            with contextlib.suppress(OSError):
                os.pwrite(descriptor, b"garbage" * 1000, 0)
        os._exit(0)

    def shrink(d):
        for descriptor in range(3, 64):
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
        os._exit(0)

    return {
        "raise": (raising(ValueError), "failed"),
        "base exception": (raising(BaseException), "failed"),
        "keyboard interrupt": (raising(KeyboardInterrupt), "failed"),
        "generator exit": (raising(GeneratorExit), "failed"),
        "system exit": (lambda d: sys.exit(0), "failed"),
        "exit": (lambda d: os._exit(0), "failed"),
        "kill itself": (lambda d: os.kill(os.getpid(), signal.SIGKILL), "failed"),
        "abort": (lambda d: os.abort(), "failed"),
        "kill the template": (lambda d: (os.kill(os.getppid(), signal.SIGKILL), time.sleep(1000)), "failed"),
        "kill its group": (lambda d: os.killpg(0, signal.SIGKILL), "failed"),
        "recurse": (recurse, "failed"),
        "crash": (crash, "failed"),
        "garbage": (garbage, "failed"),
        "shrink": (shrink, "failed"),
        "sleep": (lambda d: time.sleep(1000), "slow"),
        "ignore signals": (ignore_signals, "slow"),
        "stop itself": (lambda d: os.kill(os.getpid(), signal.SIGSTOP), "slow"),
        "work": (work, "slow"),
        "ignore and work": (ignore_and_work, "slow"),
        "allocate": (lambda d: np.ones(100 * 2**30 // 8), "memory"),
        "hoard": (hoard, "memory"),
        # Nonsense that is returned, not done.
        "text": (lambda d: "text", "failed"),
        "none": (lambda d: None, "failed"),
        "module": (lambda d: os, "failed"),
        "too many": (lambda d: [1, 2, 3], "failed"),
        "too few": (lambda d: [], "failed"),
        "table": (lambda d: [[1, 2], [3, 4]], "failed"),
        "ragged": (lambda d: [1, [2]], "failed"),
        "dict": (lambda d: {"a": 1}, "failed"),
        "set": (lambda d: {1}, "failed"),
        "complex": (lambda d: 1j, "failed"),
        "nan": (lambda d: math.nan, "failed"),
        "date": (lambda d: np.datetime64("2020-01-01"), "failed"),
    }


DEEDS = make_deeds() if hasattr(os, "fork") else {}


def misbehaving(names):
    """A function that does the i-th deed on block 2i + 1 and answers the number of the block on the others."""
    deeds = [make_deeds()[name][0] for name in names]

    def function(d):
        number = int(d["number"].iloc[0])
        return deeds[number // 2](d) if number % 2 else number

    return function


@pytest.fixture(scope="module")
def mischief():
    """All deeds in one run, between blocks that behave."""
    run = Isolated(misbehaving(DEEDS), 1, Limits(seconds=1, memory=2**27, workers=3))
    return np.ravel(list(run.over(blocks(2 * len(DEEDS) + 1)))), run.outcomes


@posix
@pytest.mark.parametrize("deed", DEEDS)
def test_a_hostile_block_answers_nan_and_its_neighbours_as_ever(deed, mischief):
    at = 2 * list(DEEDS).index(deed)
    np.testing.assert_array_equal(mischief[0][at : at + 3], [at, math.nan, at + 2])


@posix
def test_the_owner_is_told_what_became_of_hostile_blocks(mischief):
    kinds = [kind for _, kind in DEEDS.values()]
    counts = {kind: kinds.count(kind) for kind in ("failed", "slow", "memory")}
    assert mischief[1] == Outcomes(blocks=2 * len(DEEDS) + 1, answered=len(DEEDS) + 1, **counts)


@posix
def test_hostile_blocks_where_processes_cannot_be_forked(monkeypatch):
    monkeypatch.setattr(isolation.pool, "FORK", False)
    monkeypatch.setattr(isolation.backends, "GRACE", 2.0)
    answers, outcomes = over(
        # A new process on a busy machine may take a second to fill its memory.
        misbehaving(["raise", "allocate", "sleep"]),
        at=[0, 1, 3, 5],
        limits=Limits(seconds=5, memory=2**29, workers=2),
    )
    np.testing.assert_array_equal(answers[:, 0], [0, math.nan, math.nan, math.nan])
    assert outcomes == Outcomes(blocks=4, answered=1, failed=1, memory=1, slow=1)


@posix
def test_harmless_mischief_still_answers(capfd):
    def function(d):
        import logging
        import warnings

        print("o" * 3_000_000)
        print("e" * 3_000_000, file=sys.stderr)
        os.write(1, b"o" * 1_000_000)
        os.write(2, b"e" * 1_000_000)
        os.system("echo shell; echo shell >&2")
        warnings.warn("warned", stacklevel=1)
        logging.getLogger().error("logged")
        sys.stderr.flush()
        assert sys.stdin.read() == ""
        os.chdir("/")
        os.environ.clear()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.kill(os.getpid(), signal.SIGTERM)
        sys.path.clear()
        sys.modules.pop("numpy")
        os.closerange(0, 256)
        return d["number"].iloc[0]

    here = os.getcwd()
    answers, outcomes = over(function, 2)
    assert answers[:, 0].tolist() == [0, 1] and outcomes.answered == 2
    assert os.getcwd() == here
    assert capfd.readouterr() == ("", "")


@posix
def test_a_function_that_forks_answers_once():
    def function(d):
        os.fork()
        return d["number"].iloc[0]

    assert over(function, 3)[0][:, 0].tolist() == [0, 1, 2]


LINGER = """
    import os, signal, subprocess, threading, time

    def function(d):
        threading.Thread(target=time.sleep, args=(1000,)).start()
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            time.sleep(1000)
        program = subprocess.Popen(["sleep", "1000"]).pid
        if (middle := os.fork()) == 0:
            os.setsid()
            if (grandchild := os.fork()) == 0:
                os.setsid()
                time.sleep(1000)
            os.write(write, str(grandchild).encode())
            os._exit(0)
        os.waitpid(middle, 0)
        if d["number"].iloc[0] == 1:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(1000)
        return [child, program, int(os.read(read, 20))]
"""


@linux
def test_what_a_block_leaves_running_is_ended_before_its_answer_comes():
    """Block 1 kills its template too, so that nobody is there to clean up after it."""
    run = Isolated(by_value(LINGER), 3, ONE)
    for number, answer in enumerate(run.over(blocks(3))):
        assert np.isnan(answer).all() if number == 1 else all(gone(int(pid)) for pid in answer)
    assert run.outcomes == Outcomes(blocks=3, answered=2, failed=1)


@posix
def test_every_block_may_kill_its_template_and_none_notices():
    answers, outcomes = over(lambda d: os.kill(os.getppid(), signal.SIGKILL), 5)
    assert np.isnan(answers).all() and outcomes.failed == 5


@posix
def test_a_template_that_does_not_report_is_replaced(monkeypatch):
    monkeypatch.setattr(isolation.backends, "GRACE", 0.5)

    def function(d):
        if d["number"].iloc[0] == 0:
            os.kill(os.getppid(), signal.SIGSTOP)
        return 1

    answers, outcomes = over(function, 2)
    np.testing.assert_array_equal(answers[:, 0], [math.nan, 1])
    assert outcomes.slow == 1


@posix
def test_a_function_that_can_be_loaded_only_once_fails_block_by_block_but_never_raises(tmp_path, monkeypatch):
    """Raising here would tell that some block killed its template."""
    (tmp_path / "vanishes.py").write_text(
        "import os, signal, time\n"
        "def above(pid):\n"
        "    return int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])\n"
        "def function(d):\n    os.unlink(__file__)\n    os.kill(above(os.getppid()), signal.SIGKILL)\n    time.sleep(9)\n"
    )
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.syspath_prepend(tmp_path)
    answers, outcomes = over(importlib.import_module("vanishes").function, 4)
    assert np.isnan(answers).all() and outcomes == Outcomes(blocks=4, failed=4)


@linux
def test_attacks_on_the_processes_above_neither_hang_nor_raise():
    """Which blocks they cost is beyond what can be promised, but the run goes on, and so does the next."""
    function = by_value("""
        import os, signal
        def above(pid):
            with open(f"/proc/{pid}/stat") as status:
                return int(status.read().rpartition(")")[2].split()[1])
        def function(d):
            template = above(os.getppid())
            deed = d["number"].iloc[0]
            if deed == 1:
                os.kill(template, signal.SIGKILL)
            if deed == 3:
                os.kill(above(template), signal.SIGKILL)
            if deed == 5:
                os.killpg(os.getpgid(template), signal.SIGKILL)
            return deed
    """)
    # Time enough to start the processes anew on a busy machine.
    patient = Limits(seconds=10, memory=2**29, workers=1)
    answers, outcomes = over(function, 7, limits=patient)
    assert answers[[0, 6], 0].tolist() == [0, 6] and outcomes.blocks == 7
    assert over(function, 1, limits=patient)[0].tolist() == [[0]]


# What is kept between runs.


def lineage(d):
    """Worker, template and zygote of this block."""

    def above(pid):
        with open(f"/proc/{pid}/stat") as status:
            return int(status.read().rpartition(")")[2].split()[1])

    worker = os.getppid()
    return [worker, above(worker), above(above(worker))]


@linux
def test_a_template_is_used_again_for_the_same_function_and_limits_alone():
    function = by_value(
        inspect.getsource(lineage).replace("lineage", "function").replace("def function", "import os\ndef function")
    )

    def run(function, size=3, **limits):
        one = Isolated(
            function, size, Limits(**{"seconds": 1, "memory": 2**29, "workers": 1, **limits}), lambda found: found[:size]
        )
        return next(one.over(blocks(1)))

    first, again = run(function), run(function)
    assert again[1] == first[1], "the template was not used again"
    assert again[0] != first[0], "a worker served two runs"
    for other in (run(function, seconds=2), run(function, memory=2**28), run(lambda d: function(d))):
        assert other[1] != first[1] and other[2] == first[2] == isolation.zygote.kept.zygote.process.pid
    assert gone(int(first[1]))


@linux
def test_a_trial_and_the_run_after_it_share_a_template():
    """As in a release, which makes the function ready anew for each."""
    from pellucid.explainers.blocks.functions import OnGrid

    def function(d):
        return [0, 1]

    trial, run = (Isolated(function, 2, ONE, OnGrid((0.0, 1.0), False)) for _ in range(2))
    assert trial.trial(blocks(1)) == [None]
    template = isolation.zygote.kept.last
    assert next(run.over(blocks(1))).tolist() == [0, 1]
    assert isolation.zygote.kept.last is template


@linux
def test_runs_side_by_side_have_templates_of_their_own():
    one, other = (Isolated(function, 1, ONE).over(blocks(3)) for function in (lambda d: 1, lambda d: 2))
    assert [float(pair[i][0]) for pair in zip(one, other) for i in (0, 1)] == [1, 2] * 3
    one.close(), other.close()
    answers = {}

    def work(number):
        answers[number] = over(lambda d: number, 2)[0].tolist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: [[number]] * 2 for number in range(3)}


@posix
def test_a_module_that_was_written_anew_is_loaded_anew(tmp_path, monkeypatch):
    file = tmp_path / "edited.py"
    file.write_text("def function(d):\n    return 1\n")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.syspath_prepend(tmp_path)
    run = Isolated(importlib.import_module("edited").function, 1, ONE)
    assert next(run.over(blocks(1))) == 1
    file.write_text("def function(d):\n    return 2\n")
    assert next(run.over(blocks(1))) == 2


@posix
def test_a_function_sees_directory_and_environment_as_they_are_now(tmp_path, monkeypatch):
    assert np.isfinite(over(lambda d: 1, 1)[0]).all()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PELLUCID_TEST_NUMBER", "7")
    here = str(tmp_path)
    answers, _ = over(lambda d: [os.path.samefile(os.getcwd(), here), float(os.environ["PELLUCID_TEST_NUMBER"])], 1, size=2)
    assert answers.tolist() == [[1, 7]]


@posix
def test_our_own_adapters_come_without_the_package():
    from pellucid.explainers.blocks import adapters
    from pellucid.explainers.blocks.functions import OnGrid, OnItems

    before = cloudpickle.list_registry_pickle_by_value()
    surrogate = adapters.tree_surrogate(lambda rows: rows["number"] > 1, features=["number", "name"])

    def scores(d):
        return {**surrogate(d.assign(number=range(len(d)), name="x")), "loaded": "pellucid" in sys.modules}

    answers, outcomes = over(scores, 1, size=3, adapt=OnItems(("number", "name", "loaded")))
    assert answers.tolist() == [[1, 0, 0]] and outcomes.answered == 1
    answers, _ = over(lambda d: ([0, 2], [0, 4 + ("pellucid" in sys.modules)]), 1, size=2, adapt=OnGrid((0.0, 1.0), False))
    assert answers.tolist() == [[0, 2]]
    assert cloudpickle.list_registry_pickle_by_value() == before


def test_modules_that_someone_else_sends_by_value_stay_so():
    from pellucid.explainers.blocks import functions as module

    cloudpickle.register_pickle_by_value(module)
    try:
        Isolated(len, 1, ONE)
        assert module.__name__ in cloudpickle.list_registry_pickle_by_value()
    finally:
        cloudpickle.unregister_pickle_by_value(module)


@posix
def test_a_module_says_of_itself_that_it_is_sent_whole(tmp_path, monkeypatch):
    """As files named in a study do, which no other process could import."""
    (tmp_path / "loaded.py").write_text("def helper():\n    return 5\n\n\ndef function(d):\n    return helper()\n")
    spec = importlib.util.spec_from_file_location("loaded_here_alone", tmp_path / "loaded.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    with pytest.raises(PlanError, match="No module named 'loaded_here_alone'"):
        over(module.function)
    monkeypatch.setattr(functions, "_whole", set(functions._whole))
    functions.sent_whole(spec.name)
    assert over(module.function)[0].tolist() == [[5]] * 3
    # A module that says so and is gone is nobody's problem.
    functions.sent_whole("gone")
    assert over(module.function, 1)[0].tolist() == [[5]]


# Functions that cannot be sent, trials, and limits.


def test_a_function_that_cannot_be_copied_is_refused_at_once():
    lock = threading.Lock()
    with pytest.raises(PlanError, match=r"cannot be sent .* inside the function"):
        Isolated(lambda d: lock, 1, ONE)


def test_a_function_that_cannot_be_loaded_is_refused_before_any_block_is_taken(way, tmp_path, monkeypatch):
    (tmp_path / "nowhere.py").write_text("def function(d):\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    function = importlib.import_module("nowhere").function
    run = Isolated(function, 1, ONE)
    assert [answer.tolist() for answer in run.over(blocks(1))] == [[1]]
    sys.path.remove(str(tmp_path))

    def never():
        pytest.fail("a block was taken")
        yield

    with pytest.raises(PlanError, match=r"ModuleNotFoundError: No module named 'nowhere'"):
        list(run.over(never()))
    if way:
        with pytest.raises(PlanError, match="could not be loaded"):
            run.trial(never())


@posix
@pytest.mark.parametrize("deed", ["os._exit(3)", "raise SystemExit", "os.kill(os.getpid(), 9)"])
def test_loading_that_breaks_the_process_is_refused(deed, tmp_path, monkeypatch):
    (tmp_path / "breaks.py").write_text(
        f"import os\nif '{isolation.worker.MARK}' in os.environ:\n    {deed}\ndef function(d):\n    return 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "breaks", raising=False)
    with pytest.raises(PlanError, match="could not be loaded"):
        list(Isolated(importlib.import_module("breaks").function, 1, ONE).over(blocks(1)))


@posix
def test_a_trial_on_public_blocks_says_what_is_wrong():
    def function(d):
        number = int(d["number"].iloc[0])
        if number == 1:
            raise ValueError("no\nrows with é")
        if number == 2:
            time.sleep(100)
        if number == 3:
            np.ones(2**36)
        if number == 4:
            os._exit(0)
        return {0: [1, 2], 5: [1, 2, 3], 6: "word", 7: [math.nan] * 2}[number]

    run = Isolated(function, 2, ONE)
    assert run.trial(blocks(8)) == [
        None,
        "it failed with ValueError: no rows with é.",
        "it took more than 1 s; make it faster, or allow more with Limits(seconds=...).",
        "it needed more than 512 MiB; use less, or allow more with Limits(memory=...).",
        "it ended its own process.",
        "it failed with ValueError: expected 2 numbers, got an answer of shape (3,).",
        "it failed with TypeError: expected 2 numbers, got str.",
        "it failed with ValueError: the answer is NaN everywhere.",
    ]


@posix
def test_no_reason_leaves_the_process_of_a_private_block(monkeypatch):
    seen = []
    read = isolation.worker.contents
    monkeypatch.setattr(isolation.worker, "contents", lambda *given: seen.append(read(*given)) or seen[-1])

    def function(d):
        raise ValueError("canary")

    over(function)
    assert len(seen) == 3 and all(len(answer) == 9 and answer[1:] == bytes(8) for answer in seen)


@posix
def test_a_trial_leaves_the_outcomes_of_its_own_blocks():
    run = Isolated(lambda d: 1, 1, ONE)
    assert run.outcomes == Outcomes()
    run.trial(blocks(2))
    assert run.outcomes == Outcomes(blocks=2, answered=2)


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"seconds": math.nan}, {"seconds": math.inf}, {"memory": 0}, {"workers": 0}])
def test_limits_are_checked(wrong):
    with pytest.raises(PlanError, match=next(iter(wrong))):
        Limits(**wrong)


def test_size_is_checked():
    with pytest.raises(PlanError, match="at least one number"):
        Isolated(len, 0, ONE)


def test_assumptions_are_sentences():
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in ASSUMPTIONS)


# Running many blocks.


@posix
def test_blocks_run_at_the_same_time():
    """However slow the machine is: all processes have the same clock, and say when they began and ended."""

    def function(d):
        begun = time.monotonic()
        time.sleep(0.4)
        return d["number"].iloc[0], begun, time.monotonic()

    numbers, begun, ended = np.array(list(Isolated(function, 3, Limits(workers=8)).over(blocks(25)))).T
    assert numbers.tolist() == list(range(25))
    assert max(np.sum((begun <= moment) & (moment < ended)) for moment in begun) >= 3


@posix
def test_a_block_is_taken_only_when_a_worker_is_free():
    taken = []

    def source():
        for block in blocks(10):
            taken.append(len(taken))
            yield block

    # With one worker nothing is answered out of turn, so what was taken is what was told and the block it has now.
    for told, _ in enumerate(Isolated(lambda d: 1, 1, ONE).over(source())):
        assert len(taken) <= told + 1 + 1
    assert len(taken) == 10


@posix
def test_two_workers_take_two_blocks_at_a_time():
    """However slow the machine is: when block n is taken, all but one of the earlier ones have had their half second."""
    taken = []

    def source():
        for block in blocks(6):
            taken.append(time.monotonic())
            yield block

    def half_a_second(block):
        time.sleep(0.5)
        return 1

    assert len(list(Isolated(half_a_second, 1, Limits(workers=2)).over(source()))) == 6
    for n in range(2, 6):
        assert taken[n] - taken[0] >= 0.5 * (n // 2) - 0.05


@posix
def test_a_slow_block_takes_nothing_from_the_others():
    function = misbehaving(["sleep"] * 2)
    start = time.monotonic()
    answers, outcomes = over(function, 5, limits=Limits(seconds=1, workers=3))
    assert outcomes == Outcomes(blocks=5, answered=3, slow=2)
    assert answers[::2, 0].tolist() == [0, 2, 4] and time.monotonic() - start < 3.9


@posix
def test_no_blocks_no_answers():
    run = Isolated(lambda d: 1, 1, ONE)
    assert list(run.over([])) == [] and run.outcomes == Outcomes()


@posix
def test_a_forest_in_a_fork():
    from sklearn.ensemble import RandomForestRegressor

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    forest = RandomForestRegressor(10, n_jobs=4, random_state=0).fit(x, y)
    parts = [{name: x[i::3, j] for j, name in enumerate("abc")} for i in range(3)]
    answers = list(Isolated(lambda d: forest.predict(d.to_numpy()).mean(), 1, Limits(workers=1)).over(parts))
    np.testing.assert_allclose(np.ravel(answers), [forest.predict(x[i::3]).mean() for i in range(3)])


@posix
def test_progress_is_shown_on_a_terminal(monkeypatch):
    import io

    from pellucid.engine import progress

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    assert len(list(Isolated(lambda d: 1, 1, ONE).over(iter(blocks(4)), total=4))) == 4
    assert "running blocks" in terminal.getvalue()


# Nothing is left behind.


def forever():
    while True:
        yield from blocks(5)


def descriptors():
    """What is open in this process, by kind: a number may be given to another one of the same kind."""
    kinds = collections.Counter()
    for number in os.listdir("/proc/self/fd"):
        # The one that lists the folder is closed by now.
        with contextlib.suppress(FileNotFoundError):
            kinds[os.readlink(f"/proc/self/fd/{number}").partition("[")[0]] += 1
    return kinds


@linux
@pytest.mark.parametrize("way_out", ["close", "collect", "raise", "throw"])
def test_everything_ends_with_the_run(way_out):
    def function(d):
        if d["number"].iloc[0] > 1:
            time.sleep(1000)
        return 1

    # What is kept has descriptors of its own.
    assert Isolated(function, 1, ONE).trial(blocks(1)) == [None]
    # What other tests have left to be collected is not ours, and would be collected with the run.
    gc.collect()
    before = descriptors()
    run = Isolated(function, 1, Limits(workers=2)).over(forever())
    next(run)
    assert not kept()
    if way_out == "close":
        run.close()
    elif way_out == "collect":
        del run
        gc.collect()
    elif way_out == "throw":
        with pytest.raises(KeyboardInterrupt):
            run.throw(KeyboardInterrupt)
    else:

        def breaking():
            yield from blocks(2)
            raise OSError("the table is gone")

        run.close()
        with pytest.raises(OSError, match="the table is gone"):
            list(Isolated(function, 1, ONE).over(breaking()))
    assert kept()
    assert descriptors() == before


@linux
def test_an_interrupt_ends_everything():
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    # A shell that starts the tests in the background has them ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            list(Isolated(lambda d: time.sleep(1000), 1, Limits(workers=2)).over(blocks(4)))
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert kept()


def ended(owner):
    """Do all processes of this owner end by themselves?"""
    end = time.monotonic() + 10
    while processes(owner) and time.monotonic() < end:
        time.sleep(0.02)
    return not processes(owner)


def in_a_fork(work):
    """The number of a fork of this process that does this, and how it ended."""
    if (fork := os.fork()) == 0:
        try:
            os._exit(work() or 0)
        finally:
            os._exit(99)
    return fork, os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])


forking = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@linux
@forking
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_everything_ends_when_the_parent_is_killed(busy):
    """Between runs, and in the middle of a block while a fork of the parent lives on, with copies of its channels."""
    read, write = os.pipe()

    def work():
        run = Isolated(lambda d: time.sleep(1000) if d["number"].iloc[0] else 1, 1, ONE).over(blocks(3))
        next(run)
        if busy and (fork := os.fork()):
            os.write(write, str(fork).encode())
        elif busy:
            time.sleep(1000)
        else:
            run.close()
        os.kill(os.getpid(), signal.SIGKILL)

    owner, code = in_a_fork(work)
    os.close(write)
    try:
        assert code == -signal.SIGKILL
        assert ended(owner)
    finally:
        if busy:
            os.kill(int(os.read(read, 20)), signal.SIGKILL)
        os.close(read)


@linux
@forking
def test_a_fork_of_the_parent_starts_its_own():
    """It uses nothing of its parent and does not end it; a run that its parent has begun is refused."""
    run = Isolated(lambda d: 1, 1, ONE)
    assert run.trial(blocks(1)) == [None]
    zygote, template, half = isolation.zygote.kept.zygote.process.pid, isolation.zygote.kept.last, run.over(blocks(3))
    next(half)

    def work():
        assert isolation.zygote.kept.zygote is None and isolation.zygote.kept.last is None
        assert run.trial(blocks(1)) == [None]
        assert isolation.zygote.kept.zygote.process.pid != zygote
        with pytest.raises(PlanError, match="fork"):
            next(half)
        return 5

    owner, code = in_a_fork(work)
    assert code == 5 and ended(owner)
    assert len(list(half)) == 2
    assert (isolation.zygote.kept.zygote.process.pid, isolation.zygote.kept.last) == (zygote, template)


@linux
def test_many_runs_leave_no_descriptors_and_no_children():
    run = Isolated(lambda d: 1, 1, ONE)
    list(run.over(blocks(1)))
    before = descriptors()
    for _ in range(30):
        list(run.over(blocks(2)))
    assert descriptors() == before
    assert kept()
    isolation.zygote.kept.close()
    assert processes() == []
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@posix
def test_a_script_without_a_guard_says_nothing():
    """It has a thread, a fork, a run that is never finished and a daemon in the middle of another, and ends at once."""
    script = """
        import os, sys, threading, time, warnings
        warnings.simplefilter("always")
        import numpy as np
        from pellucid.engine.sandbox import Isolated
        from pellucid.query.functions import Limits
        warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
        def add(x):
            print("adding", x)
            return x + 1
        def function(d):
            os.write(2, b"loud")
            if d["x"].iloc[0] == 2:
                raise ValueError(d["x"].iloc[0])
            if d["x"].iloc[0] == 3:
                os.kill(os.getppid(), 9)
                time.sleep(9)
            return add(d["x"].iloc[0])
        answers = []
        def work():
            run = Isolated(function, 1, Limits(workers=1))
            answers.extend(float(a[0]) for a in run.over({"x": np.array([i])} for i in range(5)))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        half = Isolated(function, 1, Limits(workers=1)).over({"x": np.array([0])} for i in range(5))
        next(half)
        if (fork := os.fork()) == 0:
            sys.exit(0)
        os.waitpid(fork, 0)
        started = threading.Event()
        def daemon():
            run = Isolated(lambda d: time.sleep(d["x"].iloc[0]) or 1, 1, Limits(workers=1))
            for answer in run.over({"x": np.array([1000 * i])} for i in range(5)):
                started.set()
            print("a run that was ended goes on")
        threading.Thread(target=daemon, daemon=True).start()
        started.wait()
        sys.exit(0 if str(answers) == "[1.0, 2.0, nan, nan, 5.0]" else 7)
    """
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
    ) as process:
        said = process.communicate(timeout=60)
    assert (process.returncode, *said) == (0, b"", b"")
    if sys.platform == "linux":
        assert processes(process.pid) == []


# Sabotage: with the isolation broken on purpose, the checks above must notice.


@contextlib.contextmanager
def sabotaged(folder, *changes):
    """Let workers run a changed copy of their program."""
    program = isolation.processes.PROGRAM
    text = Path(program).read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    changed = folder / "changed.py"
    changed.write_text(text, encoding="utf-8")
    isolation.zygote.kept.close()
    isolation.processes.PROGRAM = str(changed)
    try:
        yield
    finally:
        isolation.processes.PROGRAM = program
        isolation.zygote.kept.close()


IN_THE_WORKER = """
def serve(channel, setup, loaded):
    channel.sendall(MESSAGE.pack(READY, 0))
    while asked := socket.recv_fds(channel, 1, 2):
        if not asked[0]:
            return
        data, result = asked[1]
        answer = numbers(loaded[0](pd.DataFrame(pickle.loads(contents(data)))), setup.size)
        mmap.mmap(result, setup.length(asked[0] == PUBLIC))[: 1 + 8 * setup.size] = ANSWERED + answer.tobytes()
        channel.sendall(MESSAGE.pack(STARTED, 0) + MESSAGE.pack(ENDED, 0))


if __name__ == "__main__":
"""


@linux
def test_blocks_that_share_a_process_are_noticed(tmp_path):
    with sabotaged(tmp_path, ('if __name__ == "__main__":\n', IN_THE_WORKER)):
        assert over(lambda d: d["number"].iloc[0], 2)[0].tolist() == [[0], [1]]
        with pytest.raises(AssertionError):
            check_every_call_is_the_first()
        with pytest.raises(AssertionError):
            check_nothing_of_earlier_blocks_is_left_in_memory()


FORKED = "        child = os.fork()\n        if child == 0:\n            forked("
SEEDS = "        random.seed()\n        np.random.seed()\n"
LAST = "        buffer[0:1] = status\n"
BREAKS = [
    # Records are read before the fork.
    (FORKED, "        sys.modules[f'seen {time.time()}'] = contents(descriptors[0])\n" + FORKED),
    # All blocks draw the same.
    (SEEDS, "        random.seed(1)\n"),
    # What a block leaves running is not ended.
    ("def end_all(child: int) -> None:\n", "def end_all(child: int) -> None:\n    return\n\n\ndef unused(child: int) -> None:\n"),
    # Reasons are told for private blocks too.
    ("        if public:\n            reason", "        if True:\n            reason"),
    ("        if public:\n            start", "        if True:\n            start"),
    # Answers can have another length.
    (
        "    os.close(result)\n    status",
        "    kept, changed = os.dup(result), frame.get('length')\n    os.close(result)\n    status",
    ),
    (LAST, LAST + "        if changed is not None:\n            os.ftruncate(kept, changed.iloc[0])\n"),
    ("    lower(resource.RLIMIT_FSIZE, 0, 0)\n", ""),
]


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    with sabotaged(tmp_path_factory.mktemp("broken"), *BREAKS):
        yield


@linux
def test_records_that_are_read_before_the_fork_are_noticed(broken):
    with pytest.raises(AssertionError):
        check_nothing_of_earlier_blocks_is_left_in_memory()


@linux
def test_blocks_that_draw_alike_are_noticed(broken):
    with pytest.raises(AssertionError):
        check_fresh_randomness_in_every_block()


@linux
def test_what_is_not_ended_is_noticed(broken):
    answer = next(Isolated(by_value(LINGER), 3, ONE).over(blocks(1)))
    alive = [int(pid) for pid in answer if not gone(int(pid))]
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
        while not gone(pid):
            time.sleep(0.005)
    assert alive


@linux
def test_an_answer_of_another_length_is_refused(broken):
    run = Isolated(lambda d: 1, 1, ONE)
    answers = [float(answer[0]) for answer in run.over([{"length": np.array([length])} for length in (8, 9, 10, 10**6)])]
    np.testing.assert_array_equal(answers, [math.nan, 1, math.nan, math.nan])
    assert run.outcomes == Outcomes(blocks=4, answered=1, failed=3)


@linux
def test_a_reason_that_leaves_a_private_block_is_not_passed_on(broken):
    """The file has no room for it, and this side does not look for it."""
    run = Isolated(lambda d: 1 / 0, 1, ONE)
    assert all(answer.reason == "" and np.isnan(answer.numbers).all() for answer in run._run(blocks(2), 2, public=False))
