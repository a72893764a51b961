"""Data flows: minimal sets against brute force, the theorem by exact laws, the format, the pictures and the warnings."""

import math
import random
import xml.etree.ElementTree as ElementTree
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.errors import PlanError
from pellucid.sensitivity import EnablingSet, Flow, Vertex
from pellucid.sensitivity.flow import drawing, graph

ROOT = Path(__file__).parent.parent.parent

# Figure 1 of the paper's supplement; s is the vertex its theorem puts before the input a, so that {a} can be chosen.
PARTIAL_DEPENDENCE = "s -> a\na -> x values\na, x values -> y values\nx values, y values -> b"
EFFECTS = "records -> edges\nrecords, edges -> effects\nedges, effects -> curve"
EFFECTS_WITH_COUNTS = "records -> edges\nrecords, edges -> effects\nrecords, edges -> counts\nedges, effects, counts -> curve"
IMPORTANCE = "records -> base error\nrecords -> permuted errors\nbase error, permuted errors -> importance"


def sets(text):
    return {frozenset(found.stages) for found in Flow.parse(text).enabling_sets()}


def fz(*rows):
    return {frozenset(row) for row in rows}


def random_flow(seed, most=10):
    """A DAG in which every vertex lies between the input and the output, sometimes with public vertices."""
    rng = random.Random(seed)
    n = rng.choice([2, *range(most - 3, most + 1)])
    names = [f"v{i}" for i in range(n)]
    chance = rng.choice([0.15, 0.3, 0.5])
    sources = {name: [s for s in names[:i] if rng.random() < chance] for i, name in enumerate(names)}
    for i, name in enumerate(names[1:], 1):
        sources[name] = sources[name] or [rng.choice(names[:i])]
    for i, name in enumerate(names[:-1]):
        if not any(name in read for read in sources.values()):
            sources[rng.choice(names[i + 1 :])].append(name)
    # An arrow from the input to the output leaves only one set; most drawings have none.
    if rng.random() < 0.9 and len(sources[names[-1]]) > 1:
        sources[names[-1]] = [s for s in sources[names[-1]] if s != "v0"]
    flow = Flow(f"random {seed}").input("v0")
    grid = rng.random() < 0.3
    if grid:
        flow = flow.public("grid")
    for name in names[1:-1]:
        flow = flow.stage(name, *sources[name], *(["grid"] if grid and rng.random() < 0.5 else []))
    return flow.output(names[-1], *sources[names[-1]], *(["grid"] if grid else []))


def every_seed(count, at_once=20):
    """Run a test for so many seeds, a few of them together: one test per seed would take longer to report than to run."""

    def decorate(test):
        @pytest.mark.parametrize("first", range(0, count, at_once))
        def run(first):
            for seed in range(first, min(first + at_once, count)):
                test(seed)

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate


def paths(flow):
    """All paths from the input to the output, by walking them one by one."""
    forward = {v.name: [w.name for w in flow.vertices if v.name in w.sources] for v in flow.vertices}
    start, end = (next(v.name for v in flow.vertices if v.kind == kind) for kind in ("input", "output"))
    waiting = [(start,)]
    while waiting:
        path = waiting.pop()
        if path[-1] == end:
            yield path
        waiting += [(*path, name) for name in forward[path[-1]]]


def separates(all_paths, stages):
    return all(set(path) & set(stages) for path in all_paths)


def subsets(names):
    return (set(some) for size in range(len(names) + 1) for some in combinations(names, size))


def brute_force(flow):
    all_paths = list(paths(flow))
    found = []
    for some in subsets([v.name for v in flow.vertices if v.kind in ("stage", "output")]):
        if separates(all_paths, some) and not any(smaller <= some for smaller in found):
            found.append(some)
    return {frozenset(some) for some in found}


