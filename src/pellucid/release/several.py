"""Lists of explainers: what is asked for, and what each of them may cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeGuard

from ..errors import PlanError
from ..mechanisms import Spend, exact
from ..public.schema import did_you_mean
from .account import OpenAccount, part_of
from .explainer import Explainer

COSTS = ("epsilon", "rho", "share")
"""What says how much a release may cost; exactly one of them does."""
WANTED = "a list of explainers, or of pairs such as (pel.Distribution('age'), {'share': 0.5})"

Item = Explainer | tuple[Explainer, Mapping[str, Any]]
"""An explainer, alone or with what `release` takes: `(explainer, {"epsilon": 0.2})`."""
Items = Sequence[Item] | Mapping[str, Item]
"""Several of them, under names of their own where it is a mapping."""


@dataclass(frozen=True)
class Priced:
    """One request of a list, with what it may cost."""

    explainer: Explainer
    offers: list[Spend]
    """Several, where the account counts either way."""
    share: bool
    """Whether they are parts of the account."""
    settled: bool
    """Whether the request says itself which kind of release it is."""


def is_list(given: Any) -> TypeGuard[Items]:
    """Whether several explainers were given, and not one."""
    return isinstance(given, Mapping | list | tuple)


def checked(given: Any, where: str = "") -> Explainer:
    """What was given, if it is an explainer."""
    if isinstance(given, type) and issubclass(given, Explainer):
        raise PlanError(
            f"{where}{given.__name__} is a class: write pel.{given.__name__}(), with its settings between the brackets."
        )
    if not isinstance(given, Explainer):
        raise PlanError(f"{where}{type(given).__name__} is not an explainer; give one of pellucid.explainers, or a list of them.")
    return given


def requests_of(items: Items) -> dict[str, tuple[Explainer, dict[str, Any]]]:
    """The explainers of a list with what was said of their prices, by names of which no two are the same."""
    named = list(items.items()) if isinstance(items, Mapping) else [("", item) for item in items]
    if not named:
        raise PlanError(f"an empty list: give {WANTED}.")
    found: dict[str, tuple[Explainer, dict[str, Any]]] = {}
    for number, (name, item) in enumerate(named, 1):
        if not isinstance(name, str):
            raise PlanError(f"{name!r} is no name: the keys of a mapping of explainers are text.")
        explainer, cost = item if isinstance(item, tuple) and len(item) == 2 else (item, {})
        if not isinstance(cost, Mapping) or isinstance(explainer, Mapping):
            raise PlanError(f"number {number} of the list: give {WANTED}.")
        for key in cost:
            if key not in (*COSTS, "kind"):
                raise PlanError(
                    f"number {number} of the list: {key!r} is not known{did_you_mean(str(key), (*COSTS, 'kind'))}; "
                    "by=, purpose= and fresh= are said once for the whole list."
                )
        checked(explainer, f"number {number} of the list: ")
        found[_free(name or name_of(explainer), found)] = explainer, dict(cost)
    return found


def name_of(explainer: Explainer) -> str:
    """What an explainer is called in a list: its class, and what it is about."""
    about = next((value for key in ("feature", "target", "features") if (value := getattr(explainer, key, None))), "")
    listed = [about] if isinstance(about, str) else [str(one) for one in about]
    more = f" and {len(listed) - 3} more" if len(listed) > 4 else ""
    return f"{type(explainer).__name__} {', '.join(listed[:3] if more else listed)}{more}".rstrip()


def _free(name: str, taken: Mapping[str, Any]) -> str:
    return next(one for one in (name, *(f"{name} ({i})" for i in range(2, len(taken) + 3))) if one not in taken)


def priced(
    requests: Sequence[tuple[Explainer, Mapping[str, Any]]], account: OpenAccount, total: Mapping[str, Any], kind: Any = None
) -> list[Priced]:
    """What each request may cost: its own price, or its part of the price of the whole list."""
    given = {name: total[name] for name in COSTS if total.get(name) is not None}
    if not given:
        for number, (_, cost) in enumerate(requests, 1):
            if all(cost.get(name) is None for name in COSTS):
                raise PlanError(
                    f"number {number} of the list has no price, and neither has the whole list: give exactly one of "
                    "epsilon=, rho= or share= for the list, or for each, (explainer, {'epsilon': 0.2})."
                )
        return [
            Priced(
                explainer,
                account.prices(**{"kind": kind, **cost}),
                cost.get("share") is not None,
                kind is not None or cost.get("kind") is not None or cost.get("rho") is not None,
            )
            for explainer, cost in requests
        ]
    shares, made = split([cost for _, cost in requests]), []
    for share, (explainer, cost) in zip(shares, requests):
        own = cost.get("kind", kind)
        offers = [part_of(offer, share) for offer in account.prices(**given, kind=own)]
        made.append(Priced(explainer, offers, "share" in given, own is not None or "rho" in given))
    return made


def split(costs: Sequence[Mapping[str, Any]]) -> list[Fraction]:
    """The part of a list's price that each request gets: the share it names, and of what is left all others the same.

    Whoever plans a list by what its releases are worth names the shares; nothing else has to know.
    """
    for number, cost in enumerate(costs, 1):
        if any(cost.get(name) is not None for name in ("epsilon", "rho")):
            raise PlanError(
                f"number {number} of the list has a price of its own, and so has the whole list: give one of them. Of the price "
                "of a list its parts may have a share: (explainer, {'share': 0.5})."
            )
    named = [exact("share", cost["share"]) if cost.get("share") is not None else None for cost in costs]
    left = 1 - sum((share for share in named if share is not None), Fraction(0))
    if any(share is not None and share <= 0 for share in named) or left < 0 or (None in named and not left):
        raise PlanError(
            "the shares of a list's price are positive, add up to at most 1, and leave something for requests that name none; "
            f"those given add up to {float(1 - left):g}."
        )
    return [left / named.count(None) if share is None else share for share in named]
