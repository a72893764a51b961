"""Silence: whatever user code prints, warns or logs shows nowhere, and afterwards everybody is heard again.

What goes through the console is tried in a process of its own, with its output in a pipe and in a file, where buffers are large.
"""

import contextlib
import io
import logging
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import pellucid as pel
from pellucid.public.silence import silenced, unwarned

ROOT = str(Path(pel.__file__).parents[1])
ALONE = f"import sys; sys.path.append({ROOT + '/pellucid/public'!r})\n"
"""The module by itself is there much sooner than the whole package."""
SECRET = "Mrs Robinson"


@pytest.fixture(params=["pipe", "file"])
def shown(request, tmp_path):
    """Run a program and return what it has shown, on both streams."""

    def run(code, *arguments):
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"} | {"PYTHONPATH": ROOT}
        program = [sys.executable, "-c", ALONE + textwrap.dedent(code), *map(str, arguments)]
        if request.param == "pipe":
            ran = subprocess.run(program, capture_output=True, env=environment, timeout=120)
            out, err = ran.stdout, ran.stderr
        else:
            with open(tmp_path / "out", "wb") as out_file, open(tmp_path / "err", "wb") as err_file:
                ran = subprocess.run(program, stdout=out_file, stderr=err_file, env=environment, timeout=120)
            out, err = (tmp_path / "out").read_bytes(), (tmp_path / "err").read_bytes()
        assert ran.returncode == 0, err.decode()
        return out.decode(), err.decode()

    return run


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """A library that prints as compiled code does."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "loud.c").write_text(
        '#include <stdio.h>\nvoid loud(const char *text) { printf("%s\\n", text); fprintf(stderr, "%s\\n", text); }\n'
    )
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "loud.so", folder / "loud.c"], check=True)
    return folder / "loud.so"


BUFFERED = """
    import ctypes, sys
    from silence import silenced
    loud = {loud}
    print("before in Python")
    loud(b"before in C")
    for _ in range(3):
        with silenced():
            loud(b"Mrs Robinson")
    loud(b"after in C")
    print("after in Python")
"""


def test_what_compiled_code_leaves_in_its_buffer(shown, compiled):
    out, err = shown(BUFFERED.format(loud="ctypes.CDLL(sys.argv[1]).loud"), compiled)
    assert sorted(out.splitlines()) == ["after in C", "after in Python", "before in C", "before in Python"]
    assert err.splitlines() == ["before in C", "after in C"]


def test_what_the_c_library_leaves_in_its_buffer(shown):
    out, _ = shown(BUFFERED.format(loud="lambda text: ctypes.CDLL(None).puts(text)"))
    assert sorted(out.splitlines()) == ["after in C", "after in Python", "before in C", "before in Python"]


def test_streams_that_were_kept_from_before(shown):
    out, err = shown(
        """
        import os, sys
        from silence import silenced
        kept = [sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__]
        writes = [stream.write for stream in kept] + [sys.stdout.writelines]
        buffers = [stream.buffer for stream in kept] + [sys.stdout.buffer.raw]
        writing = [buffer.write for buffer in buffers]
        print("before")
        print("before", file=sys.stderr)
        with silenced():
            print("Mrs Robinson")
            print("Mrs Robinson", file=sys.stderr)
            for stream in (*kept, sys.__stdout__, sys.__stderr__):
                print("Mrs Robinson", file=stream)
                stream.writelines(["Mrs Robinson"] * 2)
            for write in writes:
                write("Mrs Robinson")
            for write in (*writing, *[buffer.write for buffer in buffers], sys.stdout.buffer.write):
                write(b"Mrs Robinson")
            os.write(1, b"Mrs Robinson")
            os.system("echo Mrs Robinson; echo Mrs Robinson 1>&2")
        print("after")
        print("after", file=sys.stderr)
        """
    )
    assert out.split() == err.split() == ["before", "after"]


def test_two_threads_that_overlap(shown):
    """The first to leave gave the console back to the other, the second gave the silence back to everybody."""
    out, err = shown(
        """
        import os, sys, threading, warnings, logging
        from silence import silenced
        logging.basicConfig(stream=sys.stderr, format="%(message)s")
        first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
        def say():
            print("Mrs Robinson")
            os.write(2, b"Mrs Robinson")
            logging.error("Mrs Robinson")
            warnings.warn("Mrs Robinson")
        def first():
            with silenced():
                first_in.set()
                second_in.wait()
                say()
            first_out.set()
        def second():
            first_in.wait()
            with silenced():
                second_in.set()
                first_out.wait()
                say()
        filters = list(warnings.filters)
        for _ in range(20):
            for event in (first_in, second_in, first_out):
                event.clear()
            threads = [threading.Thread(target=first), threading.Thread(target=second)]
            [t.start() for t in threads]; [t.join() for t in threads]
        assert warnings.filters == filters
        print("after")
        os.write(1, b"")
        logging.error("after")
        """
    )
    assert out.split() == err.split() == ["after"]


def test_threads_in_any_order_leave_everything_as_it_was():
    before = state()

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(200):
            with silenced() if rng.random() < 0.5 else unwarned():
                time.sleep(rng.random() * 1e-4)
                with contextlib.suppress(ValueError), silenced():
                    print(SECRET)
                    raise ValueError

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state() == before


def state():
    """Whatever silence changes, and how many descriptors are open."""
    streams = [sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__]
    return (
        streams,
        [sorted(vars(stream)) for stream in streams],
        [(os.fstat(d).st_dev, os.fstat(d).st_ino) for d in (1, 2)],
        len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
        list(warnings.filters),
        warnings.showwarning,
        (logging.root.manager.disable, logging.Logger.handle, logging.Logger.callHandlers),
        (sys.excepthook, sys.unraisablehook, threading.excepthook),
    )


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_errors_pass_and_everything_is_as_it_was(error, capfd):
    before = state()
    with pytest.raises(error), silenced(), silenced():
        print(SECRET)
        raise error
    with silenced():
        with silenced():
            print(SECRET)
        print(SECRET)
    print("after")
    assert state() == before and capfd.readouterr() == ("after\n", "")


def test_an_interrupt_at_any_moment_leaves_nobody_silent(shown):
    """A timer interrupts again and again, wherever the program is.

    A busy machine may deliver a signal after its timer was stopped, when nobody could catch an interrupt any more: hence the
    handler interrupts only where it is expected, and once. Whoever waits for it is silent again and again until it comes.
    """
    out, _ = shown(
        """
        import os, random, signal, sys
        from silence import silenced
        expected = False
        def interrupt(*_):
            global expected
            if expected:
                expected = False
                raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, interrupt)
        where, stdout, met, rng = os.fstat(1).st_ino, sys.stdout, 0, random.Random(0)
        for _ in range(3000):
            try:
                expected = True
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 2e-4))
                for _ in range(50):
                    with silenced():
                        print("Mrs Robinson")
                expected = False
            except KeyboardInterrupt:
                met += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert os.fstat(1).st_ino == where and sys.stdout is stdout
        assert met > 500, met
        print("after")
        """
    )
    assert out == "after\n"


class Notebook:
    """As a notebook's stream: no descriptor, and every text is sent at once."""

    def __init__(self):
        self.sent = []

    def write(self, text):
        self.sent.append(text)
        return len(text)

    def writelines(self, texts):
        self.sent += texts

    def flush(self):
        pass

    @property
    def buffer(self):
        raise io.UnsupportedOperation