@every_seed(250)
def test_minimal_sets_are_those_of_brute_force(seed):
    flow = random_flow(seed)
    found = flow.enabling_sets()
    assert len(found) == len({frozenset(s.stages) for s in found})
    assert {frozenset(s.stages) for s in found} == brute_force(flow)
    assert [len(s.stages) for s in found] == sorted(len(s.stages) for s in found)
    assert all(s.minimal for s in found)


@every_seed(60)
def test_enables_and_leaks_agree_with_all_paths(seed):
    flow = random_flow(seed, most=7)
    all_paths = list(paths(flow))
    for some in subsets(flow.stages):
        leak = flow.leaks(some)
        assert flow.enables(some) == separates(all_paths, some) == (not leak)
        if leak:
            assert leak in all_paths and not set(leak) & some
            assert len(leak) == min(len(path) for path in all_paths if not set(path) & some)


def test_published_sets():
    assert sets(PARTIAL_DEPENDENCE) == fz(["a"], ["b"], ["x values", "y values"])
    # The input itself is the data: without the vertex before it, noise on it is not an option.
    assert sets(PARTIAL_DEPENDENCE.removeprefix("s -> a\n")) == fz(["b"], ["x values", "y values"])
    assert sets(EFFECTS) == fz(["curve"], ["edges", "effects"])
    assert sets(EFFECTS_WITH_COUNTS) == fz(["curve"], ["edges", "effects", "counts"])
    assert not Flow.parse(EFFECTS_WITH_COUNTS).enables(["edges", "effects"])
    assert sets(IMPORTANCE) == fz(["importance"], ["base error", "permuted errors"])
    # A ranking reads only the permuted errors.
    assert sets("records -> permuted errors -> ranking") == fz(["permuted errors"], ["ranking"])


def test_many_sets_are_found_fast_and_a_flood_is_refused():
    ladder = ["records -> a0", "records -> b0", "records -> c0"]
    for i in range(5):
        ladder += [f"{x}{i} -> {x}{i + 1}" for x in "abc"]
    flow = Flow.parse("\n".join([*ladder, "a5, b5, c5 -> out"]))
    assert len(flow.enabling_sets()) == 6**3 + 1
    with pytest.raises(PlanError, match="more than 100 minimal sets"):
        flow.enabling_sets(most=100)


def flip(epsilon):
    """Randomised response: how likely the other bit is."""
    return 1 / (1 + math.exp(epsilon))


def output_law(flow, charges, data, function):
    """The exact law of the output: chosen stages answer a bit by randomised response, all others compute `function`.

    `function(vertex, read)` is the value of a vertex given what it reads.
    """
    law = {}
    for flips in product((0, 1), repeat=len(charges)):
        flipped = dict(zip(charges, flips))
        chance, values = 1.0, {}
        for v in flow.vertices:
            value = data if v.kind == "input" else function(v, tuple(values[s] for s in v.sources))
            if v.name in charges:
                p = flip(float(charges[v.name]))
                chance *= p if flipped[v.name] else 1 - p
                value = ("released", v.name, (known_bit(value) or 0) ^ flipped[v.name])
            values[v.name] = value
        law[values[v.name]] = law.get(values[v.name], 0.0) + chance
    return law


def known_bit(value):
    """The data's bit, if a value holds it in the clear."""
    if value in (0, 1):
        return value
    if isinstance(value, tuple) and value[:1] != ("released",):
        return next((bit for bit in map(known_bit, value) if bit is not None), None)
    return None


def everything_read(vertex, read):
    return read if vertex.kind != "public" else "public"


def loss(one, other):
    """The largest |log-ratio| of two laws."""
    worst = 0.0
    for answer in {*one, *other}:
        p, q = one.get(answer, 0.0), other.get(answer, 0.0)
        worst = max(worst, abs(math.log(p / q)) if p and q else math.inf)
    return worst


