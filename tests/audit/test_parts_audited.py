"""The audit of parts of a table: what is promised holds, most of it is measured, and a ledger that counts less is caught."""

import pytest

from pellucid.audit.parts import parts
from pellucid.ledger.scopes import Tally
from pellucid.release.part import Part

CASES = {case.name: case for case in parts()}
OVERLAP, MOVES = "parts of a table, that overlap, add-remove", "parts of a table, disjoint, replace, to another part"


@pytest.mark.parametrize("name", CASES)
def test_most_of_what_parts_promise_is_measured_and_no_more(name):
    row = CASES[name].play(runs=4000, confidence=0.999)
    assert row.verdict == "holds" and CASES[name].floor * row.claimed <= row.measured <= row.claimed


def test_overlapping_parts_that_are_counted_as_disjoint_are_caught(monkeypatch):
    monkeypatch.setattr(
        Tally, "spent", lambda self, limit=None: (self.base + max((u for _, u, _ in self.parts), default=0), None)
    )
    assert CASES[OVERLAP].play(runs=4000, confidence=0.999).verdict.startswith("broken")


def test_noise_for_one_change_under_replace_is_caught(monkeypatch):
    monkeypatch.setattr(Part, "changes", property(lambda self: 1))
    assert CASES[MOVES].play(runs=4000, confidence=0.999).verdict.startswith("broken")
