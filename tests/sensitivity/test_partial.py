"""The three sensitivities, shares and gradients, against theory, finite differences and brute force."""

import pickle
import time

import matplotlib
import numpy as np
import pandas as pd
import pytest
import sympy

import pellucid as pel
from pellucid.sensitivity import partial

matplotlib.use("Agg")

PAPER = "a**2 + exp(2*b - a)"
BOX = {"a": (1, 2), "b": (0.5, 3)}
FORMULAS = [
    (PAPER, BOX),
    ("a*b*exp(-c) + log(1 + d**2)", {"a": (0, 1), "b": (0, 2), "c": (0, 1), "d": (-1, 1)}),
    ("tanh(a*b) - sqrt(1 + a**2)/(2 + sin(b))", {"a": (-1, 1), "b": (-2, 2)}),
    ("abs(a - 3)*b + max(a, b)**2", {"a": (1, 2), "b": (3, 4)}),
]


def test_the_figures_of_the_paper_and_of_the_theory():
    started = time.process_time()
    p = partial(PAPER, BOX)
    assert 330.9723 <= p.metric <= 330.9724
    assert round(p.add_remove, 2) == 149.41 and round(p.replace, 2) == 147.41
    assert round(partial(PAPER, BOX, mean_of=5).metric, 4) in (66.1944, 66.1945)
    np.testing.assert_allclose(p.share((1.5, 2)), (-0.353, 0.936), atol=5e-4)
    np.testing.assert_allclose(p.gradient((1.5, 2)), (-27.80, 54.19), atol=5e-3)
    assert time.process_time() - started < 2.0


def test_every_number_says_what_it_is_valid_for():
    p = partial(PAPER, BOX)
    assert (p.metric.relation, p.add_remove.relation, p.replace.relation) == ("metric", "add-remove", "replace")
    assert "NOT for adding, removing or replacing" in p.metric.text and "added or removed" in p.add_remove.text
    assert all(f"{c.relation}: " in p.text for c in (p.metric, p.add_remove, p.replace))
    assert p.metric.upper >= p.metric.lower and p.metric.converged
    again = pickle.loads(pickle.dumps(p.metric))
    assert again == p.metric and again.relation == "metric" and again.text == p.metric.text