def test_enabling_set_is_attained():
    """Every minimal set of every graph loses exactly the sum of its charges; without a stage of it, everything is lost.

    All stages pass on all they read, the chosen ones answer with the data's bit by randomised response. The second half
    is the converse: where `leaks` finds a path, copying along it and ignoring the rest releases the bit itself.
    """
    total, tried = Fraction(3, 2), 0
    for seed in range(80):
        flow = random_flow(seed, most=7)
        for chosen in flow.enabling_sets():
            tried += len(chosen.stages) > 1
            shares = {name: Fraction(1 + i, sum(range(1, len(chosen.stages) + 1))) for i, name in enumerate(chosen.stages)}
            for charges in (chosen.charges(total), chosen.charges(total, shares)):
                laws = [output_law(flow, charges, bit, everything_read) for bit in (0, 1)]
                assert sum(laws[0].values()) == pytest.approx(1.0)
                assert loss(*laws) == pytest.approx(float(total), rel=1e-9)
        for some in subsets(flow.stages):
            leak = flow.leaks(some)
            if leak:
                assert loss(*(output_law(flow, dict.fromkeys(some, total), bit, copying(leak)) for bit in (0, 1))) == math.inf
    assert tried > 40


def copying(path):
    """Each vertex of the path hands on what the one before it said; the others, and all other arrows, say nothing."""

    def function(vertex, read):
        if vertex.name not in path:
            return "nothing"
        return read[vertex.sources.index(path[path.index(vertex.name) - 1])]

    return function


@every_seed(60)
def test_no_algorithm_loses_more_than_the_sum(seed):
    """Random functions of bits in every stage: with noise on an enabling set, minimal or not, at most the total is lost."""
    rng = random.Random(seed)
    flow = random_flow(seed, most=6)
    tables = {v.name: {bits: rng.randint(0, 1) for bits in product((0, 1), repeat=len(v.sources))} for v in flow.vertices}

    def drawn_by_lot(vertex, read):
        return tables[vertex.name][tuple(value[-1] if isinstance(value, tuple) else value for value in read)]

    for some in subsets(flow.stages):
        if flow.enables(some):
            charges = flow.enabling_set(some).charges(1)
            laws = [output_law(flow, charges, bit, drawn_by_lot) for bit in (0, 1)]
            assert loss(*laws) <= 1 + 1e-9


def test_shared_noise_is_not_covered():
    """Why noise must be fresh: two stages that share a pad are each perfectly private, and together they are the data."""
    laws = [{(bit ^ pad, pad): 0.5 for pad in (0, 1)} for bit in (0, 1)]
    for part in (0, 1):
        alone = [{answer[part]: p for answer, p in law.items()} for law in laws]
        assert loss(*alone) == 0
    assert loss(*laws) == math.inf


def forget_to_split(patch):
    """Every stage spends twice its part, as when half the total were claimed."""
    original = EnablingSet.charges
    twice = lambda self, *args: {name: 2 * part for name, part in original(self, *args).items()}  # noqa: E731
    patch.setattr(EnablingSet, "charges", twice)


def forget_a_stage(patch):
    original = graph.minimal_separators

    def smaller(*args):
        for found in original(*args):
            yield found - {max(found)} if len(found) > 1 else found

    patch.setattr("pellucid.sensitivity.flow.minimal_separators", smaller)


def forget_an_arrow(patch):
    original = Flow.leaks
    patch.setattr(Flow, "leaks", lambda self, stages=(): (*original(self, stages)[:1], *original(self, stages)[2:]))


@pytest.mark.parametrize("sabotage", [forget_to_split, forget_a_stage, forget_an_arrow])
def test_sabotage_is_noticed(sabotage):
    with pytest.MonkeyPatch.context() as patch:
        sabotage(patch)
        with pytest.raises((AssertionError, ValueError)):
            test_enabling_set_is_attained()


