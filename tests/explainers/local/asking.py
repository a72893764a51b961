"""Doors of questions for tests: exact totals from anywhere, charges to anywhere."""

from fractions import Fraction

import pellucid as pel
from pellucid.engine.prepared import Prepared
from pellucid.explainers.local.encoder import moments_of
from pellucid.explainers.local.oracles import MomentsOracle, PassOracle
from pellucid.mechanisms import Spend
from pellucid.release.door import PaidAsk
from pellucid.release.plan import Public

SCHEMA = pel.Schema({"x": pel.Number(0, 1)})


def nothing(charge):
    """Pay without a ledger."""


def public(relation="add-remove", currency="rho", unit=None):
    return Public(SCHEMA, relation, unit or pel.Unit(), Spend(currency, Fraction(10**9)), None)


def paid_ask(totals, relation="add-remove", pay=nothing, currency="rho"):
    return PaidAsk(totals, public(relation, currency), pay)


def people_of(engine, encoder):
    return Prepared(engine, encoder.read, encoder.features, encoder.length)


def oracle_of(people, asked, records, relation="add-remove", pay=nothing, radius=None):
    return MomentsOracle(paid_ask(getattr(people, "totals", people), relation, pay), asked, records, radius)


def pass_oracle(people, encoder, asked, weight, records, relation, pay, radius=1.0, level=None):
    return PassOracle(paid_ask(people.totals, relation, pay), encoder, asked, weight, records, radius, level)


def local_oracle(people, encoder, record, weight, radius, relation, records, pay):
    return oracle_of(people, moments_of(encoder, encoder.asked(record), weight, 1 / radius), records, relation, pay)
