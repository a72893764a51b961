"""Every claim has a proof, every proof a claim and tests that exist, and every bound a test that would refute half of it."""

import ast
import dataclasses
import re
from pathlib import Path

import pytest
from people import risk_without_smoker
from test_claims_attained import SABOTAGE

import pellucid as pel
from pellucid.mechanisms import Choosing, Mechanism

ROOT = Path(__file__).parent.parent
PROOFS = {path.stem: path for path in sorted((ROOT / "proofs").glob("*.md"))}
NAME = r"[a-z0-9]+(?:-[a-z0-9]+)*"
LISTED = re.compile(rf"\bClaims?:\s+({NAME}(?:(?:,\s+on|,|\s+and)\s+{NAME})*)")
SECTIONS = ("Statement", "Assumptions", "Proof", "Attained", "Where", "Test")
# The position of the claim among the fields of a calibrated draw or choice.
FIELDS = {kind.__name__: [f.name for f in dataclasses.fields(kind)].index("claim") for kind in (Mechanism, Choosing)}


def listed(text):
    return {name for found in LISTED.findall(text) for name in re.split(r",\s+on\s+|,\s+|\s+and\s+", found)}


def text_of(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def claims_in(source):
    """Names after "Claim:" in docstrings, `claim = "…"`, claims of a Mechanism or Choosing, and in functions called …claims…"""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            found |= listed(ast.get_docstring(node) or "")
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(t, ast.Name) and t.id == "claim" for t in targets):
                found.add(text_of(node.value))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FIELDS:
            place = FIELDS[node.func.id]
            found |= {text_of(node.args[place])} if len(node.args) > place else set()
            found |= {text_of(keyword.value) for keyword in node.keywords if keyword.arg == "claim"}
        if isinstance(node, ast.FunctionDef) and "claims" in node.name:
            texts = (text_of(inner) for inner in ast.walk(node))
            found |= {text for text in texts if text and re.fullmatch(rf"{NAME}-{NAME}", text)}
    return found - {None}


CLAIMS = {
    name: path
    for path in sorted((ROOT / "src" / "pellucid").rglob("*.py"))
    for name in sorted(claims_in(path.read_text(encoding="utf-8")))
}


def section(text, title):
    found = re.search(rf"^\*\*{title}\.\*\*(.*?)(?=^\*\*(?:{'|'.join(SECTIONS)})\.\*\*|\Z)", text, re.M | re.S)
    return found.group(1).strip() if found else ""


def test_the_collector_reads_every_form():
    source = '''
class A:
    """Sums. Claims: one-thing, other. Claim: third, on fourth and fifth. More words."""
    claim = "sixth-thing"
def _claims_of(part):
    return ["seventh-thing", "plain"]
made = Choosing("name", 1, 1, 1, 1, "eighth-thing")
made = Mechanism(claim="ninth-thing")
'''
    assert claims_in(source) == {
        "one-thing", "other", "third", "fourth", "fifth", "sixth-thing", "seventh-thing", "eighth-thing", "ninth-thing",
    }  # fmt: skip


def test_claims_were_found():
    assert {"box-sum", "discrete-laplace", "permute-and-flip", "pairs", "composition", "ale-ties"} <= set(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS)
def test_every_claim_has_a_proof(claim):
    assert claim in PROOFS, f"{CLAIMS[claim].name} claims {claim!r}; write proofs/{claim}.md"


@pytest.mark.parametrize("name", PROOFS)
def test_every_proof_is_claimed_and_complete(name):
    assert name in CLAIMS, f"no code claims {name!r}; name it in a docstring (Claim: {name}) or remove the file"
    text = PROOFS[name].read_text(encoding="utf-8")
    assert text.startswith(f"# {name}\n")
    for title in SECTIONS:
        assert len(section(text, title)) > 20, f"{name}: section {title} is missing or empty"


@pytest.mark.parametrize("name", PROOFS)
def test_every_proof_names_tests_that_exist(name):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", section(PROOFS[name].read_text(encoding="utf-8"), "Test"))
    assert named
    for file, function in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{file}::{function}"


@pytest.mark.parametrize("name", PROOFS)
def test_every_proof_points_at_code_that_exists(name):
    for place in re.findall(r"`(pellucid/[\w/]+\.py)`", section(PROOFS[name].read_text(encoding="utf-8"), "Where")):
        assert (ROOT / "src" / place).exists(), place


@pytest.mark.parametrize("name", PROOFS)
def test_half_of_every_bound_would_be_refuted(name):
    """`test_half_the_bound_is_refuted` runs the named test with the bound halved and expects it to fail."""
    assert name in SABOTAGE
    attained = SABOTAGE[name][0].__name__
    assert f"::{attained}`" in section(PROOFS[name].read_text(encoding="utf-8"), "Test")


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("unit", [None, pel.Unit("id", max_rows=2), pel.Unit(max_rows=2)])
def test_claims_on_certificates_are_proved(delta, unit, schema, people):
    """Whatever a certificate rests on can be looked up, for every explainer, currency and unit."""
    model = pel.Model(risk_without_smoker, output=(0, 1), features=list(schema)[:-1], trained_on="other data")
    data = people.iloc[:60].assign(id=[i // 2 for i in range(60)])
    for kind in (getattr(pel.explainers, name) for name in pel.explainers.__all__ if name != "Explainer"):
        session = pel.Session(data, schema, budget=pel.Budget(epsilon=4.0, delta=delta), unit=unit)
        made = session.release(kind.examples(model, schema)[0], share=1)
        assert {claim for charge in made.certificate.charges for claim in charge["claims"]} <= set(PROOFS)
