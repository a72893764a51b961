"""Everything is as it was: numbers, charges, certificates, ledgers and saved explanations of the version before."""

import gzip
import json
import math
import shutil
import sys
from pathlib import Path

import pytest
import recording

import pellucid as pel
from pellucid.explainers.common.base import KEPT
from pellucid.explainers.curves import accumulate, variation
from pellucid.mechanisms.labels import ASSUMPTION
from pellucid.public import grids
from pellucid.release import passes

HERE = Path(__file__).parent
NUMBERS = json.loads(gzip.decompress((HERE / "numbers.json.gz").read_bytes()))
SAVED = json.loads(gzip.decompress((HERE / "saved.json.gz").read_bytes()))
MADE = dict(recording.cases())

same_python = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11),
    reason="fingerprints of functions hold bytecode, here that of Python 3.11",
)


def differences(before, now, where="result"):
    """Where two recordings differ; floats may differ in their last digits, which depend on the machine."""
    if isinstance(before, dict) and isinstance(now, dict):
        lost = [f"{where}.{key}" for key in before.keys() ^ now.keys()]
        return lost + [d for key in before.keys() & now.keys() for d in differences(before[key], now[key], f"{where}.{key}")]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [d for i, pair in enumerate(zip(before, now)) for d in differences(*pair, f"{where}[{i}]")]
    if isinstance(before, float) and isinstance(now, float):
        both_nan = math.isnan(before) and math.isnan(now)
        return [] if both_nan or math.isclose(before, now, rel_tol=1e-7, abs_tol=1e-9) else [f"{where}: {before} → {now}"]
    return [] if before == now else [f"{where}: {before!r} → {now!r}"]


REWORDED = {
    # Streams say how many contributions a unit touches in the words of every other release.
    "stream": {
        "grid units (replace)": "grid units (records: 1 replaced)",
        "grid units (add-remove)": "grid units (records: 1 added)",
    },
    # A result about a record is stored, and says more of it than the certificate does.
    "LocalLinear": {"it is stored nowhere": KEPT},
    "ShapRanking": {"it is stored nowhere": KEPT},
    "ShapValues": {"it is stored nowhere": KEPT},
    "ShapValues 1": {KEPT: f"{KEPT} and holds the model's answer for it"},
}
"""By how the name of a case begins: nothing but words has changed."""


UNDECLARED = (
    "neither the function {function} nor anything it refers to was made from these people's records: what it uses was not "
    "declared (uses=)"
)
PUBLIC = "The function, and everything it refers to, is public: it was not made from the records."


def undeclared(made):
    """A function of blocks that does not say what it uses is certified on a condition, where that was an assumption."""
    condition = UNDECLARED.format(function=made["certificate"]["explainer"]["function"])
    assert made["certificate"]["conditions"] == [] and made["certificate"]["assumptions"][1] == PUBLIC
    made["certificate"]["conditions"] = [condition]
    memory, _, *others = made["certificate"]["assumptions"]
    made["certificate"]["assumptions"] = [condition, memory, *others]


SAID_NOW = {
    # Black boxes are asked in one shape, so that their trial is to the last bit.
    "public records, in other orders and batch sizes)": "public records, in other places and company, to the last bit)",
}
"""What certificates say in other words since."""


ANEW = ("PermutationImportance", "ShapImportance", "ShapDependence")
"""What is asked under other caps since, with a look at what these hide: requests are the same, so that old releases are found."""


def plain(value):
    return json.loads(json.dumps(value))


def recorded(case):
    text = json.dumps(NUMBERS[case], ensure_ascii=False)
    for words in (words for name, words in REWORDED.items() if case.startswith(name)):
        for before, now in words.items():
            text = text.replace(before, now)
    for before, now in SAID_NOW.items():
        text = text.replace(before, now)
    made = json.loads(text)
    if case.startswith(("PrivatePlot", "PrivateRanking")):
        undeclared(made)
    return made


def without_engine(value):
    """Certificates say where rows were read since, here always by one process."""
    if isinstance(value, dict):
        assert value.get("engine", "one process") == "one process"
        return {name: without_engine(inner) for name, inner in value.items() if name != "engine"}
    return [without_engine(inner) for inner in value] if isinstance(value, list) else value


def told_of_orders(before, now):
    """What is compared where pairs or blocks are drawn: their secret orders come from one key since, so that what was drawn then
    cannot be drawn again. Charges and all that certificates say are as they were, but for the assumption about that key."""
    now["certificate"]["assumptions"].remove(ASSUMPTION)
    return [{"certificate": made["certificate"], "charged": made.get("charged")} for made in (before, now)]


