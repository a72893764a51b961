"""Shapley vectors of trees beside shap's TreeExplainer and WOODELF: seconds of processor time, one thread each, taking turns.

Ours give a vector for every single record, which is clipped before it is added; the others average over records inside.
"""

from __future__ import annotations

import argparse
import functools
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

import pellucid as pel
from pellucid.explainers.shapley.background import Background, estimator_against
from pellucid.explainers.shapley.estimator import estimator_for
from pellucid.public.rows import Rows

FEATURES = 15
RANGE = (-100.0, 100.0)


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = run()
    return time.process_time() - start, found


def least(ways: dict[str, Callable[[], Any]], runs: int) -> tuple[dict[str, float], dict[str, Any]]:
    spent: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, Any] = {}
    for _ in range(runs):
        for name, run in ways.items():
            taken, found[name] = seconds(run)
            spent[name].append(taken)
    return {name: min(taken) for name, taken in spent.items()}, found


def made(names: list[str], x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    import lightgbm
    import xgboost

    return {
        "XGBoost, 100 trees, depth 6": xgboost.XGBRegressor(n_estimators=100, max_depth=6, n_jobs=1).fit(x, y),
        "LightGBM, 100 trees, 31 leaves": lightgbm.LGBMRegressor(n_estimators=100, n_jobs=1, verbose=-1).fit(x, y),
        "forest, 100 trees, depth 10": RandomForestRegressor(100, max_depth=10, max_features=1 / 3, random_state=0).fit(x, y),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=45_000)
    options.add_argument("--public", type=int, default=100, help="public records of a background")
    options.add_argument("--runs", type=int, default=2)
    options.add_argument("--only", default="", help="models whose name holds this")
    given = options.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(FEATURES)]
    x = rng.standard_normal((given.rows, FEATURES)).clip(-3, 3)
    y = x[:, :10] @ rng.normal(size=10) + x[:, 10] * x[:, 11] + rng.normal(size=len(x)) * 0.3
    schema = pel.Schema({name: pel.Number(-3, 3) for name in names})
    frame, few = pd.DataFrame(x, columns=names), x[: given.public]
    print(f"{given.rows:,} records, {FEATURES} features; least of {given.runs} runs that take turns, seconds of processor time\n")
    print(
        "| model | question | ours | shap | WOODELF | shap / ours | ours / WOODELF | apart |\n|---|---|---|---|---|---|---|---|"
    )
    for label, fitted in made(names, x[:20_000], y[:20_000]).items():
        if given.only not in label:
            continue
        model = pel.Model(fitted, output=RANGE, features=names, input="array", trained_on="other data")
        one = estimator_for(model, schema, dict(zip(names, map(float, x[0]))), certified=RANGE)
        many = estimator_against(model, schema, Background.of(pd.DataFrame(few, columns=names)), certified=RANGE)

        def vectors(chosen: Any) -> np.ndarray:
            rows = Rows(schema, {name: np.ascontiguousarray(x[:, j]) for j, name in enumerate(names)})
            out = np.zeros((len(rows), FEATURES))
            out[:, [names.index(name) for name in chosen.features]] = chosen(rows)
            return out

        vectors(one)
        vectors(many)
        # With one public record as the whole background: what loading and compiling takes is not counted.
        by_shap(fitted, x[:10], x[:1])
        by_woodelf(fitted, frame.iloc[:10], frame.iloc[:1])
        questions = {
            "one record, all as background": {
                "ours": lambda one=one: vectors(one).mean(axis=0),
                "shap": lambda fitted=fitted: by_shap(fitted, x, x[:1])[0],
                "WOODELF": lambda fitted=fitted: by_woodelf(fitted, frame, frame.iloc[:1])[0],
            },
            f"all records, {given.public} as background": {
                "ours": lambda many=many: vectors(many),
                # shap's time grows with the number of records asked about: a hundredth of them, times 100.
                "shap": lambda fitted=fitted: by_shap(fitted, few, x[: len(x) // 100]),
                "WOODELF": lambda fitted=fitted: by_woodelf(fitted, frame.iloc[: given.public], frame),
            },
        }
        for question, ways in questions.items():
            whole = question.startswith("one")
            taken, found = least(ways, given.runs if whole else 1)
            if not whole:
                taken["shap"] *= 100
            apart = float(np.abs(found["ours"] - found["WOODELF"]).max())
            print(
                f"| {label} | {question} | {taken['ours']:.2f} | {taken['shap']:.2f} | {taken['WOODELF']:.2f} | "
                f"{taken['shap'] / taken['ours']:.1f} | {taken['ours'] / taken['WOODELF']:.2f} | {apart:.0e} |",
                flush=True,
            )
    _releases(names, x, y, schema, frame)


def _releases(names: list[str], x: np.ndarray, y: np.ndarray, schema: pel.Schema, frame: pd.DataFrame) -> None:
    """Whole releases, from planning to the certificate, beside what the others take for the numbers alone.

    Probabilities of boosted classifiers do not add up: ours follow public orders of the features for each record, shap rescales
    vectors of the margin, and WOODELF explains the margin.
    """
    import lightgbm
    import xgboost

    shared = {"n_estimators": 100, "n_jobs": 1}
    some, above = x[:20_000], y[:20_000] > 0
    print("\nWhole releases\n")
    print("| model | release | ours | shap | WOODELF | shap / ours | ours / WOODELF |\n|---|---|---|---|---|---|---|")
    for label, fitted, given in (
        ("XGBoost regressor", xgboost.XGBRegressor(max_depth=6, **shared).fit(some, y[:20_000]), {"output": RANGE}),
        ("LightGBM regressor", lightgbm.LGBMRegressor(verbose=-1, **shared).fit(some, y[:20_000]), {"output": RANGE}),
        ("XGBoost classifier", xgboost.XGBClassifier(max_depth=6, **shared).fit(some, above), {"positive": 1}),
        ("LightGBM classifier", lightgbm.LGBMClassifier(verbose=-1, **shared).fit(some, above), {"positive": True}),
    ):
        chance = label.endswith("classifier")
        model = pel.Model(fitted, features=names, input="array", trained_on="other data", **given)
        session = pel.Session(frame, schema, budget=pel.Budget(epsilon=1000.0))
        record = dict(zip(names, map(float, x[0])))
        # What is exact needs no orders.
        few = {"permutations": 2} if chance else {}

        questions = {
            "ShapValues, all as background": (
                lambda seed, model=model, record=record: pel.ShapValues(model, record, seed=seed),
                (x, x[:1], 1),
                (frame, frame.iloc[:1]),
            ),
            "ShapImportance, 10 as background": (
                lambda seed, model=model, few=few: pel.ShapImportance(model, public_background=frame.iloc[:10], seed=seed, **few),
                # A tenth of the records, times 10.
                (x[:10], x[: len(x) // 10], 10),
                (frame.iloc[:10], frame),
            ),
        }
        for what, (ours, (background, asked, times), theirs) in questions.items():
            session.release(ours(0), epsilon=1.0)
            shown = "probability" if chance else "raw"
            by_shap(fitted, x[:10], x[:1], shown)
            by_woodelf(fitted, frame.iloc[:10], frame.iloc[:1])
            taken = {
                "ours": min(seconds(functools.partial(session.release, ours(seed), epsilon=1.0))[0] for seed in (1, 2)),
                "shap": times * seconds(functools.partial(by_shap, fitted, background, asked, shown))[0],
                "WOODELF": seconds(functools.partial(by_woodelf, fitted, *theirs))[0],
            }
            print(
                f"| {label} | {what} | {taken['ours']:.2f} | {taken['shap']:.2f} | {taken['WOODELF']:.2f} | "
                f"{taken['shap'] / taken['ours']:.1f} | {taken['ours'] / taken['WOODELF']:.2f} |",
                flush=True,
            )


def by_woodelf(fitted: Any, background: pd.DataFrame, asked: pd.DataFrame) -> np.ndarray:
    from woodelf.explainer import WoodelfExplainer

    return WoodelfExplainer(fitted, background).shap_values(asked, verbose=False)


def by_shap(fitted: Any, background: np.ndarray, asked: np.ndarray, output: str = "raw") -> np.ndarray:
    import shap

    masker = shap.maskers.Independent(background, max_samples=len(background))
    explainer = shap.TreeExplainer(fitted, masker, feature_perturbation="interventional", model_output=output)
    return explainer.shap_values(asked, check_additivity=False)


if __name__ == "__main__":
    main()