class Slotted:
    """A stream whose methods cannot be exchanged."""

    __slots__ = ("sent",)
    __init__, write, flush = Notebook.__init__, Notebook.write, Notebook.flush


@pytest.mark.parametrize("kind", [Notebook, Slotted, io.StringIO, lambda: io.TextIOWrapper(io.BytesIO(), write_through=True)])
def test_streams_without_a_descriptor(kind, monkeypatch):
    """Of a notebook, of a test that captures output, of a program that copies its output to a file."""
    stream = kind()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    print("before")
    with silenced():
        print(SECRET)
        print(SECRET, file=sys.stderr)
        print(SECRET, file=sys.__stderr__)
        if kind is not Slotted:
            print(SECRET, file=stream)
            stream.writelines([SECRET])
        if isinstance(stream, io.TextIOWrapper):
            stream.buffer.write(SECRET.encode())
    print("after")
    assert sys.stdout is stream
    if isinstance(stream, io.TextIOWrapper):
        text = stream.buffer.getvalue().decode()
    else:
        text = "".join(stream.sent) if hasattr(stream, "sent") else stream.getvalue()
    assert text == "before\nafter\n"


class Collecting(logging.Handler):
    """Sends records somewhere that is no stream."""

    def __init__(self):
        super().__init__()
        self.met = []

    def emit(self, record):
        self.met.append(record.getMessage())


def test_records_reach_no_handler():
    handler, logger = Collecting(), logging.getLogger("a model of somebody's")
    filtered = []
    logger.addFilter(lambda record: filtered.append(record.getMessage()) or True)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        logger.warning("before")
        with silenced():
            logger.critical(SECRET)
            logging.disable(logging.CRITICAL)
            logging.disable(logging.NOTSET)
            logger.log(10**6, SECRET)
            logger.handle(logging.makeLogRecord({"msg": SECRET, "levelno": 50}))
            logging.getLogger("made inside").error(SECRET)
            root.error(SECRET)
            logger.error(SECRET, exc_info=ValueError(SECRET))
        logger.warning("after")
    finally:
        root.removeHandler(handler)
    assert handler.met == filtered == ["before", "after"] and logging.root.manager.disable == 0


def test_warnings_are_not_collected_outside():
    with warnings.catch_warnings(record=True) as collected:
        warnings.simplefilter("always")
        shown = warnings.showwarning
        warnings.warn("before", stacklevel=1)
        with silenced():
            warnings.warn(SECRET, stacklevel=1)
            warnings.simplefilter("always")
            warnings.warn(SECRET, stacklevel=1)
            warnings.resetwarnings()
            np.float64(1) / np.float64(0)
        assert warnings.showwarning is shown
        warnings.warn("after", stacklevel=1)
    assert [str(one.message) for one in collected] == ["before", "after"]