def test_charges_add_up_exactly():
    chosen = Flow.parse(EFFECTS_WITH_COUNTS).enabling_sets()[1]
    assert chosen.charges(0.1) == dict.fromkeys(("edges", "effects", "counts"), Fraction(1, 30))
    assert chosen.charges(1, {"edges": 0.2, "effects": 0.7, "counts": 0.1})["effects"] == Fraction(7, 10)
    assert sum(chosen.charges(0.7, {"edges": 0.333, "effects": 0.333, "counts": 0.333}).values()) == Fraction(7, 10)
    for shares, message in [
        ({"edges": 0.5, "effects": 0.5}, "counts must get a part"),
        ({"edges": 0.5, "effects": 0.5, "count": 0.1}, "did you mean 'counts'"),
        ({"edges": 0.5, "effects": 0.5, "counts": 0.5}, "add up to 1.5"),
        ({"edges": 0.5, "effects": 0.5, "counts": 0}, "above 0"),
    ]:
        with pytest.raises(PlanError, match=message):
            chosen.charges(1, shares)
    for epsilon in (0, -1, math.inf, "much"):
        with pytest.raises(PlanError, match="epsilon"):
            chosen.charges(epsilon)


def test_needs_say_what_is_composed_and_what_is_fixed():
    flow = Flow.parse(
        "public: grid\nrecords, grid -> answers: in [0, 1]\nanswers -> means: m values in [0, 1]\n"
        "records -> counts\nmeans, counts -> slope\nrecords, slope -> fit\nfit, slope -> curve"
    )
    needs = flow.enabling_set(["slope", "fit"]).needs
    assert needs["slope"].through == ("answers", "means", "counts") and needs["slope"].fixed == ()
    assert needs["fit"].through == () and needs["fit"].fixed == ("slope",)
    assert "computed through answers, means and counts" in needs["slope"].text
    assert "for every fixed value of slope" in str(needs["fit"]) and "add needs=" in needs["fit"].text
    means = flow.enabling_set(["means", "counts", "fit"]).needs["means"]
    assert means.through == ("answers",) and "m values in [0, 1]" in means.text
    # A released stage behind an unreleased one is fixed too; what follows from released ones alone is not composed.
    fit = flow.enabling_set(["means", "counts", "fit"]).needs["fit"]
    assert fit.fixed == ("means", "counts") and fit.through == () and fit.reads_data
    assert flow.enabling_set(["slope", "fit"]).safe == ("curve",)


def test_a_larger_set_is_allowed_and_said_to_be_larger():
    flow = Flow.parse("records -> round 1\nrecords, round 1 -> round 2\nround 2 -> centres")
    both = flow.enabling_set(["round 1", "round 2"])
    assert not both.minimal and both.needs["round 2"].fixed == ("round 1",) and both.needs["round 2"].reads_data
    spare = flow.enabling_set(["round 2", "centres"])
    assert not spare.needs["centres"].reads_data and "could go without noise" in spare.text
    with pytest.raises(PlanError, match="records -> round 2 -> centres carries data past it"):
        flow.enabling_set("round 1")


def test_a_flow_built_in_code_is_the_one_read_from_text(tmp_path):
    built = (
        Flow("effects")
        .public("schema", "declared columns")
        .input("records")
        .stage("edges", "records", "schema", needs="ranks")
        .stage("effects", "records", "edges")
        .output("curve", "edges", "effects")
    )
    text = """
    # a comment
    flow: effects
    records -> effects          # one stage over
    edges -> effects            # two lines
    public: schema
    records, schema -> edges: ranks
    schema: declared columns
    edges, effects → curve
    """
    assert Flow.parse(text) == built == Flow.parse(built.text)
    built.save(tmp_path / "effects.flow")
    assert Flow.load(tmp_path / "effects.flow") == built
    with pytest.raises(PlanError, match="cannot be read as text"):
        Flow.load(tmp_path / "nothing.flow")
    assert built["edges"] == Vertex("edges", ("records", "schema"), "ranks", "stage")
    assert built.stages == ("edges", "effects", "curve")


