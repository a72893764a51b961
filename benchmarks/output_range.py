"""How tight and how fast certified output ranges are, beside the bounds of the published lemmas.

    python benchmarks/output_range.py            # Adult (income above 50K) and Bike (hourly counts)

For each model: the certified interval over the declared schema, the answers attained at the two witnesses, the gap between
them as a share of the attained range, seconds, splits, and the lemma's F_max >= |f| where it has one (forests, boosting before
the link). The models are fitted to public data sets; output_range itself sees only the fitted parameters and the schema.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd
from protocol import BIKE_COLUMNS, adult_frame, arguments, feature_of, has_data
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import pellucid as pel
from pellucid.sensitivity.output_range import output_range


def adult(shared):
    frame, target, categories = adult_frame(shared)
    frame = frame.drop(columns="fnlwgt")
    text = [name for name in frame if name in categories]
    schema = pel.Schema({name: feature_of(name, categories) for name in frame})
    codes = OrdinalEncoder(categories=[categories[name] for name in text])
    onehot = OneHotEncoder(categories=[categories[name] for name in text], handle_unknown="ignore")
    numbers = [name for name in frame if name not in text]
    return schema, frame, target, text, numbers, codes, onehot


def bike(shared):
    frame = pd.read_parquet(shared / "data" / "bike_sharing_hour.parquet")
    target, frame = frame["cnt"].to_numpy(float), frame[BIKE_COLUMNS]
    flags = ["yr", "holiday", "workingday"]
    schema = pel.Schema({name: feature_of(name, {flag: [0, 1] for flag in flags}) for name in frame})
    text = ["weathersit", "hr", "mnth", "weekday"]
    return schema, frame, target, text, [name for name in frame if name not in text], "passthrough", OneHotEncoder()


def models(classify, text, numbers, codes, onehot):
    forest = RandomForestClassifier if classify else RandomForestRegressor
    boosting = GradientBoostingClassifier if classify else GradientBoostingRegressor
    binned = HistGradientBoostingClassifier if classify else HistGradientBoostingRegressor
    linear = LogisticRegression(max_iter=2000) if classify else Ridge()
    network = MLPClassifier if classify else MLPRegressor
    coded = lambda last: make_pipeline(make_column_transformer((codes, text), remainder="passthrough"), last)  # noqa: E731
    scaled = lambda last: make_pipeline(make_column_transformer((onehot, text), (StandardScaler(), numbers)), last)  # noqa: E731
    return {
        "forest 100 x depth 4": coded(forest(100, max_depth=4, random_state=0)),
        "forest 100 x depth 10": coded(forest(100, max_depth=10, random_state=0)),
        "boosting 100 x depth 3": coded(boosting(n_estimators=100, random_state=0)),
        "hist boosting 100 x 31 leaves": coded(binned(max_iter=100, random_state=0)),
        "linear, one-hot + scaler": scaled(linear),
        "relu 25": scaled(network(hidden_layer_sizes=(25,), max_iter=60, random_state=0)),
        "relu 64-64": scaled(network(hidden_layer_sizes=(64, 64), max_iter=40, random_state=0)),
    }


def lemma(pipeline):
    """F_max of the published lemmas for forests (mean of largest leaves) and boosting (|init| + rate times their sum)."""
    core = pipeline[-1]
    if isinstance(core, RandomForestClassifier | RandomForestRegressor):
        column = -1 if isinstance(core, RandomForestClassifier) else 0
        return f"{np.mean([np.abs(t.tree_.value[:, 0, column]).max() for t in core.estimators_]):.4g}"
    if isinstance(core, GradientBoostingClassifier | GradientBoostingRegressor):
        start = core._raw_predict_init(np.zeros((1, core.n_features_in_), dtype=np.float32))[0, 0]
        raw = abs(start) + core.learning_rate * sum(np.abs(t.tree_.value).max() for t in core.estimators_.ravel())
        return f"{raw:.4g}" + (f" raw, p <= {1 / (1 + np.exp(-raw)):.4g}" if hasattr(core, "classes_") else "")
    return "-"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="time limit of each range")
    parser.add_argument("--only", default="", help="part of a model's name")
    options = parser.parse_args()
    if not has_data(options.shared):
        raise SystemExit("the data sets are not there; give --shared")
    print("| data | model | certified | attained | gap | exact | splits | seconds | lemma F_max |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, load in (("adult", adult), ("bike", bike)):
        schema, frame, target, *columns = load(options.shared)
        for title, model in models(name == "adult", *columns).items():
            if options.only not in title:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(frame, target)
            start = time.monotonic()
            found = output_range(model, schema, seconds=options.seconds)
            spent = time.monotonic() - start
            gap = "0" if found.exact else f"{100 * found.gap:.2g}"
            cells = [
                name,
                title,
                f"[{found.lo:.5g}, {found.hi:.5g}]",
                f"[{found.attained_lo:.5g}, {found.attained_hi:.5g}]",
                f"{gap} %",
                "yes" if found.exact else "no",
                str(found.splits),
                f"{spent:.1f}",
                lemma(model),
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