def in_the_first_form(made):
    """Requests say more than they did (all settings, columns, what models are given); what they said before is compared."""
    made = without_engine(made)
    for _, _, request in made.get("charged", ()):
        if request.pop("form", None):
            del request["settings"], request["columns"]
            models = request.pop("models")
            request |= {"models": [m["fingerprint"] for m in models], "outputs": [m["answers"] for m in models]}
            request |= {"provenance": [m["provenance"] for m in models]}
    return made


SURER = {"std", "pull", "excess", "gain", "gain_error"}
"""How sure local explanations are is computed otherwise since: bars were too narrow where the ball stops φ or noise hides the
curvature, and the gain was that of the noise too. What was drawn, φ and certificates are as they were."""


def without_certainty(value):
    if isinstance(value, dict):
        return {name: without_certainty(inner) for name, inner in value.items() if name not in SURER}
    return [without_certainty(inner) for inner in value] if isinstance(value, list) else value


def test_nothing_recorded_is_left_out():
    assert set(MADE) == set(NUMBERS)


def as_it_chose(public, model, name, points, method, features, people=None):
    """That version released the values of a partial dependence, on a grid that it chose without a look at the model."""
    feature = public.schema[name]
    rule = grids.curve_points(feature, public.rows_or_default, public.epsilon_like / features)
    return variation.Along(name, feature, rule if points is None else points, "values")


def only_places_are_as_before(case, monkeypatch):
    """Clips have other candidates, and what they cut off is counted beside the steps: the first stage alone is the same, on the
    grid of that version, which was not coarser for few people."""
    monkeypatch.setattr(accumulate, "coarser", lambda grid, *_: grid)
    before, now = recorded(case), in_the_first_form(plain(MADE[case]()))
    assert (before["totals"][0], before["drawn"][0]) == (now["totals"][0], now["drawn"][0])
    assert before["content"].keys() <= now["content"].keys() and before["certificate"].keys() == now["certificate"].keys()


@pytest.mark.parametrize("case", NUMBERS)
def test_draws_results_and_certificates_are_as_before(case, monkeypatch):
    monkeypatch.setattr(variation, "chosen", as_it_chose)
    # Stages whose questions are settled are read in one pass now; what was recorded is one pass for each.
    monkeypatch.setattr(passes.SharedPass, "_read_ahead", lambda self: None)
    if case.startswith("AccumulatedEffects"):
        return only_places_are_as_before(case, monkeypatch)
    if case.startswith(ANEW):
        before, now = (made["certificate"] for made in (recorded(case), plain(MADE[case]())))
        for what in ("explainer", "bounds", "epsilon", "delta"):
            assert before[what] == now[what]
        return
    before, now = recorded(case), in_the_first_form(plain(MADE[case]()))
    if case.startswith(("LocalLinear", "stream one-shot", "stream individual")):
        before, now = without_certainty(before), without_certainty(now)
    if ASSUMPTION in now.get("certificate", {}).get("assumptions", ()):
        before, now = told_of_orders(before, now)
    assert not differences(before, now)[:5]


def test_a_changed_number_is_noticed():
    case = "Distribution 0 replace epsilon"
    changed = plain(NUMBERS[case])
    changed["content"]["counts"][0] += 0.001
    changed["drawn"][0][1] += "0"
    assert len(differences(NUMBERS[case], changed)) == 2


@pytest.fixture
def ledger(tmp_path):
    return shutil.copy(HERE / "ledger.db", tmp_path / "ledger.db")


@same_python
@pytest.mark.parametrize("account", recording.ACCOUNTS)
def test_a_ledger_of_the_version_before_answers_the_same_requests_for_free(ledger, account):
    session = recording.session_on(ledger, account)
    spent, entries = session.spent, len(session.history())
    for name, explanation in recording.ask_all(session, records=False).items():
        before = pel.from_json(SAVED[f"{account} {name}"])
        assert type(explanation) is type(before) and explanation.content() == before.content(), name
    assert session.spent == spent and len(session.history()) == entries


@same_python
def test_a_stream_of_the_version_before_goes_on_where_it_was(ledger):
    session = recording.session_on(ledger, "ward-ρ")
    spent = session.spent
    answers, _ = recording.ask_stream(session)
    assert session.spent == spent and all(answer.source == "reused" for answer in answers)


def test_a_ledger_of_the_version_before_is_verified(ledger):
    with pel.Ledger(ledger) as opened:
        assert opened.verify().ok and len(opened.accounts()) == 2


@pytest.mark.parametrize("name", SAVED)
def test_saved_explanations_of_the_version_before_are_read(name):
    explanation = pel.from_json(SAVED[name])
    assert not differences(json.loads(SAVED[name]), json.loads(explanation.to_json()))
    assert len(explanation.to_frame()) and explanation.certificate.status in ("proved", "conditional")