WORDS = (
    st.text(st.sampled_from('ab ,:#"\\->→=<|{}\u2028é漢'), min_size=1, max_size=8).map(lambda s: " ".join(s.split())).filter(bool)
)


@settings(max_examples=100, deadline=None)
@given(
    names=st.lists(st.one_of(WORDS, st.sampled_from(["flow", "public", "flow: x", '"'])), min_size=4, max_size=6, unique=True),
    notes=st.lists(st.text(max_size=12), min_size=6, max_size=6),
    title=st.text(max_size=10),
)
def test_text_reads_back(names, notes, title):
    flow = Flow(title).input(names[0], notes[0]).public(names[1], notes[1])
    for i, name in enumerate(names[2:-1], 2):
        flow = flow.stage(name, *names[:i], needs=notes[i])
    flow = flow.output(names[-1], *names[:-1], needs=notes[5])
    assert Flow.parse(flow.text) == flow
    assert names[0] in flow.draw()
    assert set(boxes_of(flow.svg())) == set(names)


@every_seed(20)
def test_random_flows_read_back(seed):
    flow = random_flow(seed)
    assert Flow.parse(flow.text) == flow


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("records -> a\nedges\na -> b", "line 2: edges stands alone; write 'records -> edges'"),
        ("records => a", "line 1: arrows are written ->"),
        ("a <- records", "line 1: arrows are written ->"),
        ("records --> a", "line 1: arrows are written ->"),
        ("records -> a, b", "line 1: a, b: one name goes there"),
        ("records, , b -> a", "line 1: names are separated by single commas"),
        ("records ->", "line 1: a name is missing beside the arrow"),
        (": note", "line 1: a name is missing beside the colon"),
        ('"records -> a', "line 1: a name in double quotes does not end"),
        ("flow: a\nflow: b\nr -> a", "line 2: the flow has a name already"),
        ("public: grid: ten\nr -> a", "line 1: after 'public:' come names only"),
        ("public:\nr -> a", "line 1: a name is missing beside 'public:'"),
        ("r -> a: one\nr -> a: two", "line 2: 'a' has a note already, 'one'"),
        ("r -> a\npublic: a\na -> b", r"'a' is public \(line 1\) but reads r; drop the mark"),
        ("", "draws no arrow"),
        ("public: grid\ngrid -> a", "everything is public"),
        ("r -> a\na, c -> b\nb -> c\nb -> d", r"cycle: (b \(line 2\) -> c \(line 2\) -> b|c \(line 2\) -> b \(line 2\) -> c)"),
        ("r, a -> a", "cycle: a"),
        ("r -> effects\nr, efects -> curve\neffects -> curve", r"'efects' \(line 2\) reads nothing \(did you mean 'effects'"),
        ("r -> a\nr -> b", r"nothing reads 'a' \(line 1\) and 'b' \(line 2\), but a flow has one output"),
    ],
)  # fmt: skip
def test_errors_in_text_name_the_line_and_the_fix(text, message):
    with pytest.raises(PlanError, match=message):
        Flow.parse(text)


