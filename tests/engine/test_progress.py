"""Progress is the owner's: on a terminal, on long work, and nowhere else."""

import io
import sys
import time

from pellucid.engine import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def slow(pieces):
    for piece in range(pieces):
        time.sleep(0.02)
        yield piece


def test_nothing_is_written_when_nobody_watches(capsys):
    assert list(progress.track(slow(3), 3, "reading")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


def test_a_bar_on_a_terminal_when_it_takes_long(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    assert list(progress.track(slow(5), 5, "reading records")) == [0, 1, 2, 3, 4]
    assert "reading records" in terminal.getvalue()


def test_short_work_shows_nothing(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert list(progress.track(iter(range(3)), 3, "reading")) == [0, 1, 2]
    assert terminal.getvalue() == ""


def test_a_notebook_watches_although_it_is_no_terminal(monkeypatch, capsys):
    shell = type("ZMQInteractiveShell", (), {})()
    assert not progress.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", type("Module", (), {"get_ipython": staticmethod(lambda: shell)}))
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    assert progress.in_notebook() and list(progress.track(slow(5), 5, "reading records")) == [0, 1, 2, 3, 4]
    assert "reading records" in capsys.readouterr().err
