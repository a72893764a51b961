"""What holds for every picture: few names, plain numbers, dark paper, nothing cut off, and text where nothing can be drawn."""

import dataclasses
import re

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from people import make_people, risk

import pellucid as pel
from pellucid.explainers.common.canvas import NAMED, brief, short, wrapped
from pellucid.explainers.common.results import Curve
from pellucid.mechanisms import NoiseLaw
from pellucid.public.figure import DARK, INK, plain, value_text

matplotlib.use("Agg")

TOWNS = [f"a town with quite a long name, number {i:03d}" for i in range(500)]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def results():
    """Of a small table, and of one with a category of 500 long values."""
    rng = np.random.default_rng(0)
    declared = {"town": pel.Category(TOWNS, label="place"), "income": pel.Number(0, 200_000, unit="€ a year")}
    for i in range(38):
        declared[f"average_number_of_contacts_with_provider_{i:02d}_last_12_months"] = pel.Number(0, 100)
    schema = pel.Schema(declared)
    table = {"town": rng.choice(TOWNS, 2000), "income": rng.uniform(0, 200_000, 2000)}
    table |= {name: rng.uniform(0, 100, 2000) for name in list(schema)[2:]}
    place = {name: i / 500 for i, name in enumerate(TOWNS)}

    def score(d):
        return (d["town"].map(place).astype(float) + d["income"] / 200_000 + d[list(schema)[2]] / 100) / 3

    model = pel.Model(score, output=(0, 1), features=list(schema), trained_on="other data", name="visits")
    session = pel.Session(table, schema, budget=pel.Budget(1000.0))
    record = {name: table[name][0] for name in schema}
    asked = [
        pel.PartialDependence(model, "town"), pel.PartialDependence(model, "income"), pel.Distribution("town"),
        pel.Distribution("income"), pel.Completeness(), pel.AccumulatedEffects(model, "income"),
        pel.ShapValues(model, record), pel.Statistic("income"),
    ]  # fmt: skip
    return [session.release(one, epsilon=20.0) for one in asked]


def test_few_names_plain_numbers_and_nothing_cut_off(results):
    for made in results:
        ax = made.plot()
        ax.figure.canvas.draw()
        edge = ax.figure.bbox
        for axis in (ax.xaxis, ax.yaxis):
            names = [t for t in axis.get_ticklabels() if t.get_text() and t.get_visible()]
            assert len(names) <= NAMED, made.kind
            assert not any("e+" in t.get_text() or "e-0" in t.get_text() for t in names)
        for text in [ax.title, ax._left_title, ax._right_title, ax.xaxis.label, ax.yaxis.label, *ax.texts]:
            box = text.get_window_extent()
            assert not text.get_text().strip() or (box.x0 >= -1 and box.x1 <= edge.x1 + 1), (made.kind, text.get_text())
        overlapping = [t.get_window_extent() for t in ax.get_yticklabels() if t.get_text()]
        overlapping.sort(key=lambda box: box.y0)
        assert all(low.y1 <= high.y0 + 2 for low, high in zip(overlapping, overlapping[1:])), made.kind


def test_whole_numbers_stay_whole(schema):
    made = pel.Session(make_people(500), schema, budget=pel.Budget(9.0)).release(pel.Distribution("age"), epsilon=1.0)
    ax = made.plot()
    ax.figure.canvas.draw()
    assert all("." not in t.get_text() for t in ax.get_xticklabels())


def test_dark_paper_gets_light_ink(results):
    with plt.style.context("dark_background"):
        line = results[1].plot().get_lines()[0]
    assert matplotlib.colors.to_hex(line.get_color()) == DARK.ink
    assert matplotlib.colors.to_hex(results[1].plot().get_lines()[0].get_color()) == INK


def test_svg_follows_the_page_and_tells_numbers(results):
    drawn = results[1].to_svg()
    assert "prefers-color-scheme:dark" in drawn and INK not in drawn.partition("</style>")[2]
    assert drawn.count('class="mark"') == len(results[1].x) and "95 %:" in drawn
    other = results[3].to_svg(style=False)
    assert "<style" not in other
    named = [re.findall(r'id="([^"]+)"', one) for one in (drawn, other)]
    assert named[0] and not {*named[0]} & {*named[1]}, "names in one picture are not those of another on the same page"


def test_axes_in_axes_out(results):
    for made in results:
        _, ax = plt.subplots()
        assert made.plot(ax) is ax


def test_a_histogram_below_a_curve(schema):
    model = pel.Model(risk, output=(0, 1), features=list(schema), trained_on="other data")
    session = pel.Session(make_people(800), schema, budget=pel.Budget(9.0))
    curve = session.release(pel.PartialDependence(model, "age"), epsilon=1.0)
    counts = session.release(pel.Distribution("age"), epsilon=1.0)
    assert not curve.plot().patches and len(curve.plot(histogram=counts).patches) == len(counts.x)
    assert "people near" in curve.to_svg(histogram=counts)


def test_a_record_is_drawn_and_not_kept(results):
    made = results[6]
    ax = made.plot(record={"income": 12_345.0})
    assert any("income = 12,345 € a year" in t.get_text() for t in ax.get_yticklabels())
    assert not any(text in made.to_json() + made._repr_html_() for text in ("12,345", "12345"))


def test_what_cannot_be_drawn_is_told(results, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no picture")

    for made in results[:4]:
        monkeypatch.setattr(type(made), "plot", broken)
        assert "<table" in made._repr_html_() and "certificate" in made._repr_html_()


def test_results_of_before_have_no_labels():
    law = NoiseLaw("laplace", 1.0, 2)
    made = Curve(feature="x", x=(1, 2), y=np.array([0.1, 0.2]), law=law, count=100.0, noisy_count=False, output=(0.0, 1.0))
    assert "labels" not in made.content() and made.naming.axis("x") == "x"
    again = pel.from_json(dataclasses.replace(made).to_json())
    assert again.labels is None and again.headline == made.headline


def test_words():
    assert short("name") == "name" and brief("abcdefghij", 7) == "abc…hij"
    assert wrapped("a_very_long_name_of_a_column that goes on", 1.2, 8.0).count("\n") >= 1
    assert [plain(v) for v in (89_000.0, 1e-5, -2.5)] == ["89,000", "0.00001", "−2.5"]
    assert [value_text(v) for v in (63, 63.0, True, "x", 12_345)] == ["63", "63", "True", "x", "12,345"]
