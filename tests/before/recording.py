"""What every explainer released, charged and certified on a fixed table with the test source of noise.

`python tests/before/recording.py numbers FILE` writes it down and `ledger FOLDER` makes a ledger with production noise and saved
explanations. Both were run with the version before the package was divided into rooms (commit 87c580e); the tests beside this
file compare with what they wrote.
"""

import contextlib
import gzip
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from before_functions import larger_means, mean_age_by_sex, score  # noqa: E402
from sources import Seeded  # noqa: E402

import pellucid as pel  # noqa: E402
from pellucid.mechanisms import source  # noqa: E402

FORGET = ("day", "versions", "entry", "ledger", "cells")
"""What a certificate says about the moment, not about the release; and about cells, of which that version said nothing."""

RECORDS = ({"age": 40, "bmi": 25.0, "sex": "M"}, {"age": 41, "bmi": 25.5, "sex": "M"}, {"age": 80, "bmi": 40.0, "sex": "F"})


def schema():
    """With what that version took for missing cells where nothing was said; a schema that leaves it open now leaves them out."""
    return pel.Schema(
        {
            "age": pel.Number(17, 90, integer=True, missing=54, source="form 12"),
            "children": pel.Number(0, 6, integer=True, missing=3),
            "bmi": pel.Number(10, 60, missing=35.0, source="clinic manual"),
            "lab": pel.Number(0, 5, missing=float("nan")),
            "sex": pel.Category(["F", "M"], missing="F"),
            "school": pel.Category(["none", "primary", "secondary", "tertiary"], ordered=True, missing="none"),
            "smoker": pel.Boolean(missing=False),
        }
    )


def table(size=240):
    """People nobody is, in numbers with few bits."""
    rng = np.random.default_rng(7)
    lab = rng.integers(0, 81, size) / 16
    return pd.DataFrame(
        {
            "age": rng.integers(17, 91, size),
            "children": rng.integers(0, 7, size),
            "bmi": rng.integers(80, 481, size) / 8,
            "lab": np.where(rng.integers(0, 10, size) == 0, np.nan, lab),
            "sex": np.array(["F", "M"])[rng.integers(0, 2, size)],
            "school": np.array(["none", "primary", "secondary", "tertiary"])[rng.integers(0, 4, size)],
            "smoker": rng.integers(0, 2, size) == 0,
        }
    )


def model():
    return pel.Model(score, output=(0, 1), features=list(schema())[:-1], trained_on="other data")


class Logged(Seeded):
    """Seeded noise that writes down what was drawn: kind, scale or rate, and how much of it."""

    def __init__(self, seed):
        super().__init__(seed)
        self.drawn = []

    def laplace(self, scale, size):
        self.drawn.append(["laplace", repr(float(scale)), size])
        return super().laplace(scale, size)

    def gaussian(self, scale, size):
        self.drawn.append(["gaussian", repr(float(scale)), size])
        return super().gaussian(scale, size)

    def cube(self, ratio, size):
        self.drawn.append(["cube", str(ratio), size])
        return super().cube(ratio, size)

    def pick(self, scores, rate, flip):
        digest = hashlib.sha256(json.dumps([int(s) for s in scores]).encode()).hexdigest()[:16]
        self.drawn.append(["pick", str(rate), digest, bool(flip)])
        return super().pick(scores, rate, flip)


@contextlib.contextmanager
def exact_totals(engine):
    """Fingerprints of the exact totals that an engine gives meanwhile."""
    found, original = [], engine.totals

    def totals(self, query, **more):
        exact = original(self, query)
        found.append([len(exact), hashlib.sha256(json.dumps([int(v) for v in exact]).encode()).hexdigest()[:16]])
        return exact

    engine.totals = totals
    try:
        yield found
    finally:
        engine.totals = original


def zcdp():
    """What `Budget(epsilon=2.0, delta=1e-6)` was then; new accounts take pure releases too, unless they say so."""
    kept = {"accounting": "zcdp"} if "accounting" in pel.Budget.__dataclass_fields__ else {}
    return pel.Budget(epsilon=2.0, delta=1e-6, **kept)


def released(example, relation, currency):
    """One release, seen from outside: draws, content, certificate."""
    budget = pel.Budget(epsilon=2.0) if currency == "epsilon" else zcdp()
    session = pel.Session(table(), schema(), budget=budget, neighbors=relation, expected_rows=240)
    before, source.current = source.current, Logged(3)
    try:
        with exact_totals(type(session._engine)) as totals:
            explanation = session.release(example, share=1)
        drawn = source.current.drawn
    finally:
        source.current = before
    return {"totals": totals, "drawn": drawn, "content": explanation.content(), "certificate": _certificate(explanation)}


def _certificate(explanation):
    kept = {k: v for k, v in explanation.certificate.to_dict().items() if k not in FORGET}
    # The digest of a record asked about is keyed anew in every process.
    kept["explainer"] = {k: v for k, v in kept["explainer"].items() if k != "record"}
    return kept


STREAMS = {
    "one-shot": {"questions": 3},
    "one-shot centred": {"questions": 3, "centred": True, "weight": "gaussian"},
    "descent": {"questions": 3, "method": "descent", "steps": 5},
    "adaptive": {"questions": 3, "method": "adaptive", "steps": 120},
    "enhanced": {"questions": 3, "method": "enhanced", "steps": 120},
    "individual": {"questions": 3, "accounting": "individual", "weight": "gaussian", "bandwidth": 0.5},
}


