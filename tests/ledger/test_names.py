"""Names that read the same are the same account, and others are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.errors import LedgerError
from pellucid.ledger.names import alike, checked_name, find

NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=12).filter(alike)


@given(NAMES)
def test_case_and_spaces_around_do_not_count(name):
    stored = checked_name(name)
    assert stored == stored.strip() and checked_name(stored) == stored and alike(stored) == alike(name)
    assert alike(f"  {name}\t") == alike(name) == alike(alike(name))
    assert find(f" {name} ", [stored]) == stored


@pytest.mark.parametrize(
    ("one", "other"), [("ward-7", "ward 7"), ("ward", "wärd"), ("ward1", "ward2"), ("a", "\u0430"), ("ab", "a b")]
)
def test_other_names_are_other_accounts(one, other):
    assert alike(one) != alike(other) and find(one, [other]) is None


def test_german_sharp_s_and_composed_letters():
    assert alike("STRASSE") == alike("straße") and alike("wa\u0308rd") == alike("w\u00e4rd")
    assert checked_name("wa\u0308rd") == "w\u00e4rd"


@pytest.mark.parametrize("name", ["", "  ", "a\0b", "a\nb", "a\x7f", "\u200b", "\u2029x\u2029y", "\ud800", None, 7])
def test_names_that_cannot_be_read_are_refused(name):
    with pytest.raises(LedgerError, match="name"):
        checked_name(name)


def test_an_exact_name_comes_first_and_a_doubtful_one_is_refused():
    assert find("Ward", ["ward", "Ward"]) == "Ward" and find("x", ["ward"]) is None
    with pytest.raises(LedgerError, match="'ward', 'Ward'"):
        find("WARD", ["ward", "Ward"])
