"""Which attributes explain which clusters: the joint choice against the published mechanisms, at the same budget.

    python benchmarks/clusters.py                          three tables, 5 and 9 clusters, 200 draws
    python benchmarks/clusters.py --data diabetes --draws 50

k-means on integer codes of documented or declared domains, as in "Differentially Private Explanations for Clusters"; counts
are fixed and every mechanism draws from them. A budget ε pays for the choice alone (no histograms); two-stage mechanisms spend
half on candidates (k = 3) and half on the combination. Printed: GlScore relative to its optimum and the share of clusters with
another attribute than the optimum (MAE); then the paper's Quality relative to TabEE's non-private selection, and the MAE to that.
The clustering is fitted on the records, so these are measurements of mechanisms, not private releases.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from protocol import arguments
from sklearn.cluster import KMeans

from pellucid.baselines.clusters import (
    Combination,
    GlobalScore,
    Quality,
    best_combination,
    mae,
    naive_choice,
    single_scores,
    tabee,
    two_stage,
)

UNITS = 1 << 30
CANDIDATES = 3
BUDGETS = ("0.01", "0.03", "0.1", "0.3")
Column = tuple[np.ndarray, int]
"""Codes of one attribute and the size of its domain: the last code is for anything undeclared or missing."""


def binned(values: pd.Series, edges: Sequence[float]) -> Column:
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    codes = np.searchsorted(edges, numbers, side="right")
    return np.where(np.isnan(numbers), len(edges) + 1, codes), len(edges) + 2


def listed(values: pd.Series, options: Sequence[str]) -> Column:
    """Codes in the order of the options."""
    code = {option: i for i, option in enumerate(options)}
    return values.astype("object").map(lambda v: code.get(str(v), len(options))).to_numpy(dtype=np.int64), len(options) + 1


def documented(shared: Path, name: str) -> dict[str, list[str]]:
    columns = json.loads((shared / "data" / f"{name}.json").read_text())["columns"]
    return {
        c: [str(v) for v in facts["documented_categories"]] for c, facts in columns.items() if "documented_categories" in facts
    }


DIABETES_EDGES = {
    "time_in_hospital": range(2, 15), "num_lab_procedures": range(10, 80, 10), "num_procedures": range(1, 7),
    "num_medications": (5, 10, 15, 20, 25, 30, 40), "number_outpatient": (1, 2, 3, 5, 10), "number_emergency": (1, 2, 3, 5, 10),
    "number_inpatient": (1, 2, 3, 5, 10), "number_diagnoses": range(2, 17),
}  # fmt: skip
SPECIALTIES = [
    "InternalMedicine", "Emergency", "Family", "Cardio", "Surg", "Ortho", "Radio", "Neph", "Pulm", "Psych", "Obst", "Uro", "Onco",
    "Gastro", "Neuro", "Pedia", "Physical", "?",
]  # fmt: skip
# The documentation says 23 codes and lists none, so this list was read off the file: not a public domain. Others share a bucket.
PAYERS = ["?", "MC", "MD", "HM", "UN", "BC", "SP", "CP", "SI", "DM", "CM", "CH", "PO", "WC", "OT", "OG", "MP", "FR"]
# ICD-9 groups of Strack et al. 2014, which the paper follows: circulatory, respiratory, digestive, diabetes, injury,
# musculoskeletal, genitourinary, neoplasms; then other, and missing.
ICD = (
    (390, 460, 785), (460, 520, 786), (520, 580, 787), (250, 251, 250), (800, 1000, 800), (710, 740, 710), (580, 630, 788),
    (140, 240, 140),
)  # fmt: skip


def diagnosis(code: object) -> int:
    try:
        number = float(str(code))
    except ValueError:
        return len(ICD) + (str(code) == "?")
    hits = [i for i, (low, high, also) in enumerate(ICD) if low <= number < high or int(number) == also]
    return hits[0] if hits else len(ICD)


def specialty(name: object) -> int:
    return next((i for i, key in enumerate(SPECIALTIES) if key in str(name)), len(SPECIALTIES))


def diabetes(shared: Path) -> Iterator[tuple[str, Column]]:
    frame = pd.read_parquet(shared / "data" / "diabetes130.parquet")
    options = documented(shared, "diabetes130") | {"payer_code": PAYERS}
    for name in frame.columns.drop(["readmitted", "encounter_id", "patient_nbr"]):
        if name in DIABETES_EDGES:
            yield name, binned(frame[name], DIABETES_EDGES[name])
        elif name.startswith("diag_"):
            yield name, (frame[name].astype("object").map(diagnosis).to_numpy(dtype=np.int64), len(ICD) + 2)
        elif name == "medical_specialty":
            yield name, (frame[name].astype("object").map(specialty).to_numpy(dtype=np.int64), len(SPECIALTIES) + 1)
        else:
            yield name, listed(frame[name], options[name])


# The options as the file spells them: the table comes without a list, so these were not taken from a public document.
SURVEY = {
    "MainBranch": [
        "I am a developer by profession", "I am a student who is learning to code",
        "I am not primarily a developer, but I write code sometimes as part of my work", "I code primarily as a hobby",
        "I used to be a developer by profession, but no longer am",
    ],
    "OpenSourcer": [
        "Never", "Less than once per year", "Less than once a month but more than once per year", "Once a month or more often",
    ],
    "ResumeUpdate": [
        "I was preparing for a job search", "I heard about a job opportunity (from a recruiter, online job posting, etc.)",
        "My job status changed (promotion, new job, etc.)", "I had a negative experience or interaction at work",
        "Something else changed (education, award, media, etc.)", "Re-entry into the workforce",
    ],
    "WorkLoc": ["Home", "Office", "Other place, such as a coworking space or cafe"],
    "OpSys": ["BSD", "Linux-based", "MacOS", "Windows"],
    "SocialMedia": [
        "Facebook", "Twitter", "Instagram", "Snapchat", "Reddit", "LinkedIn", "YouTube", "WhatsApp", "WeChat 微信",
        "VK ВКонта́кте", "Weibo 新浪微博", "Youku Tudou 优酷", "Hello", "I don't use social media",
    ],
    "Gender": ["Man", "Woman", "Non-binary, genderqueer, or gender non-conforming"],
}  # fmt: skip
SURVEY_EDGES = {
    "ConvertedComp": (10_000, 20_000, 40_000, 60_000, 80_000, 100_000, 150_000, 250_000),
    "WorkWeekHrs": (20, 35, 40, 41, 46, 51, 61), "Age": (18, 22, 26, 30, 35, 40, 50, 60),
}  # fmt: skip
SEVERAL = [
    f"{topic}{when}" for topic in ("Language", "Database", "Platform", "WebFrame") for when in ("WorkedWith", "DesireNextYear")
]
LANGUAGES = [
    "Assembly", "Bash/Shell/PowerShell", "C", "C++", "C#", "Clojure", "Dart", "Elixir", "Erlang", "F#", "Go", "HTML/CSS", "Java",
    "JavaScript", "Kotlin", "Objective-C", "PHP", "Python", "R", "Ruby", "Rust", "Scala", "SQL", "Swift", "TypeScript", "VBA",
    "WebAssembly", "Other(s):",
]  # fmt: skip
FRAMEWORKS = [
    "Angular/Angular.js", "ASP.NET", "Django", "Drupal", "Express", "Flask", "jQuery", "Laravel", "React.js", "Ruby on Rails",
    "Spring", "Vue.js", "Other(s):",
]  # fmt: skip


def survey(shared: Path) -> Iterator[tuple[str, Column]]:
    """60 attributes: single answers, how many options were ticked, and one flag per language and framework worked with."""
    frame = pd.read_parquet(shared / "data" / "so2019_subset.parquet")
    for name, options in (SURVEY | documented(shared, "so2019_subset")).items():
        yield name, listed(frame[name], options)
    for name, edges in SURVEY_EDGES.items():
        yield name, binned(frame[name], edges)
    ticked = {
        name: frame[name].astype("object").map(lambda v: set(v.split(";")) if isinstance(v, str) else None) for name in SEVERAL
    }
    for name in SEVERAL:
        yield f"how many {name}", binned(ticked[name].map(len, na_action="ignore"), range(2, 9))
    for name, options in (("LanguageWorkedWith", LANGUAGES), ("WebFrameWorkedWith", FRAMEWORKS)):
        for option in options:
            yield f"{name} {option}", (ticked[name].map(lambda v, o=option: 2 if v is None else int(o in v)).to_numpy(), 3)


# Major groups of the codes of the documentation.
OCCUPATIONS = (
    500, 800, 1005, 1305, 1600, 2001, 2100, 2205, 2600, 3000, 3601, 3700, 4000, 4200, 4330, 4700, 5000, 6005, 6200, 6800, 7000,
    7700, 9005, 9800, 9920,
)  # fmt: skip
INDUSTRIES = (
    370, 570, 770, 1070, 4070, 4670, 6070, 6470, 6870, 7270, 7860, 7970, 8370, 8561, 8770, 9370, 9670, 9920,
)  # fmt: skip
CENSUS_EDGES = {
    "AGEP": (5, 15, 18, 25, 35, 45, 55, 65, 75, 85), "WKHP": (10, 20, 30, 40, 41, 50, 60), "WKWN": (14, 27, 40, 48, 50, 52),
    "JWMNP": (10, 20, 30, 45, 60, 90), "PINCP": (0, 1, 10_000, 20_000, 35_000, 50_000, 75_000, 100_000, 150_000, 250_000),
    "WAGP": (1, 10_000, 20_000, 35_000, 50_000, 75_000, 100_000, 150_000, 250_000), "POVPIP": (50, 100, 150, 200, 300, 400, 501),
    "OCCP": OCCUPATIONS, "INDP": INDUSTRIES,
}  # fmt: skip


def census(shared: Path) -> Iterator[tuple[str, Column]]:
    """31 attributes of people in New York; missing answers are a value."""
    frame = pd.read_parquet(shared / "data" / "acs2024_person_ny.parquet", dtype_backend="numpy_nullable")
    for name, options in documented(shared, "acs2024_person_ny").items():
        if name in frame.columns:
            yield name, listed(frame[name], options)
    for name, edges in CENSUS_EDGES.items():
        yield name, binned(frame[name], edges)


TABLES: dict[str, Callable[[Path], Iterator[tuple[str, Column]]]] = {"diabetes": diabetes, "survey": survey, "census": census}


def counts_of(data: str, clusters: int, shared: Path, cache: Path) -> tuple[list[str], list[np.ndarray]]:
    """(names, counts), kept on disk."""
    path = cache / f"clusters-{data}-{clusters}.npz"
    if not path.exists():
        columns = dict(TABLES[data](shared))
        codes = np.stack([column for column, _ in columns.values()], axis=1)
        sizes = [size for _, size in columns.values()]
        if (codes < 0).any() or (codes >= sizes).any():
            raise ValueError(f"{data}: a code outside its domain")
        labels = KMeans(clusters, n_init=1, max_iter=100, random_state=0).fit_predict(codes.astype(np.float32)).astype(np.int64)
        counts = [np.bincount(labels * m + codes[:, j], minlength=clusters * m).reshape(clusters, m) for j, m in enumerate(sizes)]
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(path, names=np.array(list(columns)), **{f"h{j}": h for j, h in enumerate(counts)})
    kept = np.load(path)
    names = kept["names"].tolist()
    return names, [kept[f"h{j}"] for j in range(len(names))]


def joint(counts: list[np.ndarray], epsilon: str) -> Callable[[], Combination]:
    """The package's choice: one exact draw over all combinations."""
    from pellucid.explainers.clusters.scores import CombinationScore
    from pellucid.mechanisms.assignment import draw_assignment

    sizes = tuple(h.shape[1] for h in counts)
    score = CombinationScore(clusters=len(counts[0]), sizes=sizes, interest=1, sufficiency=1, diversity=1)
    tables = score.tables([int(v) * UNITS for h in counts for v in h.ravel()])
    rate = Fraction(epsilon) / score.span("add-remove", UNITS)
    return lambda: tuple(picks[0] for picks in draw_assignment(tables, rate, secrets.randbelow))