def test_errors_in_code_name_the_fix():
    flow = Flow().input("records").stage("effects", "records")
    for draw, message in [
        (lambda: flow.stage("curve", "efects"), "did you mean 'effects'"),
        (lambda: flow.stage("effects", "records"), "drawn twice"),
        (lambda: flow.stage("curve"), "reads nothing"),
        (lambda: flow.stage("curve", "effects", "effects"), "names a source twice"),
        (lambda: flow.input("people"), "are both marked as the input"),
        (lambda: flow.stage(" a", "records"), "is not a name"),
        (lambda: flow.stage("idle", "records").output("curve", "effects"), "'idle': no path leads from there to the output"),
        (lambda: flow.public("grid").output("curve", "effects"), "'grid': no path leads"),
        (lambda: flow.public("grid").output("curve", "grid"), "nothing to protect"),
        (lambda: Flow().public("grid").output("curve", "grid"), "no input"),
        (lambda: flow.output("curve", "effects").stage("more", "curve"), "closes the flow"),
        (lambda: flow.enabling_sets(), "no output yet"),
        (lambda: Flow("", (Vertex("a", ("b",)), Vertex("b", ("a",)))), "cycle: "),
        (lambda: Flow("", (Vertex("a", ("a",)),)), "reads itself"),
        (lambda: Flow("", (Vertex("r", (), "", "input"), Vertex("g", ("r",), "", "public"))), "draw it as a stage"),
        (lambda: flow.output("curve", "effects").enables("efects"), "did you mean 'effects'"),
        (lambda: flow.output("curve", "effects").enables("records"), "draw 'records -> noisy records'"),
        (lambda: flow.public("grid").output("curve", "effects", "grid").enables("grid"), "noise there protects nobody"),
        (lambda: flow.output("curve", "effects").warnings("both"), "add-remove"),
    ]:
        with pytest.raises((PlanError, ValueError), match=message):
            draw()


def test_public_by_descent_needs_no_noise():
    flow = Flow.parse("public: schema\nschema -> grid\nrecords, grid -> sums\nsums, grid -> curve")
    assert sets(flow.text) == fz(["sums"], ["curve"]) and "grid" not in flow.stages


# Each rule: a drawing on which it fires, a word of its sentence, and drawings of the same on which it is silent.
OMISSIONS = [
    (
        "records -> effects: average difference per interval, declared intervals", "no counts are drawn",
        ["records -> counts\nrecords, counts -> effects: average difference per interval, declared intervals",
         "records -> effects: sum of differences per interval, declared intervals",
         "records -> effects: mean of 8 values, declared"],
    ),
    (
        "records -> effects: sums per interval", "intervals, grids or quantiles are used but not drawn",
        ["records -> edges\nrecords, edges -> effects: sums per interval",
         "public: grid\nrecords, grid -> effects: sums per interval",
         "records -> effects: sums per declared interval", "records -> quantiles", "records -> edgeworth: sums"],
    ),
    (
        "records -> sums: clipped to the largest value", "limits that are not drawn",
        ["records -> clip\nrecords, clip -> sums: clipped", "public: bounds\nrecords, bounds -> sums: clipped",
         "records -> sums: clipped to [0, 1]", "records -> sums: clipped to the declared range",
         "records -> sums: at most ±R, clipped"],
    ),
    (
        "records -> x values: unique values of the feature", "which values occur",
        ["records -> x values: the declared values, not the unique ones", "records -> x values: twenty values"],
    ),
    (
        "records -> bars: one bar for each of the categories", "categories are used but not drawn",
        ["public: categories\nrecords, categories -> bars: one for each of the categories",
         "records -> bars: the declared categories"],
    ),
    (
        "records -> predictions", "a model is used but not drawn",
        ["public: model\nmodel: trained on other data\nrecords, model -> predictions",
         "records -> model\nrecords, model -> predictions", "records -> sums"],
    ),
    (
        "public: model\nmodel: a forest\nrecords, model -> sums", "without saying that it was trained on other data",
        ["public: model\nmodel: trained on other data\nrecords, model -> sums", "records -> model\nmodel -> sums"],
    ),
    (
        "public: limits\nlimits: smallest and largest value in the data\nrecords, limits -> sums", "read from the data",
        ["public: limits\nlimits: from form 12\nrecords, limits -> sums"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("fires", "words", "silent"), OMISSIONS, ids=[words for _, words, _ in OMISSIONS])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_omissions_are_asked_about(fires, words, silent, relation):
    assert sum(words in sentence for sentence in Flow.parse(fires).warnings(relation)) == 1
    for text in silent:
        assert not any(words in sentence for sentence in Flow.parse(text).warnings(relation)), text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("records -> curve: mean of values in [0, 1]", "secret under add-remove"),
        ("records -> curve: sum of values in [0, 1], divided by n", "secret under add-remove"),
        ("records -> curve: sum over the number of records", "secret under add-remove"),
        ("public: n\nrecords, n -> curve: a sum", "'records -> n'"),
        ("public: number of records\nrecords, number of records -> curve: a sum", "marked public, but under add-remove"),
    ],
)
def test_the_number_of_records_is_asked_about_under_add_remove_only(text, words):
    assert sum(words in sentence for sentence in Flow.parse(text).warnings()) == 1
    assert not any("add-remove" in sentence for sentence in Flow.parse(text).warnings("replace"))


