"""Models, clusterings and functions of blocks that behave, and others that misbehave on a few records only."""

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import pellucid as pel
from pellucid.query.functions import sent_whole

# Functions of blocks run in processes that cannot import this file.
sent_whole(__name__)

MISCHIEF = ("raise", "exit", "nan", "inf", "text", "shape", "huge")
"""What happens to a batch in which one record has the trap's value."""


def numbers(batch):
    """A batch as an array of numbers, with 0 for whatever is none."""
    if isinstance(batch, pd.DataFrame):
        batch = np.column_stack([pd.to_numeric(batch[name].astype(object), errors="coerce") for name in batch])
    return np.nan_to_num(np.asarray(batch, dtype=float))


@dataclass(frozen=True)
class Smooth:
    """A number in [lo, hi] that rises with the first column and falls with the last; with a trap, mischief at one value."""

    lo: float = 0.0
    hi: float = 1.0
    gives: str = "float64"
    trap: float | None = None
    mischief: str = "raise"

    def __call__(self, batch):
        x = numbers(batch)
        with np.errstate(all="ignore"):
            answer = self.lo + (self.hi - self.lo) * (0.5 + 0.3 * np.tanh(x[:, 0]) - 0.2 * np.tanh(x[:, -1] / 50))
        caught = np.zeros(len(x), dtype=bool) if self.trap is None else x[:, 0] == self.trap
        if caught.any():
            answer = misbehave(answer, caught, self.mischief)
        return given_as(answer, self.gives)


def given_as(answer, kind):
    if kind == "list":
        return list(answer)
    if kind == "column":
        return np.asarray(answer)[:, None]
    if kind == "series":
        return pd.Series(answer)
    if kind == "constant":
        return np.full(len(answer), 0.25)
    if kind == "short":
        return answer[:-1]
    return np.asarray(answer).astype(kind)


def misbehave(answer, caught, mischief):
    if mischief == "raise":
        raise ValueError("stumbled")
    if mischief == "exit":
        raise SystemExit("stumbled")
    if mischief == "text":
        return ["stumbled" if bad else value for value, bad in zip(answer, caught)]
    if mischief == "shape":
        return np.append(answer, 0.0)
    return np.where(caught, {"nan": np.nan, "inf": -np.inf, "huge": 1e308}[mischief], answer)


@dataclass(frozen=True)
class Cut:
    """One of the labels by the first column; with a trap, mischief or a label nobody declared at one value."""

    labels: tuple
    at: float = 0.0
    trap: float | None = None
    mischief: str = "raise"

    def __call__(self, batch):
        x = numbers(batch)[:, 0]
        labels = [self.labels[int(place)] for place in np.clip((x > self.at) + (x > 2 * self.at + 1), 0, len(self.labels) - 1)]
        caught = np.zeros(len(x), dtype=bool) if self.trap is None else x == self.trap
        if caught.any():
            return misbehave(np.array(labels, dtype=object), caught, self.mischief)
        return labels


def fitted(kind, schema, used):
    """An estimator fitted on public records."""
    columns = schema.sample(80, seed=3)
    x = np.clip(np.nan_to_num(np.column_stack([columns[name] for name in used])), -1e6, 1e6)
    y = x[:, 0] - 0.5 * x[:, -1]
    y = (y - y.min()) / max(float(np.ptp(y)), 1e-9)
    sides = (np.arange(len(y)) % 7 == 0) | (y > np.median(y))
    estimator = {
        "linear": LinearRegression(),
        "logistic": LogisticRegression(max_iter=20),
        "tree": DecisionTreeClassifier(max_depth=3),
        "forest": RandomForestRegressor(3, max_depth=3, random_state=0),
        "k-means": KMeans(2, n_init=1, max_iter=5, random_state=0),
    }.get(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if estimator is not None:
            return estimator.fit(x, y if kind in ("linear", "forest") else sides)
        text = [name for name in used if isinstance(schema[name], pel.Category) and not schema[name].numeric]
        frame = pd.DataFrame({name: pd.Series(schema[name].values_at(columns[name])) for name in used})
        encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), text), remainder="passthrough")
        try:
            return make_pipeline(encoder, DecisionTreeClassifier(max_depth=3)).fit(frame, sides)
        except (TypeError, ValueError):
            # Numbers that a tree cannot hold, or values of several types in one column.
            return Smooth()


@dataclass(frozen=True)
class OnBlock:
    """A function of a block: so many numbers in some form; it fails on a block whose first cell is above a value."""

    places: tuple
    gives: str = "list"
    fails_above: float | None = None
    mischief: str = "raise"

    def __call__(self, rows):
        first = pd.to_numeric(rows.iloc[:, 0].astype(object), errors="coerce").to_numpy(float)
        if self.fails_above is not None and len(first) and first[0] > self.fails_above:
            if self.mischief == "exit":
                raise SystemExit(3)
            if self.mischief == "nan":
                return [float("nan")] * len(self.places)
            raise ValueError("stumbled")
        mean = float(np.nanmean(first)) if np.isfinite(first).any() else 0.5
        heights = [float(np.tanh(mean)) / (i + 1) for i in range(len(self.places))]
        if self.gives == "mapping":
            return dict(zip(self.places, heights))
        if self.gives == "series":
            return pd.Series(heights, index=list(self.places))
        if self.gives == "pair":
            return list(self.places), heights
        if self.gives == "names":
            return [str(place) for place in self.places][:2]
        return np.array(heights) if self.gives == "array" else heights
