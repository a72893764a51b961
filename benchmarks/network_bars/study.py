"""The networks trained side by side, and what their partial sensitivities say about the published findings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.errors import PlanError
from pellucid.public.figure import pyplot

from . import pictures
from .network import (
    APPENDIX,
    BARS,
    CLASSES,
    PIXELS,
    SIDE,
    Privacy,
    Reading,
    Run,
    draw_images,
    initial_network,
    partial_sensitivities,
    train,
)

MEASURES = ("share", "gradient", "joint")
TRAINED = ("SGD", "DP-SGD", "clipping only", "noise only")
CONTROLS = ("DP-SGD", "clipping only", "noise only", "SGD at equal loss", "untrained")
MARGIN = 1.1
"""A ratio of medians within this factor of 1 is called no difference."""


@dataclass(frozen=True)
class PixelStatistics:
    """Over the images of a class, for every pixel. Arrays are classes × pixels."""

    mean: np.ndarray
    std: np.ndarray
    agreement: np.ndarray
    maximum: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> PixelStatistics:
        """From classes × images × pixels."""
        positive = (values > 0).mean(axis=1)
        return cls(values.mean(axis=1), values.std(axis=1), np.maximum(positive, 1 - positive), values.max(axis=1))

    @property
    def concentration(self) -> np.ndarray:
        """|mean| over standard deviation: free of scale; large where values gather away from zero."""
        return np.abs(self.mean) / np.maximum(self.std, 1e-300)

    def on_other_bar(self) -> tuple[int, int]:
        """For either class: how many of the four largest maxima are on the other bar's own four pixels (the centre is shared)."""
        own = BARS - BARS[0] * BARS[1]
        largest = np.argsort(-self.maximum, axis=1)[:, : SIDE - 1]
        return int(own[1][largest[0]].sum()), int(own[0][largest[1]].sum())

    def other_and_unrelated(self) -> tuple[float, float]:
        """The mean maximum on the other bar's own pixels, and on pixels of neither bar."""
        own, neither = (BARS - BARS[0] * BARS[1])[::-1] > 0, (BARS[0] + BARS[1]) == 0
        return float(self.maximum[own].mean()), float(self.maximum[:, neither].mean())


@dataclass(frozen=True)
class Contrast:
    """One network against SGD, medians over pixels and classes: ratios of spread and of |mean|, and both concentrations."""

    spread: float
    centre: float
    concentration: float
    concentration_sgd: float

    @classmethod
    def of(cls, other: PixelStatistics, sgd: PixelStatistics) -> Contrast:
        centre = np.abs(other.mean) / np.maximum(np.abs(sgd.mean), 1e-300)
        spread = other.std / np.maximum(sgd.std, 1e-300)
        medians = (np.median(v) for v in (spread, centre, other.concentration, sgd.concentration))
        return cls(*(float(m) for m in medians))

    @property
    def as_reported(self) -> bool:
        """The paper's finding: more dispersed than under SGD, and nearer to zero, both by more than the margin."""
        return self.spread > MARGIN and self.centre < 1 / MARGIN


@dataclass(frozen=True)
class Look:
    """The networks after a number of steps: fit, sensitivities (classes × images × pixels) and their statistics, by network."""

    steps: int
    sgd_steps: int
    equal_loss_steps: int
    loss: dict[str, float]
    accuracy: dict[str, float]
    values: dict[str, dict[str, np.ndarray]]
    statistics: dict[str, dict[str, PixelStatistics]]

    def contrast(self, name: str, measure: str) -> Contrast:
        return Contrast.of(self.statistics[name][measure], self.statistics["SGD"][measure])