def test_a_drawn_count_answers_the_question_about_the_number():
    for text in (
        "records -> count\nrecords -> sum\nsum, count -> curve: mean",
        "records -> curve: sum and count of values in [0, 1], in one draw; the mean follows",
        "records -> n\nrecords, n -> curve: a mean",
        "records -> curve: a mean, the sum over a public constant",
        "records -> mean: of the answers of a fixed number of blocks",
    ):
        assert Flow.parse(text).warnings() == []


def test_warnings_name_every_stage_and_the_fix():
    (sentence,) = Flow.parse("people -> a: sums per bin\npeople -> b: sums per bin\na, b -> c").warnings("replace")
    assert sentence.startswith("a, b: ") and "Draw 'people -> edges'" in sentence
    report = Flow.parse("people -> a: sums per bin\na -> c").report("replace")
    assert (
        "Noise on c (all of ε)" in report and "Is something missing from the drawing?" in report and "people -> edges" in report
    )


def test_drawing_in_characters():
    flow = Flow.parse("public: grid\nrecords, grid -> sums\nrecords -> count\nsums, count -> curve")
    assert (
        "\n" + flow.draw(["sums", "count"]) + "\n"
        == """
                ╔═══════╗
┏━━━━━━━━━┓ ╭──▶║ count ╟─╮     ╭───────╮
┃ records ┠─┤   ╚═══════╝ ╰────▶│       │
┗━━━━━━━━━┛ │   ╔═══════╗   ╭──▶│ curve │
┌╌╌╌╌╌╌╌╌╌┐ ╰──▶║       ║   │   ╰───────╯
┆  grid   ├────▶║ sums  ╟───╯
└╌╌╌╌╌╌╌╌╌┘     ╚═══════╝
╔═╗ noise is added here   ┌╌┐ does not depend on the data
"""
    )


def follow(sheet, row, column):
    """The boxes a line leads to, followed character by character from where it leaves a box."""
    arms = {
        "─": "LR",
        "│": "UD",
        "╮": "LD",
        "╯": "LU",
        "╭": "DR",
        "╰": "UR",
        "┤": "LUD",
        "├": "UDR",
        "┬": "LDR",
        "┴": "LUR",
        "┼": "LUDR",
    }
    step = {"L": (0, -1), "R": (0, 1), "U": (-1, 0), "D": (1, 0)}
    back = {"L": "R", "R": "L", "U": "D", "D": "U"}
    waiting, seen, ends = [(row, column, "R")], set(), set()
    while waiting:
        row, column, heading = waiting.pop()
        if (row, column, heading) in seen:
            continue
        seen.add((row, column, heading))
        mark = sheet[row][column]
        if mark == "▶":
            ends.add((row, column))
            continue
        # A level line passes under an upright one.
        out = [heading] if mark == "│" else [arm for arm in arms[mark] if arm != back[heading]]
        assert mark == "│" or back[heading] in arms[mark], (row, column, mark)
        waiting += [(row + step[arm][0], column + step[arm][1], arm) for arm in out]
    return ends