@dataclass
class Instance:
    """Fixed counts with everything the mechanisms need again and again."""

    counts: list[np.ndarray]

    def __post_init__(self) -> None:
        self.clusters = len(self.counts[0])
        self.score, self.quality = GlobalScore(self.counts), Quality(self.counts)
        self.single = single_scores(self.counts)
        self.best, self.tabee = best_combination(self.counts), tabee(self.counts, k=CANDIDATES)

    def mechanisms(self, epsilon: str, rng: np.random.Generator) -> dict[str, Callable[[], Combination]]:
        c, k, half = self.clusters, CANDIDATES, float(epsilon) / 2
        # Equal weights: R = (4λ_I + λ_S + 2λ_D + M)/C with M = max(λ_S(C-1) + 2λ_D/(C-1), λ_S + 2λ_D).
        reach = (7 + max(c - 1 + 2 / (c - 1), 3)) / (3 * c)
        published = partial(two_stage, self.score, self.single, k, rng=rng)
        return {
            "**joint**": joint(self.counts, epsilon),
            "paper": partial(published, 2 * k * c / half, half / 2),
            "paper at 4ε": partial(published, 2 * k * c / (4 * half), 4 * half / 2),
            "two-stage, tight": partial(published, k * (4 + c) / 2 / half, half / reach),
            "DP-TabEE": partial(two_stage, self.quality, self.quality.single, k, k * c / half, half, rng),
            "DP-Naive": partial(naive_choice, self.counts, float(epsilon), k=k, rng=rng),
        }

    def measure(self, draw: Callable[[], Combination], draws: int) -> np.ndarray:
        """Means of (GlScore / optimum, MAE, Quality / TabEE's, MAE to TabEE), ms a draw, standard error of the first MAE."""
        top, reference = self.score.of(self.best), self.quality.of(self.tabee)
        start = time.perf_counter()
        found = [draw() for _ in range(draws)]
        spent = (time.perf_counter() - start) / draws * 1000
        rows = np.array(
            [(self.score.of(x) / top, mae(x, self.best), self.quality.of(x) / reference, mae(x, self.tabee)) for x in found]
        )
        return np.array([*rows.mean(axis=0), spent, rows[:, 1].std(ddof=1) / np.sqrt(draws)])


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--data", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--clusters", nargs="+", type=int, default=[5, 9])
    parser.add_argument("--budgets", nargs="+", default=list(BUDGETS))
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args()
    verdicts = []
    for data in options.data:
        for clusters in options.clusters:
            names, counts = counts_of(data, clusters, options.shared, options.cache)
            instance = Instance(counts)
            print(f"\n### {data}: {counts[0].sum():,} records, {len(names)} attributes, {clusters} clusters\n")
            print(f"Optimum: {', '.join(names[a] for a in instance.best)}.")
            print(f"TabEE differs from it in {mae(instance.best, instance.tabee):.0%} of the clusters.\n")
            print("| ε | mechanism | GlScore / optimum | MAE | Quality / TabEE | MAE to TabEE | ms a draw |")
            print("|---|---|---|---|---|---|---|")
            for epsilon in options.budgets:
                results = {}
                rng = np.random.default_rng([clusters, int(float(epsilon) * 1000)])
                for name, draw in instance.mechanisms(epsilon, rng).items():
                    r = results[name] = instance.measure(draw, options.draws)
                    print(
                        f"| {epsilon} | {name} | {r[0]:.4f} | {r[1]:.3f} ± {r[5]:.3f} | {r[2]:.4f} | {r[3]:.3f} | {r[4]:.1f} |",
                        flush=True,
                    )
                ours, theirs = results["**joint**"], results["paper at 4ε"]
                verdicts.append((data, clusters, epsilon, ours[0], ours[1], theirs[1], np.hypot(ours[5], theirs[5])))
    print("\n### Summary\n\n| data | clusters | ε | joint GlScore / optimum | joint MAE | paper's MAE at 4ε | difference |")
    print("|---|---|---|---|---|---|---|")
    for data, clusters, epsilon, score, ours, theirs, error in verdicts:
        print(
            f"| {data} | {clusters} | {epsilon} | {score:.4f} | {ours:.3f} | {theirs:.3f} | {ours - theirs:+.3f} ± {error:.3f} |"
        )


if __name__ == "__main__":
    main()
