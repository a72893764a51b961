"""The table of docs/audit.md is replaced as a whole, and nothing else of the page."""

from audit_table import BEGIN, END, PAGE, block, written

from pellucid.audit.cases import cases
from pellucid.audit.run import Report


def test_the_page_has_one_place_for_the_table():
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(BEGIN) == page.count(END) == 1
    row = next(case for case in cases() if case.name == "replay, statistic").play(runs=2)
    made = block(Report((row,)), False, 3.0, 1.5)
    changed = written(page, made)
    assert "| replay, statistic | 1 | 0.00 |" in changed and written(changed, made) == changed
    assert changed.split(BEGIN)[0] == page.split(BEGIN)[0] and changed.split(END)[1] == page.split(END)[1]