@every_seed(120)
def test_arrows_in_characters_lead_where_the_flow_says(seed):
    """Read the drawing back: from every box, the lines lead into exactly the boxes that read it."""
    flow = random_flow(seed)
    lines = [line for line in flow.draw().splitlines() if not line.startswith("┌╌┐ does")]
    sheet = [line.ljust(max(map(len, lines))) for line in lines]
    where = {}
    for v in flow.vertices:
        ((row, column),) = [(r, line.index(f" {v.name} ")) for r, line in enumerate(sheet) if f" {v.name} " in line]
        left = max(i for i in range(column + 1) if sheet[row][i] in "┃│┆")
        right = min(i for i in range(column + 1 + len(v.name), len(sheet[row])) if sheet[row][i] in "┃│┆├┠")
        top = next(r for r in range(row, -1, -1) if sheet[r][left] in "┏╭┌")
        bottom = next(r for r in range(row, len(sheet)) if sheet[r][left] in "┗╰└")
        where[v.name] = (row, left, right, top, bottom)
    for v in flow.vertices:
        row, _, right, _, _ = where[v.name]
        readers = {w.name for w in flow.vertices if v.name in w.sources}
        ends = follow(sheet, row, right + 1) if readers else set()
        found = {name for name, (_, left, _, top, bottom) in where.items() for r, c in ends if c == left - 1 and top < r < bottom}
        assert found == readers and len(ends) == len(readers)


def boxes_of(text):
    space = "{http://www.w3.org/2000/svg}"
    return {
        group.find(f"{space}text").text: {k: group.find(f"{space}rect").get(k) for k in ("x", "y", "width", "height", "fill")}
        for group in ElementTree.fromstring(text).findall(f"{space}g")
    }


@every_seed(40)
def test_svg_boxes_do_not_overlap_and_run_to_the_right(seed):
    flow = random_flow(seed)
    boxes = {k: {a: float(b) for a, b in v.items() if a != "fill"} for k, v in boxes_of(flow.svg()).items()}
    assert set(boxes) == {v.name for v in flow.vertices}
    for a, b in combinations(boxes.values(), 2):
        apart = [a[at] + a[size] <= b[at] or b[at] + b[size] <= a[at] for at, size in (("x", "width"), ("y", "height"))]
        assert any(apart)
    for v in flow.vertices:
        assert all(boxes[s]["x"] + boxes[s]["width"] < boxes[v.name]["x"] for s in v.sources)


def test_svg_marks_the_set_and_escapes_words():
    flow = Flow.parse('flow: <b>&\nrecords -> "a < b & c": 0 < x\n"a < b & c" -> curve')
    marked = boxes_of(flow.enabling_set("a < b & c").svg())
    assert {name for name, box in marked.items() if box["fill"] == drawing.FILL["noisy"]} == {"a < b & c"}
    assert marked["curve"]["fill"] == drawing.FILL["safe"] and marked["records"]["fill"] == drawing.FILL["input"]
    assert "noise is added here" in flow.svg("curve") and "noise is added here" not in flow.svg()


def test_plot_draws_every_box():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    flow = Flow.parse(EFFECTS_WITH_COUNTS)
    ax = flow.enabling_sets()[1].plot()
    ax.figure.canvas.draw()
    assert {"records", "edges", "effects", "counts", "curve"} <= {text.get_text() for text in ax.texts}
    given = plt.subplots()[1]
    assert flow.plot(given) is given
    plt.close("all")


def test_the_pictures_in_the_documents_are_current():
    page = (ROOT / "docs" / "data-flow.md").read_text(encoding="utf-8")
    text = page.split("```\nflow: accumulated effects", 1)[1].split("```", 1)[0]
    flow = Flow.parse("flow: accumulated effects" + text)
    assert f"```\n{flow.enabling_sets()[1].draw()}\n```" in page
    assert flow.enabling_sets()[1].svg() == (ROOT / "docs" / "data-flow.svg").read_text(encoding="utf-8")