def test_hooks_for_errors_are_not_called(monkeypatch):
    """Threads and objects of user code that end with an error inside; somebody may send such errors far away."""
    met = []
    for owner, name in ((sys, "unraisablehook"), (threading, "excepthook"), (sys, "excepthook")):
        monkeypatch.setattr(owner, name, lambda *told: met.append(told))

    class Ends:
        def __del__(self):
            raise ValueError(SECRET)

    def fails():
        raise ValueError(SECRET)

    with silenced():
        Ends()
        thread = threading.Thread(target=fails)
        thread.start()
        thread.join()
        sys.excepthook(ValueError, ValueError(SECRET), None)
    assert not met
    Ends()
    assert len(met) == 1


def test_the_stream_inside_can_do_what_streams_can():
    with silenced():
        assert not sys.stdout.isatty() and sys.stdout.encoding == "utf-8" and sys.stdout.fileno() == 1
        sys.stdout.reconfigure(line_buffering=True)
        print("\ud800", "é", sep="")
        subprocess.run(["echo", SECRET], stdout=sys.stdout, check=True)
        kept = sys.stdout
        sys.stdout.close()
    with silenced():
        print(SECRET)
    with contextlib.suppress(ValueError):
        print(SECRET, file=kept)


def test_what_is_printed_by_somebody_who_kept_the_silent_stream_is_not_shown(shown):
    out, err = shown(
        """
        import logging, sys
        from silence import silenced
        with silenced():
            logging.basicConfig(stream=sys.stdout)
            kept = sys.stdout
        print("Mrs Robinson", file=kept)
        logging.error("Mrs Robinson")
        """
    )
    assert (out, err) == ("", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_others_are_silent_stays_silent_and_does_not_hang(shown):
    out, _ = shown(
        """
        import os, threading, sys
        from silence import silenced
        inside, leave = threading.Event(), threading.Event()
        def other():
            with silenced():
                inside.set()
                leave.wait()
        thread = threading.Thread(target=other)
        thread.start()
        inside.wait()
        if os.fork() == 0:
            with silenced():
                print("Mrs Robinson")
            print("Mrs Robinson", flush=True)
            os._exit(0)
        os.wait()
        leave.set()
        thread.join()
        print("after")
        """
    )
    assert out == "after\n"


def test_a_thread_that_waits_for_input_is_not_waited_for():
    """It holds a lock of the C library; to flush all of its streams would wait for that thread."""
    code = """
        import ctypes, threading, time
        from silence import silenced
        libc = ctypes.CDLL(None)
        threading.Thread(target=libc.getchar, daemon=True).start()
        time.sleep(0.3)
        with silenced():
            pass
        print("after", flush=True)
    """
    program = [sys.executable, "-c", ALONE + textwrap.dedent(code)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": ROOT}) as ran:
        timer = threading.Timer(30, ran.kill)
        timer.start()
        assert ran.stdout.readline() == b"after\n"
        timer.cancel()
        ran.stdin.close()


def test_closed_streams(shown):
    """Programs without a console have none."""
    out, err = shown(
        """
        import os, sys
        from silence import silenced
        sys.stdout = sys.stderr = None
        for _ in range(2):
            with silenced():
                print("Mrs Robinson")
        where = os.fstat(2).st_ino
        os.close(1)
        for _ in range(2):
            with silenced():
                os.system("echo Mrs Robinson 1>&2")
        try:
            os.fstat(1)
            os._exit(1)
        except OSError:
            os._exit(int(os.fstat(2).st_ino != where))
        """
    )
    assert (out, err) == ("", "")


def test_a_release_shows_nothing_of_its_model(shown):
    """As a whole: a model that prints in every way it can, asked about records with a name in them."""
    out, err = shown(
        """
        import ctypes, logging, os, sys, threading, warnings
        import pellucid as pel
        logging.basicConfig(level=0)
        libc, kept, logger = ctypes.CDLL(None), sys.stdout, logging.getLogger("model")
        def loud(d):
            text = f"secret {d['age'].tolist()}"
            print(text); print(text, file=kept); print(text, file=sys.__stderr__); libc.puts(text.encode())
            logger.error(text); warnings.warn(text); os.write(2, text.encode())
            return d["age"] / 99
        schema = pel.Schema({"age": pel.Number(0, 99), "bmi": pel.Number(0, 60)})
        model = pel.Model(loud, output=(0, 1), features=["age", "bmi"], trained_on="other data")
        def work(k):
            session = pel.Session({"age": [30.0, 40.0] * 50, "bmi": [20.0] * 100}, schema, budget=pel.Budget(epsilon=1.0))
            for _ in range(3):
                session.release(pel.PartialDependence(model, "bmi"), epsilon=0.1, fresh=True)
        threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
        [t.start() for t in threads]; [t.join() for t in threads]
        print("after")
        """
    )
    assert (out, err) == ("after\n", "")


def test_silence_is_short():
    """It is kept for every batch of records."""
    fastest = []
    for _ in range(300):
        begin = time.perf_counter()
        with silenced():
            pass
        fastest.append(time.perf_counter() - begin)
    assert sorted(fastest)[30] < 1e-3