def streamed(settings, relation):
    """Questions one after another, seen from outside: draws, answers, certificates, charges."""
    session = pel.Session(table(), schema(), budget=zcdp(), neighbors=relation, expected_rows=240)
    before, source.current = source.current, Logged(3)
    answers = []
    try:
        with session.open(pel.LocalLinear(model(), **settings), share=1) as local:
            for record in (*RECORDS, RECORDS[0], {"age": 60}):
                answers.append(local.explain(record))
            answers.append(local.explain({"age": 18}, pay=False))
        drawn = source.current.drawn
    finally:
        source.current = before
    said = [{"content": answer.content(), "certificate": _certificate(answer)} for answer in answers]
    charged = [[entry.kind, entry.amount, json.loads(entry.request or "{}")] for entry in session.history()]
    for _, _, request in charged:
        request.pop("stream", None)
        request.pop("class", None)
        # Since 0.2.0 an account knows what is public about its table.
        request.pop("table", None)
    return {"drawn": drawn, "answers": said, "charged": charged}


NOT_RECORDED = ("Completeness", "Explainer", "PrivatePlot", "PrivateRanking")
"""What that version did not have, the base of all, and what is asked in a way of its own."""

HAD = {"FeatureInteraction": 2, "ShapImportance": 3, "ShapRanking": 4}
"""Of explainers with examples of settings that it did not have, how many others come first."""


def examples_of(name):
    return getattr(pel, name).examples(model(), schema())[: HAD.get(name)]


def cases():
    """(name, how to make it) of everything that is recorded."""
    for name in sorted(n for n in pel.explainers.__all__ if n not in NOT_RECORDED):
        explainer = getattr(pel, name)
        if not hasattr(explainer, "examples"):
            continue
        for i in range(len(examples_of(name))):
            for relation in ("replace", "add-remove"):
                for currency in ("epsilon", "rho"):

                    def make(explainer=explainer, i=i, relation=relation, currency=currency):
                        return released(explainer.examples(model(), schema())[i], relation, currency)

                    yield f"{name} {i} {relation} {currency}", make
    blocks = {
        "PrivatePlot": lambda: pel.PrivatePlot(mean_age_by_sex, "sex", (17, 90), blocks=4),
        "PrivateRanking": lambda: pel.PrivateRanking(larger_means, ["age", "bmi", "lab"], blocks=4),
    }
    for name, make in blocks.items():
        for relation in ("replace", "add-remove"):
            yield f"{name} 0 {relation} epsilon", lambda make=make, relation=relation: released(make(), relation, "epsilon")
    for name, settings in STREAMS.items():
        for relation in ("add-remove",) if name == "individual" else ("replace", "add-remove"):
            yield f"stream {name} {relation}", lambda settings=settings, relation=relation: streamed(settings, relation)


def write_numbers(path):
    found = {name: make() for name, make in cases()}
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write(json.dumps(found, ensure_ascii=False, indent=0).encode())


def requests():
    """What is asked of the recorded ledger, in this order: a clustering of the account itself is explained too."""
    for name in sorted(n for n in pel.explainers.__all__ if n not in NOT_RECORDED):
        if hasattr(getattr(pel, name), "examples"):
            for i, example in enumerate(examples_of(name)[:8]):
                yield f"{name} {i}", example
    yield "PrivatePlot", pel.PrivatePlot(mean_age_by_sex, "sex", (17, 90), blocks=4)
    yield "PrivateRanking", pel.PrivateRanking(larger_means, ["age", "bmi", "lab"], blocks=4)


ACCOUNTS = {"ward-ε": pel.Budget(epsilon=100.0), "ward-ρ": pel.Budget(epsilon=20.0, delta=1e-6)}
STREAM_SETTINGS = {"questions": 3, "method": "adaptive", "steps": 120}


def session_on(ledger, account):
    relation = "replace" if account == "ward-ε" else "add-remove"
    return pel.Session(
        table(), schema(), budget=ACCOUNTS[account], name=account, ledger=ledger, neighbors=relation, expected_rows=240
    )


def ask_all(session, records=True):
    """Ask everything and return what was said, by name; for free where the ledger knows the answer.

    What was asked about a record is known again in the same process only, so `records=False` leaves it out.
    """
    asked = {name: example for name, example in requests() if records or "record" not in example.describe()}
    said = {name: session.release(example, share=0.01, by="Ada", purpose="before") for name, example in asked.items()}
    centres = said["PrivateKMeans 0"]
    groups = centres.clustering
    said["ClusterHistograms of centres"] = session.release(pel.ClusterHistograms(groups), share=0.01)
    return said


def ask_stream(session):
    with session.open(pel.LocalLinear(model(), **STREAM_SETTINGS), share=0.05, name="counter") as local:
        return [local.explain(record) for record in (*RECORDS, RECORDS[0])], local.spent


def write_ledger(folder):
    folder = Path(folder)
    saved = {}
    for account in ACCOUNTS:
        session = session_on(folder / "ledger.db", account)
        for name, explanation in ask_all(session).items():
            saved[f"{account} {name}"] = explanation.to_json()
        if account == "ward-ρ":
            for i, answer in enumerate(ask_stream(session)[0]):
                saved[f"{account} stream {i}"] = answer.to_json()
        session.ledger.close()
    with gzip.GzipFile(folder / "saved.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(saved, ensure_ascii=False, indent=0).encode())


if __name__ == "__main__":
    {"numbers": write_numbers, "ledger": write_ledger}[sys.argv[1]](sys.argv[2])
