"""What a list of explainers came to: explanations or previews, with their sum."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import numpy as np

from ..errors import PlanError
from ..ledger.accounting import Amount
from ..public.schema import did_you_mean
from .display import boxed
from .explanation import PICTURES, Explanation
from .preview import Preview

T = TypeVar("T")
NOTHING = Amount(0.0)


@dataclass(frozen=True, eq=False)
class Named(Sequence[T], Generic[T]):
    """What a list of explainers came to, in its order: by number, by name, one after another."""

    names: tuple[str, ...]
    """What they are called: the keys of a mapping, or explainers with what they are about."""
    results: tuple[T, ...] = field(repr=False)

    @overload
    def __getitem__(self, which: int | str) -> T: ...

    @overload
    def __getitem__(self, which: slice) -> tuple[T, ...]: ...

    def __getitem__(self, which: int | str | slice) -> T | tuple[T, ...]:
        if isinstance(which, str):
            if which not in self.names:
                raise PlanError(f"there is no {which!r} in this list{did_you_mean(which, self.names)}.")
            return self.results[self.names.index(which)]
        return self.results[which]

    def __contains__(self, which: object) -> bool:
        return which in self.names if isinstance(which, str) else any(which is one for one in self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[T]:
        return iter(self.results)

    def items(self) -> Iterator[tuple[str, T]]:
        """Names and results, as a mapping has them."""
        return zip(self.names, self.results)


@dataclass(frozen=True, eq=False)
class Released(Named[Explanation]):
    """The explanations of one list, each with its certificate."""

    charged: tuple[Amount, ...] = ()
    """What each of them was charged now; nothing where it was released before."""
    total: Amount = NOTHING
    """What all of them were charged, in the account's terms."""
    left: Amount = NOTHING
    """What the list left on the account."""

    def save(self, folder: str | Path) -> list[Path]:
        """Write each of them as JSON into a folder, which is made if need be; `pellucid.load` reads them back."""
        folder = Path(folder)
        if folder.suffix.lower() in (".json", *PICTURES) or folder.is_file():
            raise PlanError(
                f"save({str(folder)!r}): a list is saved as a folder with a file for each; give the name of a folder."
            )
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / f"{number:02d}-{slug(name)}".rstrip("-") for number, name in enumerate(self.names, 1)]
        files = [file.with_name(f"{file.name}.json") for file in files]
        for file, explanation in zip(files, self):
            explanation.save(file)
        return files

    def __str__(self) -> str:
        wide = max(map(len, self.names), default=0)
        lines = [f"  {name:{wide}}  {said}" for name, said in zip(self.names, self._said)]
        return "\n".join([self._headline, *lines])

    @property
    def _headline(self) -> str:
        return f"{len(self)} explanation{'s' * (len(self) > 1)} for {_in_all(self.total)}; left {self.left}"

    @property
    def _said(self) -> list[str]:
        status = [one.certificate.status if one.certificate else "no certificate" for one in self]
        return [f"{_or_free(paid, 'free, it was released before')}, {how}" for paid, how in zip(self.charged, status)]

    def _repr_html_(self) -> str:
        """In a notebook: what was paid, and each explanation below its name."""
        shown = (
            f"<details><summary><b>{html.escape(name)}</b> <small>{html.escape(said)}</small></summary>"
            f"{explanation._repr_html_()}</details>"
            for (name, explanation), said in zip(self.items(), self._said)
        )
        return boxed(f"<p>{html.escape(self._headline)}</p>", *shown)

    def to_shap(self) -> Any:
        """The Shapley values of several records as one `shap.Explanation` with a row for each, as `shap.plots.beeswarm` takes it.
        No data is inside."""
        from .handing_on import shap_explanation

        single = [one.to_shap() for one in self if hasattr(one, "to_shap")]
        names = [list(one.feature_names) for one in single]
        if not single or names.count(names[0]) < len(names) or any(one.values.ndim != 1 for one in single):
            raise PlanError("to_shap() of a list takes Shapley values of the same features; take them one by one.")
        values, lower, upper = (
            np.stack([getattr(one, what) for one in single]) for what in ("values", "lower_bounds", "upper_bounds")
        )
        base = np.array([one.base_values for one in single], dtype=float)
        return shap_explanation(values, lower, upper, names[0], base)


@dataclass(frozen=True, eq=False)
class Previews(Named[Preview]):
    """What a list of releases would be worth: no data was touched and nothing was charged."""

    total: Amount = NOTHING
    """What all of them would be charged; what was released before is free."""
    affordable: bool = True
    """Whether the account can pay for all of them. If not, none is released."""
    left: Amount = NOTHING
    """What is left on the account now."""
    afterwards: Amount = NOTHING
    """What would be left."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "total": float(self.total),
            "epsilon": self.total.epsilon,
            "affordable": self.affordable,
            "previews": [{"name": name, **preview.to_dict()} for name, preview in self.items()],
        }

    def __str__(self) -> str:
        told = ["\n".join([name, *f"{preview}".splitlines()[1:]]) for name, preview in zip(self._titles, self)]
        return "\n".join([*told, self._bill])

    @property
    def _titles(self) -> list[str]:
        return [f"{name} for {preview.spend.text}" for name, preview in self.items()]

    @property
    def _bill(self) -> str:
        asked = f"together {_in_all(self.total)}; left on the account: {self.left}"
        if self.affordable:
            return f"{asked}, and {self.afterwards} afterwards"
        return f"{asked}: it cannot pay for the whole list, so nothing of it would be released"

    def _repr_html_(self) -> str:
        rows = (
            f"<tr><td>{html.escape(name)}</td><td>{'free' if one.free else html.escape(one.spend.text)}</td>"
            f"<td>{_largest(one)}</td><td>{'<br>'.join(map(html.escape, one.notes))}</td></tr>"
            for name, one in self.items()
        )
        head = "<tr><th>explanation</th><th>price</th><th>largest error (95 %)</th><th>notes</th></tr>"
        return boxed(f"<table>{head}{''.join(rows)}</table><p>{html.escape(self._bill)}</p>")


def _largest(one: Preview) -> str:
    """The largest error bar to expect of a preview, in a cell of a table."""
    return "no error bars" if one.instead else f"±{one.largest_error:.3g}" + (f", {one.reach}" if one.reach else "")


def _in_all(total: Amount) -> str:
    return str(total) if total else "nothing"


def _or_free(charged: Amount, free: str) -> str:
    return str(charged) if charged else free


def slug(title: str) -> str:
    """A title as the name of a file: letters and digits, short enough for every disk."""
    plain = unicodedata.normalize("NFKC", title).lower()
    return re.sub(r"[\W_]+", "-", plain)[:60].strip("-")