@pytest.mark.parametrize(("text", "box"), FORMULAS)
def test_shares_and_gradients_are_finite_differences(text, box):
    p = partial(text, box)
    f = p.formula.compiled()
    rng = np.random.default_rng(4)
    points = np.column_stack([rng.uniform(lo + 0.05 * (hi - lo), hi - 0.05 * (hi - lo), 200) for lo, hi in box.values()])

    def central(function, h):
        columns = []
        for j in range(points.shape[1]):
            step = np.zeros(points.shape[1])
            step[j] = h
            columns.append((function(points + step) - function(points - step)) / (2 * h))
        return np.column_stack(columns)

    slopes = central(lambda x: f(*x.T)[0], 1e-6)
    np.testing.assert_allclose(p.share(points), slopes / np.linalg.norm(slopes, axis=1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(p.norm_at(points), np.linalg.norm(slopes, axis=1), rtol=1e-6)
    growth = central(p.norm_at, 1e-6)
    np.testing.assert_allclose(p.gradient(points), growth, rtol=1e-6, atol=1e-6 * np.abs(growth).max())
    np.testing.assert_allclose((p.share(points) ** 2).sum(axis=1), 1)


@pytest.mark.parametrize(("text", "box"), FORMULAS)
def test_sensitivities_bound_and_meet_brute_force(text, box):
    p = partial(text, box)
    rng = np.random.default_rng(1)
    points = np.vstack(
        [
            np.column_stack([rng.uniform(*ends, 50_000) for ends in box.values()]),
            np.column_stack([rng.choice(ends, 2000) for ends in box.values()]),
        ]
    )
    values = p.formula.compiled()(*points.T)[0]
    for certified, best in (
        (p.metric, p.norm_at(points).max()),
        (p.add_remove, np.abs(values).max()),
        (p.replace, values.max() - values.min()),
    ):
        assert best <= certified * (1 + 1e-12)
        assert certified.converged and certified <= best * 1.05
        assert certified.lower <= certified


def test_several_outputs():
    p = partial("[a*b, a - b, exp(a)]", BOX)
    rng = np.random.default_rng(2)
    grid = [np.append(rng.uniform(*ends, 3000), rng.choice(ends, 300)) for ends in BOX.values()]
    values = np.column_stack([np.broadcast_to(v, 3300) for v in p.formula.compiled()(*grid)])
    apart = values[rng.integers(0, 3300, 200_000)] - values[rng.integers(0, 3300, 200_000)]
    norms = {"l1": lambda v: np.abs(v).sum(1), "l2": lambda v: np.linalg.norm(v, axis=1), "linf": lambda v: np.abs(v).max(1)}
    for norm, length in norms.items():
        size, distance = p.sensitivity("add-remove", norm), p.sensitivity("replace", norm)
        assert length(values).max() <= size <= 1.02 * length(values).max()
        assert length(apart).max() <= distance <= 1.1 * length(apart).max()
        assert size.converged and distance.converged
    assert (p.share((1.5, 2)) >= 0).all() and (p.share((1.5, 2)) ** 2).sum() == pytest.approx(1)
    h = 1e-6
    growth = [
        (p.norm_at((1.5 + h, 2)) - p.norm_at((1.5 - h, 2))) / (2 * h),
        (p.norm_at((1.5, 2 + h)) - p.norm_at((1.5, 2 - h))) / (2 * h),
    ]
    np.testing.assert_allclose(p.gradient((1.5, 2)), growth, rtol=1e-6)


@pytest.mark.parametrize("text", ["atan(1/a)", "atan(tan(3*a))", "tanh(1/(a - 0.3))", "1/a", "log(a)"])
def test_a_slope_is_no_bound_across_a_jump(text):
    p = partial(text, {"a": (-1, 1)}, seconds=1)
    assert p.metric == np.inf and not p.metric.converged
    assert partial("atan(1/a)", {"a": (0.5, 1)}).metric == pytest.approx(0.8)


def test_names_of_a_second_record_do_not_collide():
    apart = partial("[a + a_other, a + 2*a_other]", {"a": (0, 1), "a_other": (0, 1)}).replace
    assert apart == pytest.approx(partial("[a + b, a + 2*b]", {"a": (0, 1), "b": (0, 1)}).replace) == pytest.approx(13**0.5)


def test_means_divide_by_the_public_number():
    p, q = partial(PAPER, BOX), partial(PAPER, BOX, mean_of=10)
    for relation in ("metric", "add-remove", "replace"):
        assert q.sensitivity(relation) == pytest.approx(p.sensitivity(relation) / 10)
        assert q.sensitivity(relation) * 10 >= p.sensitivity(relation).lower
    np.testing.assert_allclose(q.gradient((1.5, 2)) * 10, p.gradient((1.5, 2)))
    np.testing.assert_allclose(q.share((1.5, 2)), p.share((1.5, 2)))


def test_flat_places_have_no_driver():
    p = partial("a**2 + b**2", {"a": (-1, 1), "b": (-1, 1)})
    assert p.share((0, 0)).tolist() == [0, 0] and p.gradient((0, 0)).tolist() == [0, 0]


def test_points_in_any_form():
    p = partial(PAPER, BOX)
    single = p.share({"b": 2, "a": 1.5})
    np.testing.assert_array_equal(single, p.share((1.5, 2)))
    np.testing.assert_array_equal(p.share({"a": [1.5, 1.5], "b": 2}), np.array([single, single]))
    for bad in ((1, 2, 3), {"a": 1}, {"a": 1, "b": 2, "c": 3}, 7.0):
        with pytest.raises(pel.PlanError):
            p.share(bad)


@pytest.mark.parametrize("table", [pd.DataFrame({"a": [1.5], "b": [2.0]})])
def test_tables_of_records_are_read_only_inside_a_session(table):
    with pytest.raises(pel.NotPrivate, match="session"):
        partial(PAPER, BOX).share(table)


@pytest.mark.parametrize("options", [{"mean_of": 0}, {"mean_of": 2.5}, {"mean_of": True}, {"tolerance": 2}, {"seconds": 0}])
def test_bad_options(options):
    with pytest.raises(pel.PlanError):
        partial(PAPER, BOX, **options)


def test_the_function_stays_a_function():
    """Importing a module of a package puts its name into the package: none may be called like a function there."""
    for name in pel.sensitivity.__all__:
        assert callable(getattr(pel.sensitivity, name)), name
    assert pel.sensitivity.partial("a", {"a": (0, 1)}).metric == pytest.approx(1)


def test_bad_relations_and_norms():
    p = partial(PAPER, BOX)
    for relation, norm in (("swap", "l2"), ("replace", "l7"), ("metric", "l1")):
        with pytest.raises(pel.PlanError):
            p.sensitivity(relation, norm)


def test_individual_loss_of_a_point():
    p = partial(PAPER, BOX)
    f = 1.5**2 + np.exp(2.5)
    assert p.individual_loss((1.5, 2), sigma=100.0).rho == pytest.approx(f**2 / 2 / 100**2)
    assert p.individual_loss((1.5, 2), sigma=100.0).rho <= p.add_remove**2 / 2 / 100**2
    with pytest.raises(pel.PlanError):
        p.individual_loss([(1.5, 2), (1, 1)], sigma=1.0)


@pytest.mark.parametrize("kind", ["surface", "shares", "map", "profiles"])
def test_pictures_mark_the_certified_supremum(kind):
    drawn = partial(PAPER, BOX).plot(kind=kind)
    figure = np.ravel(drawn)[0].figure
    texts = [t.get_text() for t in figure.findobj(matplotlib.text.Text)]
    assert any("certified supremum 330.972" in text for text in texts)
    matplotlib.pyplot.close(figure)


def test_pictures_of_more_attributes_and_bad_kinds():
    p = partial("a*b + c", {"a": (0, 1), "b": (0, 1), "c": (0, 1)})
    assert len(p.plot()) == 3
    for kind in ("surface", "pie"):
        with pytest.raises(pel.PlanError):
            p.plot(kind=kind)
    with pytest.raises(pel.PlanError, match="three-dimensional"):
        partial(PAPER, BOX).plot(matplotlib.pyplot.figure().add_subplot())
    with pytest.raises(pel.PlanError, match="axes"):
        p.plot(matplotlib.pyplot.figure().add_subplot())
    matplotlib.pyplot.close("all")


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    import sys

    for name in [n for n in sys.modules if n.startswith("pellucid.sensitivity.")] + ["sympy", "flint"]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(pel.MissingExtra, match=r"pellucid\[symbolic\]"):
        partial(PAPER, BOX)


class TestExplainers:
    """A certified number handed straight to a release, and shares over records."""

    schema = pel.Schema({"a": pel.Number(1, 2), "b": pel.Number(0.5, 3), "flag": pel.Boolean(), "level": pel.Category([1, 2, 5])})

    def people(self, size=4000):
        rng = np.random.default_rng(6)
        return pd.DataFrame(
            {
                "a": rng.uniform(1, 2, size),
                "b": rng.uniform(0.5, 3, size),
                "flag": rng.random(size) < 0.3,
                "level": rng.choice([1, 2, 5], size),
            }
        )

    def session(self, **options):
        return pel.Session(self.people(), self.schema, budget=pel.Budget(epsilon=1000.0), **options)

    @pytest.mark.parametrize("neighbors", ["replace", "add-remove"])
    @pytest.mark.parametrize("aggregate", ["mean", "sum"])
    def test_statistic_without_noise_is_numpy(self, silent, neighbors, aggregate):
        people = self.people()
        made = self.session(neighbors=neighbors).release(pel.Statistic([PAPER, "flag*level"], aggregate), epsilon=1.0)
        exact = [people.a**2 + np.exp(2 * people.b - people.a), people.flag * people.level]
        np.testing.assert_allclose(made.values, [getattr(e, aggregate)() for e in exact], rtol=1e-6)

    def test_the_sum_uses_the_sensitivity_of_the_relation(self):
        """The error bars are those of noise at the certified sensitivity, not of another relation's."""
        p = partial(PAPER, BOX)
        for neighbors, sensitivity in (("add-remove", p.add_remove), ("replace", p.replace)):
            session = self.session(neighbors=neighbors, expected_rows=4000)
            expected = session.preview(pel.Statistic(PAPER, "sum"), epsilon=1.0).error[0]
            assert expected == pytest.approx(sensitivity * np.log(20), rel=1e-3)

    def test_error_bars_cover(self, monkeypatch):
        from sources import Seeded

        from pellucid.mechanisms import source

        people = self.people()
        truth = (people.a**2 + np.exp(2 * people.b - people.a)).mean()
        session = self.session()
        inside = 0
        for seed in range(200):
            monkeypatch.setattr(source, "current", Seeded(seed))
            lower, upper = session.release(pel.Statistic(PAPER), epsilon=0.05, fresh=True).interval(0.9)
            inside += bool(lower[0] <= truth <= upper[0])
        assert 165 <= inside <= 195

    def test_shares_without_noise_are_the_mean_squared_shares(self, silent):
        made = self.session().release(pel.AttributeShares(PAPER), epsilon=1.0)
        people = self.people()
        squared = partial(PAPER, BOX).share(people[["a", "b"]].to_numpy()) ** 2
        np.testing.assert_allclose(made.counts, squared.sum(axis=0), rtol=1e-6)
        assert made.x == ("a", "b")

    @pytest.mark.parametrize(
        ("explainer", "said"),
        [
            (lambda: pel.Statistic("a + nothing"), "nothing"),
            (lambda: pel.Statistic("a", aggregate="median"), "median"),
            (lambda: pel.Statistic("a - a"), "no formula|constant"),
            (lambda: pel.Statistic("1/(a - 1.5)"), "finite range"),
            (lambda: pel.AttributeShares("a**2"), "two"),
        ],
    )
    def test_bad_requests_cost_nothing(self, explainer, said):
        session = self.session()
        with pytest.raises(pel.PellucidError, match=said):
            session.release(explainer(), epsilon=1.0)
        assert session.spent == 0

    def test_functions_that_look_at_other_rows_are_refused(self):
        """A SymPy function of one's own is compiled by its name, and NumPy has many that look at the whole column."""
        x, y = sympy.symbols("a b")

        class cumsum(sympy.Function):
            def fdiff(self, argindex=1):
                return cumsum(self.args[0])

        class tanh(sympy.Function):
            def _numpycode(self, printer):
                return "cumsum(a)"

        for made in (
            cumsum(x) * 1000 + y,
            tanh(x) + y,
            sympy.floor(x) * y,
            sympy.Function("foo")(x) * y,
            sympy.Piecewise((x, y > 1), (y, True)),
        ):
            for kind in (pel.Statistic, pel.AttributeShares):
                with pytest.raises(pel.PlanError, match=r"not supported|cannot be"):
                    self.session().release(kind(made), epsilon=1.0)

    def test_different_formulas_are_different_requests(self):
        e, x = sympy.Symbol("E"), sympy.Symbol("x")
        assert pel.Statistic(e * x).describe() != pel.Statistic(sympy.E * x).describe()
        assert (
            pel.AttributeShares(lambda x, u: x**2 + 0 * u).describe() != pel.AttributeShares(lambda x, v: x**2 + 0 * v).describe()
        )

    def test_text_categories_are_refused(self):
        schema = pel.Schema({"a": pel.Number(1, 2), "sex": pel.Category(["F", "M"])})
        session = pel.Session({"a": [1.0], "sex": ["F"]}, schema, budget=pel.Budget(epsilon=1.0))
        with pytest.raises(pel.PlanError, match="text"):
            session.release(pel.Statistic("a*sex"), epsilon=1.0)

    def test_saved_and_loaded(self, tmp_path):
        made = self.session().release(pel.Statistic([PAPER, "a*b"]), epsilon=1.0)
        made.save(tmp_path / "s.json")
        loaded = pel.load(tmp_path / "s.json")
        np.testing.assert_array_equal(loaded.values, made.values)
        np.testing.assert_array_equal(loaded.interval()[0], made.interval()[0])
        assert loaded.features == made.features and len(loaded.to_frame()) == 2
        assert made.plot().get_xlabel() == "mean"
