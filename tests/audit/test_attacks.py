"""Attacks get people out of explanations without noise, and nothing to speak of out of ours at ε ≤ 1.

The noise of our releases has no seed. A figure that must be near chance is a mean over so many people and tables that its limit
is about five of its standard errors away from where it lies.
"""

import json

import numpy as np
import pytest
from sources import Scaled

import pellucid as pel
from pellucid.audit.attacks import ATTACKS, find
from pellucid.audit.attacks.base import Against, Attack, auc, mean_interval
from pellucid.audit.attacks.membership import Membership, Told
from pellucid.audit.attacks.picture import draw
from pellucid.cli import commands as cli
from pellucid.mechanisms import source

MEMBERSHIP = ["curves", "importances", "shapley-importance", "clusters", "tracing", "background"]
EXACT = ("without noise", None)
NOT_SEEN = 0.61
"""An AUC of one study above this would not be chance."""


def figures(attack, tables):
    return {(o.against, o.epsilon): o for o in attack.outcomes(tables)}


@pytest.fixture(scope="module")
def membership():
    """Every study of membership on twelve tables: the standard error of an AUC is below 0.018."""
    return {name: figures(ATTACKS[name](epsilons=(1.0,)), 12) for name in MEMBERSHIP}


@pytest.mark.xdist_group("membership")  # one process makes the studies
@pytest.mark.parametrize("name", MEMBERSHIP)
def test_membership_shows_without_noise_and_not_in_ours(name, membership):
    found = membership[name]
    assert found[EXACT].value > 0.7 and found[EXACT].baseline == 0.5
    ours = {who: one.value for (who, _), one in found.items() if who.startswith("ours")}
    assert max(ours.values()) < NOT_SEEN and ("ours, by differences" in ours) == (name == "curves")


def test_the_attacks_on_curves_find_people_where_noise_is_small():
    """Also in the default curves and in level and differences, which are other numbers than those without noise."""
    found = figures(ATTACKS["curves"](epsilons=(100.0,)), 4)
    assert min(one.value for (_, epsilon), one in found.items() if epsilon) > NOT_SEEN


@pytest.mark.xdist_group("membership")
def test_ours_is_near_chance_over_all_studies(membership):
    assert 0.46 < np.mean([found["ours", 1.0].value for found in membership.values()]) < 0.55


@pytest.mark.parametrize("name", ["tracing", pytest.param("clusters", marks=pytest.mark.slow)])
def test_noise_twenty_times_too_small_is_noticed(name, monkeypatch):
    monkeypatch.setattr(source, "current", Scaled(0, 1 / 20))
    assert figures(ATTACKS[name](epsilons=(1.0,)), 8)["ours", 1.0].low > NOT_SEEN


@pytest.mark.slow
def test_the_record_is_read_from_its_values_unless_it_is_the_secret():
    found = figures(ATTACKS["shapley-record"](epsilons=(1.0,)), 6)
    nothing = found[EXACT].baseline
    assert 0.3 < nothing < 0.4
    assert found[EXACT].value > 0.75
    assert found["ours", 1.0].value < nothing + 0.2
    assert found["ours, record not the secret", 1.0].value > 0.65, "central privacy is not about the record; the docs say so"


@pytest.mark.slow
def test_the_record_is_read_from_slopes_without_noise():
    found = figures(ATTACKS["local-record"](epsilons=(1.0,)), 5)
    nothing = found[EXACT].baseline
    assert found[EXACT].value > nothing + 0.24
    assert found["ours", 1.0].value < nothing + 0.22


@pytest.mark.slow
def test_unlimited_questions_give_the_column_away_and_a_budget_ends_them():
    attack = ATTACKS["questions"](epsilons=(1.0,))
    found = figures(attack, 3)
    assert found[EXACT].value > 0.99
    assert found["noise, but no budget", 64.0].value > 0.7
    assert found["ours", 1.0].value < 0.72
    secret = np.zeros(64, dtype=bool)
    assert [len(attack.asked(secret, budget)) for budget in (1.0, 2.0, 7.0)] == [1, 1, 3]


