"""Trees that were read, walked one node at a time; tables to fit models to, and records that sit where comparisons change."""

import numpy as np
import pandas as pd
from scipy.special import expit, softmax

import pellucid as pel
from pellucid.public.fitted.compiled import is_compiled
from pellucid.public.fitted.encoding import take_apart
from pellucid.public.fitted.read import Read
from pellucid.public.fitted.read import read as read_here
from pellucid.public.fitted.reading import sum_of_trees

NUMBERS = pel.Schema(
    {
        "a": pel.Number(-3, 3),
        "b": pel.Number(0, 1e39, missing=float("nan")),
        "c": pel.Number(-5, 40, integer=True),
        "d": pel.Number(-1, 1, missing=float("nan")),
        "e": pel.Category([0, 1, 2, 5]),
    }
)
TEXT = [f"level {i}" for i in range(40)]
MIXED = pel.Schema(
    {
        "kind": pel.Category(TEXT),
        "a": pel.Number(-3, 3),
        "sex": pel.Category(["F", "M"]),
        "e": pel.Category([0, 1, 2, 5]),
        "flag": pel.Boolean(),
    }
)


def numbers(seed=0, rows=400):
    rng = np.random.default_rng(seed)
    table = np.column_stack(
        [
            rng.uniform(-3, 3, rows),
            10.0 ** rng.uniform(-40, 38, rows),
            rng.integers(-5, 41, rows),
            np.where(rng.random(rows) < 0.2, 0.0, rng.uniform(-1, 1, rows)),
            rng.choice([0, 1, 2, 5], rows),
        ]
    )
    table[rng.random(rows) < 0.1, 1] = np.nan
    table[rng.random(rows) < 0.1, 3] = np.nan
    score = np.sin(2 * table[:, 0]) + (table[:, 2] > 7) * np.nan_to_num(table[:, 3], nan=2.0) + (table[:, 4] == 1)
    return table, score + 0.1 * np.log10(np.nan_to_num(table[:, 1], nan=1e-3)) / 10 + rng.normal(0, 0.3, rows)


def people(seed=0, rows=600):
    """A frame whose categories have another order than the declared one."""
    rng = np.random.default_rng(seed)
    place = np.concatenate([np.arange(40), rng.integers(0, 40, rows - 40)])
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical([TEXT[i] for i in place], categories=[TEXT[i] for i in rng.permutation(40)]),
            "a": rng.uniform(-3, 3, rows),
            "sex": pd.Categorical(rng.choice(["F", "M"], rows), categories=["M", "F"]),
            "e": rng.choice([0, 1, 2, 5], rows),
            "flag": rng.random(rows) < 0.5,
        }
    )
    score = (place % 7) * (frame["sex"] == "M") + np.sin(frame["a"]) + frame["flag"] * frame["e"] + rng.normal(0, 0.2, rows)
    return frame, score.to_numpy()


def read(model, schema, **given):
    """The trees of a model, and the model as it is asked."""
    if not hasattr(model, "predict_proba"):
        given.setdefault("output", (-1e3, 1e3))
    given.setdefault("features", list(schema))
    ready = pel.Model(model, trained_on="other data", **given).ready(schema)
    return ready, sum_of_trees(ready, take_apart(model))


def goes_left(tree, node, value):
    if node in tree.sets:
        left, known = tree.sets[node]
        stray = not (0 <= value < len(left)) or not (known[int(value)] or left[int(value)])
        return bool(tree.nan_left[node]) if stray else bool(left[int(value)])
    return bool(tree.nan_left[node]) if np.isnan(value) else bool(value <= tree.threshold[node])


def leaf_of(tree, row):
    node = 0
    while not tree.leaf[node]:
        node = tree.left[node] if goes_left(tree, int(node), row[tree.column[node]]) else tree.right[node]
    return int(node)


def leaves(made, encoded):
    """The leaf of every record in every tree."""
    return np.array([[leaf_of(tree, row) for tree in made.trees] for row in np.asarray(encoded, dtype=float)])


def raw_values(made, reached):
    raw = np.tile(made.base, (len(reached), 1))
    for t, tree in enumerate(made.trees):
        raw[:, tree.group] += tree.value[reached[:, t]]
    return raw


def answers(made, raw):
    if made.link == "softmax":
        return softmax(raw, axis=1)[:, made.group]
    links = {"identity": np.asarray, "logistic": expit, "exp": np.exp, "depth": lambda depth: -(2.0**-depth)}
    return links[made.link](raw[:, 0]) - made.offset


def hostile(schema, features, made, size=200, seed=0):
    """Positions of records whose numbers sit on thresholds and beside them, or are missing, zero or at an end."""
    rng = np.random.default_rng(seed)
    limits = {name: [] for name in features}
    for tree in made.trees:
        for node in np.flatnonzero(~tree.leaf):
            if int(node) not in tree.sets:
                limits[features[made.encoding.columns[tree.column[node]].feature]].append(tree.threshold[node])
    columns = schema.sample(size, seed)
    for name in features:
        feature = schema[name]
        if not isinstance(feature, pel.Number):
            continue
        near = [np.array([feature.lo, feature.hi, feature.fill, 0.0, -0.0, 1e-45, -1e-45, 1e-36, 1e-34, -1e-36])]
        at = np.array(limits[name], dtype=float)
        if len(at):
            at = rng.choice(at, min(len(at), 40), replace=False)
            single = at.astype(np.float32)
            for value in (at, single.astype(float)):
                near += [value, np.nextafter(value, np.inf), np.nextafter(value, -np.inf)]
            for way in (np.inf, -np.inf):
                beside = np.nextafter(single, np.float32(way)).astype(float)
                near += [beside, (beside + at) / 2, np.nextafter((beside + at) / 2, way), np.nextafter((beside + at) / 2, -way)]
        values = np.concatenate(near)
        values = values[np.isnan(values) | ((values >= feature.lo) & (values <= feature.hi))]
        if feature.integer:
            values = np.where(np.isnan(values), values, np.clip(np.rint(values), feature.lo, feature.hi))
        columns[name] = np.where(rng.random(size) < 0.85, rng.choice(values, size), columns[name])
    return np.column_stack([columns[name] for name in features])


def check_walked(ready, made, positions, reached):
    """The compiled walk over settled comparisons reaches the same leaves: its answers are those of the plain walk."""
    if not is_compiled():
        return
    found = read_here(ready)
    assert isinstance(found, Read), found
    columns = {name: np.ascontiguousarray(positions[:, j]) for j, name in enumerate(ready.features)}
    ours = answers(made, raw_values(made, reached))
    assert np.allclose(found.answers(found.atoms(columns)), ours, rtol=1e-9, atol=1e-12 * np.abs(ours).max())