@dataclass(frozen=True)
class BarsStudy:
    """One seed of the study. `looks` are the training lengths, `images` and `labels` what was trained on."""

    seed: int
    reading: Reading
    images: np.ndarray
    labels: np.ndarray
    looks: tuple[Look, ...]

    @property
    def text(self) -> str:
        """The findings in plain words; every comparison is worded from its own numbers."""
        asked = [look.contrast("DP-SGD", measure) for look in self.looks for measure in MEASURES]
        found = sum(contrast.as_reported for contrast in asked)
        head = (
            f"Bars study, seed {self.seed}, {self.reading.name} reading: network {self.reading.layers}, {len(self.images):,} "
            f"images, rate {self.reading.rate:g} on averaged gradients; DP-SGD clips at {self.reading.clip:g} with noise "
            f"multiplier {self.reading.multiplier:g}.\nMade-up images and repeatable noise: a study, not a release.\n"
            f"The paper reports values that are more dispersed and nearer to zero under DP-SGD. That is so in {found} "
            f"of {len(asked)} comparisons (training lengths × measures)."
        )
        return "\n\n".join([head, *(_look_text(look, self.reading) for look in self.looks)]) + "\n"

    def plot(self, measure: str = "share", steps: int | None = None, kind: str = "vertical") -> Any:
        """Every pixel's histogram over the images of one kind, under SGD and DP-SGD; the paper's Figure 2B."""
        if measure not in MEASURES:
            raise PlanError(f"measure={measure!r} is unknown; choose one of {MEASURES}.")
        if kind not in CLASSES:
            raise PlanError(f"kind={kind!r} is unknown; choose one of {CLASSES}.")
        return pictures.histograms(self._look(steps), measure, kind)

    def plot_maps(self, measure: str = "share") -> Any:
        """The largest partial sensitivity of every pixel; the paper's Figure 2A, with the controls beside it."""
        if measure not in MEASURES:
            raise PlanError(f"measure={measure!r} is unknown; choose one of {MEASURES}.")
        return pictures.maps(self, measure)

    def save(self, output: Path | str) -> list[Path]:
        """Figures (PNG), statistics (JSON) and the text, in a folder. Returns what was written."""
        folder = Path(output)
        plt = pyplot()
        folder.mkdir(parents=True, exist_ok=True)
        written = [folder / "bars.txt", folder / "bars.json"]
        written[0].write_text(self.text, encoding="utf-8")
        written[1].write_text(json.dumps(self.as_dict(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        lengths = sorted({self.looks[0].steps, self.looks[-1].steps})
        for measure in MEASURES:
            figures = {f"bars_maps_{measure}.png": self.plot_maps(measure)}
            figures |= {f"bars_histograms_{measure}_{t}.png": self.plot(measure, t) for t in lengths}
            for name, figure in figures.items():
                figure.savefig(folder / name, dpi=130)
                plt.close(figure)
                written.append(folder / name)
        return written

    def as_dict(self) -> dict[str, Any]:
        """The statistics as plain numbers, for JSON."""
        return {
            "seed": self.seed,
            "reading": vars(self.reading).copy(),
            "looks": [_look_dict(look, self.reading) for look in self.looks],
        }

    def _look(self, steps: int | None) -> Look:
        chosen = [look for look in self.looks if steps in (None, look.steps)]
        if not chosen:
            raise PlanError(f"steps={steps} was not looked at; choose one of {[look.steps for look in self.looks]}.")
        return chosen[0]


def bars_study(
    output: Path | None = None,
    *,
    seed: int = 7,
    steps: tuple[int, ...] = (1000, 2000, 5000),
    progress: bool = True,
    reading: Reading = APPENDIX,
    sgd_steps: int | None = None,
    each: int = 1000,
) -> BarsStudy:
    """Train the networks, compare their partial sensitivities after each number of steps, and save figures if a folder is given.

    SGD is looked at after as many steps as DP-SGD, or after `sgd_steps`. `each` is the number of training images of either kind.

    >>> study = bars_study(steps=(20,), each=30, progress=False)
    >>> study.looks[0].values["SGD"]["share"].shape
    (2, 30, 25)
    """
    if not steps or min(steps) < 1 or not 1 <= (sgd_steps or 1) <= max(steps):
        raise PlanError(
            f"steps={steps!r}, sgd_steps={sgd_steps!r}: give at least one length of 1 step or more, none shorter than SGD's."
        )
    if output is not None:
        pyplot()
    lengths = tuple(sorted(set(steps)))
    rng = np.random.default_rng(seed)
    x, y = draw_images(rng, each, reading)
    test = draw_images(rng, 100, reading)
    start = initial_network(rng, reading)
    own = (draw_images(rng, each, reading), initial_network(rng, reading)) if reading.fresh else ((x, y), start)
    runs, noise = {}, reading.multiplier * reading.clip
    for name, (clip, scale) in zip(TRAINED, ((None, 0.0), (reading.clip, noise), (reading.clip, 0.0), (None, noise))):
        images, network = ((x, y), start) if name == "SGD" else own
        label = f"bars: {name}" if progress else None
        runs[name] = train(network, *images, rng, steps=lengths[-1], clip=clip, noise=scale, reading=reading, label=label)
    looks = tuple(_look_at(runs, t, sgd_steps or t, (x, y), own[0], test) for t in lengths)
    study = BarsStudy(seed, reading, x, y, looks)
    if output is not None:
        study.save(output)
    return study


Labelled = tuple[np.ndarray, np.ndarray]


def _look_at(runs: dict[str, Run], steps: int, sgd_steps: int, images: Labelled, dp_images: Labelled, test: Labelled) -> Look:
    """Every network after `steps`, SGD after `sgd_steps`, on the images it was trained on."""
    equal = runs["SGD"].first_at(runs["DP-SGD"].losses[steps])
    networks = {name: run.after(sgd_steps if name == "SGD" else steps) for name, run in runs.items()}
    networks |= {"SGD at equal loss": runs["SGD"].after(equal), "untrained": runs["SGD"].after(0)}
    values, statistics, losses, accuracy = {}, {}, {}, {}
    for name, network in networks.items():
        x, y = images if name.startswith(("SGD", "untrained")) else dp_images
        found = partial_sensitivities(network, x, y)
        values[name] = {m: found[m].reshape(2, -1, PIXELS) for m in MEASURES}
        statistics[name] = {m: PixelStatistics.of(values[name][m]) for m in MEASURES}
        losses[name], accuracy[name] = network.loss(x, y), network.accuracy(*test)
    return Look(steps, sgd_steps, equal, losses, accuracy, values, statistics)


def privacy_of(steps: int, reading: Reading, images: int) -> Privacy:
    """The cost of DP-SGD as the reading runs it: noise divided by less than the gradients is more noise."""
    return Privacy(steps, reading.multiplier * images / (reading.noise_over or images))


def _times(contrast: Contrast) -> str:
    return f"{contrast.spread:.2f} / {contrast.centre:.2f}"


def _word(ratio: float, less: str, same: str, more: str) -> str:
    return less if ratio < 1 / MARGIN else more if ratio > MARGIN else same


def _verdict(look: Look, measure: str) -> str:
    """One measure in words: what DP-SGD does, what the controls do, and where the largest values are."""
    dp, clip, noise, equal, untrained = (look.contrast(name, measure) for name in CONTROLS)
    spread = _word(dp.spread, "less dispersed than", "as dispersed as", "more dispersed than")
    centre = _word(dp.centre, "nearer to zero", "as far from zero", "further from zero")
    lines = [
        f"{measure}: under DP-SGD the median pixel is {spread} under SGD and {centre}: {'' if dp.as_reported else 'NOT '}as the "
        f"paper reports. Its |mean|/std is {dp.concentration:.2f}, against {dp.concentration_sgd:.2f} under SGD.",
        f"  spread / |mean| relative to SGD: DP-SGD {_times(dp)}, clipping only {_times(clip)}, noise only {_times(noise)}, "
        f"SGD at equal loss (step {look.equal_loss_steps:,}) {_times(equal)}, untrained {_times(untrained)}.",
    ]
    if _near(clip, dp) and not _near(dp, None):
        cause = "clipping, not noise" if _near(noise, None) else "clipping"
        lines.append(
            f"  The difference comes from {cause}{': SGD that fits no better differs as much' if _near(equal, dp) else ''}."
        )
    for name in ("SGD", "DP-SGD"):
        found = look.statistics[name][measure]
        (vertical, horizontal), (other, unrelated) = found.on_other_bar(), found.other_and_unrelated()
        lines.append(
            f"  {name}: of the 4 largest maxima {vertical} (vertical images) and {horizontal} (horizontal images) lie on the "
            f"other bar; mean maximum {other:.3g} there, {unrelated:.3g} off both bars."
        )
    return "\n".join(lines)


def _near(one: Contrast, two: Contrast | None) -> bool:
    """Whether spread and centre differ by less than the margin; `None` stands for SGD itself."""
    against = (1.0, 1.0) if two is None else (two.spread, two.centre)
    return all(1 / MARGIN <= a / max(b, 1e-300) <= MARGIN for a, b in zip((one.spread, one.centre), against))


def _look_text(look: Look, reading: Reading) -> str:
    images = 2 * look.values["SGD"]["share"].shape[1]
    privacy = privacy_of(look.steps, reading, images)
    fits = [f"{name} {look.accuracy[name]:.2f} (loss {look.loss[name]:.3g})" for name in ("SGD", *CONTROLS)]
    lengths = f"{look.steps:,} steps" + ("" if look.sgd_steps == look.steps else f" (SGD: {look.sgd_steps:,})")
    learnt = "" if look.accuracy["DP-SGD"] >= 0.9 else " DP-SGD has not learnt the task: its sensitivities say little."
    return "\n".join(
        [
            f"After {lengths}.",
            f"Test accuracy: {'; '.join(fits)}.{learnt}",
            f"DP-SGD's steps cost ρ = {privacy.rho:.4g}: ε = {privacy.epsilon:.1f} by the zCDP conversion, "
            f"{privacy.exact_epsilon:.1f} exactly, at δ = {privacy.delta:g}.",
            *(_verdict(look, measure) for measure in MEASURES),
        ]
    )


def _look_dict(look: Look, reading: Reading) -> dict[str, Any]:
    privacy = privacy_of(look.steps, reading, 2 * look.values["SGD"]["share"].shape[1])
    networks: dict[str, Any] = {}
    for name in ("SGD", *CONTROLS):
        networks[name] = {"loss": look.loss[name], "accuracy": look.accuracy[name]}
        for measure in MEASURES:
            found = look.statistics[name][measure]
            pixels = {k: np.round(v, 10).tolist() for k, v in vars(found).items()}
            contrast = {**vars(look.contrast(name, measure)), "as_reported": look.contrast(name, measure).as_reported}
            networks[name][measure] = {"against_sgd": contrast, "on_other_bar": found.on_other_bar(), "pixels": pixels}
    cost = {"rho": privacy.rho, "epsilon": privacy.epsilon, "exact_epsilon": privacy.exact_epsilon, "delta": privacy.delta}
    return {"steps": look.steps, "sgd_steps": look.sgd_steps, "equal_loss_steps": look.equal_loss_steps, "privacy": cost} | {
        "networks": networks
    }