def test_the_noise_of_ours_is_that_of_everybody(monkeypatch):
    """Releases of attacks carry certificates of real noise."""
    assert source.is_private()
    made = []
    release = pel.Session.release
    monkeypatch.setattr(pel.Session, "release", lambda self, *a, **k: made.append(release(self, *a, **k)) or made[-1])
    for name in MEMBERSHIP:
        ATTACKS[name](epsilons=(0.5,)).outcomes(1)
    assert len(made) == len(MEMBERSHIP) + 2, "curves are released in three ways"
    assert all(e.certificate.private and e.certificate.epsilon == 0.5 for e in made)


class Known(Membership):
    """A mean of one normal number, of which everything is known: the best AUC is Φ(√(m/n)/√2) for m numbers of n people."""

    name, title, released = "known", "known", "means"
    people = 40

    def draw(self, rng, size):
        return rng.normal(size=(size, 40))

    def parts(self, rows):
        return rows

    def ours(self, rows, epsilon):
        return Told(rows.mean(axis=0), 0.0)


def test_the_likelihood_ratio_is_as_good_as_it_can_be():
    found = figures(Known(epsilons=()), 60)
    assert abs(found[EXACT].value - 0.76) < 0.025


def test_auc_and_intervals():
    assert auc(np.array([1.0, 2.0]), np.array([0.0, 0.5])) == 1.0
    assert auc(np.ones(3), np.ones(4)) == 0.5
    assert mean_interval([1.0] * 5) == (1.0, 1.0, 1.0)
    assert mean_interval([0.5]) == (0.5, 0.0, 1.0)
    rng = np.random.default_rng(0)
    covered = [low <= 0.3 <= high for _, low, high in (mean_interval(rng.uniform(0.2, 0.4, 10)) for _ in range(1000))]
    assert 0.92 < np.mean(covered) < 0.98


def test_tables_follow_the_seed():
    one, again, other = (figures(ATTACKS["tracing"](epsilons=(), seed=seed), 2)[EXACT].value for seed in (3, 3, 4))
    assert one == again != other


def test_every_attack_says_what_it_is():
    for name, attack in ATTACKS.items():
        assert issubclass(attack, Attack) and attack.name == name and attack.title and attack.released
        assert attack.few < attack.tables
    assert str(Against("ours", 0.1)) == "ours, ε = 0.1"
    with pytest.raises(pel.PlanError, match=r"no attack 'tracin'; there are curves, .*questions"):
        find(["tracin"])


@pytest.fixture
def short(monkeypatch):
    """The command on two tables."""
    for attack in ATTACKS.values():
        monkeypatch.setattr(attack, "few", 2)


def run(arguments, capsys):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["pellucid", *arguments])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code
    return code, *capsys.readouterr()


def test_the_command_prints_a_table_and_draws_a_picture(short, tmp_path, capsys):
    file = tmp_path / "attacks.png"
    code, out, _ = run(["attack", "clusters", "--fast", "--plot", str(file)], capsys)
    assert code == 0
    assert "without noise" in out and "published" in out and "AUC" in out and "95 % interval" in out and "clusters" in out
    assert file.read_bytes().startswith(b"\x89PNG")


def test_the_command_prints_json(short, capsys):
    code, out, _ = run(["attack", "tracing", "--fast", "--json"], capsys)
    rows = json.loads(out)
    assert code == 0 and [row["epsilon"] for row in rows] == [None, 0.1, 1.0, 10.0]
    assert set(rows[0]) >= {"attack", "released", "against", "epsilon", "figure", "value", "low", "high", "baseline"}


def test_wrong_names_and_files_are_one_line(short, tmp_path, capsys):
    code, out, err = run(["attack", "curvs"], capsys)
    assert code == 1 and not out and err.count("\n") == 1 and "curves" in err and "questions" in err
    code, out, err = run(["attack", "tracing", "--fast", "--plot", str(tmp_path / "nowhere" / "a.png")], capsys)
    assert code == 1 and not out and "cannot be written" in err and "Traceback" not in err


def test_a_picture_has_a_panel_for_each_attack():
    import matplotlib.pyplot as plt

    names = ["tracing", "shapley-importance", "clusters", "background"]
    figure = draw([outcome for name in names for outcome in ATTACKS[name](epsilons=(1.0,)).outcomes(2)])
    assert [ax.get_title() for ax in figure.axes if ax.get_visible()] == names
    plt.close(figure)
