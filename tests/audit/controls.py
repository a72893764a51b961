"""Ways to break a promise, each patched into the code that makes releases. An audit is worth something if it catches them all.

Each control names the rows of the audit that must flag it: cases of the catalogue, which compare exact totals with what noise was
scaled to and then play the game, and checks.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from pellucid.engine import ids, local, orders
from pellucid.engine import units as engine_units
from pellucid.explainers import PartialDependence, PermutationImportance
from pellucid.explainers.common.caps import PrivateCap
from pellucid.explainers.curves.variation import STEPS
from pellucid.explainers.local import oracles
from pellucid.explainers.local.methods import NoisyGradient
from pellucid.explainers.shapley import scores as shapley_scores
from pellucid.ledger import accounting
from pellucid.ledger import values as ledger_values
from pellucid.mechanisms import Norms, bulk, noise, samplers, source
from pellucid.public import ready, row_wise
from pellucid.query import bounds, sensitivities
from pellucid.query import scores as query_scores
from pellucid.query.bound import to_grid
from pellucid.query.scores import QuantileScore
from pellucid.release import door, session
from pellucid.release import stream as release_stream


@dataclass(frozen=True)
class Control:
    """One way to break a promise."""

    name: str
    patch: Callable[[pytest.MonkeyPatch], None]
    flagged: tuple[str, ...]
    """The cases and checks that see it, by name."""
    slow: bool = True
    """Whether it is left to the slow tests."""


def scaled_sensitivity(factor):
    def scaled(patch):
        whole = sensitivities.sensitivity
        patch.setattr(sensitivities, "sensitivity", lambda *asked: times(whole(*asked), factor))

    return scaled


def times(norms, factor):
    return Norms(int(norms.l1 * factor), int(norms.l2_squared * factor**2), int(norms.linf * factor))


def narrow_calibration(patch):
    """The scale is half of what the sensitivity asks for; sensitivity and cost are told as they should be."""
    whole = sensitivities.calibrate
    patch.setattr(sensitivities, "calibrate", lambda *asked: halved(whole(*asked)))


def halved(how):
    return replace(how, scale=how.scale / 2)


def sharp_choice(patch):
    """A choice is twice as sharp as its span allows."""
    whole = query_scores.calibrate_choice
    for module in (query_scores, shapley_scores):
        patch.setattr(module, "calibrate_choice", lambda *asked: sharper(whole(*asked)))


def sharper(how):
    return replace(how, rate=how.rate * 2)


def cheap_stream(patch):
    """A stream puts half of what a step costs on disk."""
    whole = release_stream.Spend
    patch.setattr(release_stream, "Spend", lambda currency, amount: whole(currency, amount / 2))


def narrow_cubes(patch):
    """K-norm noise of many numbers, which is drawn in bulk, is half as wide."""
    whole = bulk.cube
    patch.setattr(bulk, "cube", lambda ratio, size, bits: whole(2 * ratio, size, bits))


def bytes_again(patch):
    """Random bytes are handed out twice."""
    whole, kept = source.secrets.token_bytes, {}
    patch.setattr(source.secrets, "token_bytes", lambda count: kept.pop(count, None) or kept.setdefault(count, whole(count)))


def scaled_noise(factor):
    def scaled(patch):
        whole = noise.add_noise
        patch.setattr(door, "add_noise", lambda totals, how: whole(totals, replace(how, scale=how.scale * Fraction(factor))))

    return scaled


def l2_for_l1(patch):
    """A vector is clipped to a ball, and the radius is taken for its L1 norm."""
    for name in ("added", "replaced"):
        whole = getattr(bounds.Box, name)
        patch.setattr(bounds.Box, name, lambda self, whole=whole: as_l2(whole(self)))


def as_l2(norms):
    return Norms(norms.l2_squared**0.5, norms.l2_squared, norms.linf / norms.l2_squared**0.5 * norms.linf)


def histogram_of_one(patch):
    """A replaced record leaves one cell and enters another; here only one of the two counts."""
    patch.setattr(bounds.Cells, "replaced", bounds.Cells.added)


def balanced_shuffle(patch):
    """Blocks of equal sizes, also where the number of records is secret: one more moves others from block to block."""
    whole = orders.division
    patch.setattr(local, "division", lambda labels, blocks, relation, *rest: whole(labels, blocks, "replace", *rest))


class Unnoised(NoisyGradient):
    """A noisy slope that knows how long the exact one is."""

    exact = 0.0

    @property
    def length(self):
        return self.exact


def exact_beta(patch):
    """The exact length β of the first slope decides about the further steps and their noise, as Algorithm 2 is printed."""
    whole = oracles.MomentsOracle.gradient

    def gradient(self, stage, phi, rho):
        noisy = whole(self, stage, phi, rho)
        exact = self._ask._totals(self._reading(phi, rho), None)
        found = Unnoised(noisy.values, noisy.std, noisy.directions)
        object.__setattr__(found, "exact", float(np.linalg.norm(np.array(exact, dtype=float)) * self._worth(self._bits(rho))))
        return found

    patch.setattr(oracles.MomentsOracle, "gradient", gradient)


def above_private_threshold(patch):
    """The first feature above the second largest value, in place of a private choice.

    No release of ours scans for a first value above a threshold. What comes nearest is the choice of the leading feature, which
    is patched: values have noise of scale Δ/ε, as for one comparison with a public threshold, and the threshold has none. The
    published scan, which loses 1.5·ε with several hundred features, is in `baselines` and is judged there by its exact law.
    """

    def scan(scores, how):
        scale = 1 / (2 * how.rate)
        threshold = sorted(scores)[-2]
        noisy = [score + samplers.laplace(scale, noise.source.secrets.randbelow) for score in scores]
        return [next((i for i, score in enumerate(noisy) if score >= threshold), len(scores) - 1)]

    patch.setattr(shapley_scores, "choose", scan)


def shared_between_histograms(patch):
    """Noise is drawn for the first half of the cells, and the second half gets the same."""
    whole = noise.add_noise

    def halves(totals, how):
        drawn = whole(totals, how)
        half = len(totals) // 2
        if half > 1 and len(totals) % 2 == 0:
            drawn[half:] = [total + drawn[i] - totals[i] for i, total in enumerate(totals[half:])]
        return drawn

    patch.setattr(door, "add_noise", halves)


def shared_noise(patch):
    whole = noise.add_noise
    patch.setattr(door, "add_noise", lambda totals, how: shared(whole, totals, how))


def shared(whole, totals, how):
    (one,) = whole([0], replace(how, size=1, relative=()))
    return [int(total) + one for total in totals]


def exact_support(patch):
    whole = noise.add_noise
    patch.setattr(door, "add_noise", lambda totals, how: [n if t else 0 for t, n in zip(totals, whole(totals, how))])


def never_tried(patch):
    whole = row_wise._tried_at
    patch.setattr(row_wise, "_tried_at", lambda *asked: (whole(*asked)[0], None))


def in_this_process(patch):
    """A strict session that asks all questions in one process, which remembers."""
    patch.setattr(session, "apart", lambda answers_to, size, questions: (answers_to(inputs) for inputs in questions))


def ids_through_floats(patch):
    whole = ids.labels_of_ids
    for module in (engine_units, local):
        patch.setattr(module, "labels_of_ids", lambda labels, some: whole(labels, rounded(some)))


def rounded(ids):
    if not pa.types.is_integer(ids.type):
        return ids
    return pa.array([None if v is None else int(float(v)) for v in ids.to_pylist()], pa.int64())


def as_they_come(patch):
    """Questions have as many rows as there are records."""
    whole = ready.Ready.through

    def through(self, call, asked, asking, width=1):
        return whole(self, call, asked, replace(asking, rows=0), width)

    patch.setattr(ready.Ready, "through", through)


def not_clipped(patch):
    """The clipped copy is computed, and the other one is added."""
    whole = bounds.clipped_sums

    def sums(values, centre, unit, limit):
        whole(values, centre, unit, limit)
        return [int(column) for column in to_grid(values - centre, unit).sum(axis=0)]

    patch.setattr(bounds, "clipped_sums", sums)
    # Whatever else has loaded Numba.
    patch.setattr(bounds.fast, "loops", lambda work: None)


def forgotten_count(patch):
    whole = bounds.Box.added
    patch.setattr(bounds.Box, "added", lambda self: without_count(self, whole(self)))


def without_count(box, norms):
    whole = box.length + box.count
    return Norms(norms.l1 * box.length // whole, norms.l2_squared * box.length // whole, norms.linf)


def low_scores(patch):
    patch.setattr(QuantileScore, "largest", lambda self, relation, units: max(units * self.q.denominator // 4, 1))


def all_fail_together(patch):
    """Where one row of a question fails, none of it has an answer."""
    whole = ready.Part._found

    def found(self, piece, start, stop, rows):
        answers = whole(self, piece, start, stop, rows)
        return np.full_like(answers, np.nan) if np.isnan(answers).any() else answers

    patch.setattr(ready.Part, "_found", found)


def used_twice(patch):
    """Every second draw is the one before it."""
    whole, kept = noise.add_noise, {}

    def again(totals, how):
        drawn = kept.pop(how, None)
        if drawn is None:
            drawn = kept[how] = [n - t for n, t in zip(whole(totals, how), totals)]
        return [t + n for t, n in zip(totals, drawn)]

    patch.setattr(door, "add_noise", again)


def even(patch):
    """Noise on a grid of its own: the last bit tells that of the total."""
    whole = noise.add_noise
    patch.setattr(door, "add_noise", lambda totals, how: [t + 2 * ((n - t) // 2) for t, n in zip(totals, whole(totals, how))])


def exact_look(patch):
    """How much records vary is looked at with noise, and paid for; the counts without it decide."""
    whole = PartialDependence.looked_at

    def looked_at(self, ask, details):
        if "look" not in ask.plan.shares:
            return whole(self, ask, details)
        query, (one,) = ask.plan["look"].query, details.by("variation")
        beyond = np.cumsum(np.array(ask.totals(query), dtype=float)[::-1])[::-1][1:]
        few = np.flatnonzero(beyond <= ask.total("look").noise.scale)
        return (replace(one, variation=one.variation * float(STEPS[few[0] if len(few) else -1])),)

    patch.setattr(PartialDependence, "looked_at", looked_at)


def exact_cap(patch):
    """A cap is chosen privately, and paid for; the exact quantile is taken."""
    whole = PrivateCap.chosen

    def run(self, ask):
        details = ask.plan.details
        if details.choice is None:
            return unpatched(self, ask)
        query = ask.plan["cap"].query
        best = int(np.argmax(query.score.of(ask.totals(query.of))))
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(PrivateCap, "chosen", lambda self, position: whole(self, best))
            return unpatched(self, ask)

    unpatched = PermutationImportance.run
    patch.setattr(PermutationImportance, "run", run)


def known_number(patch):
    """Sessions plan with the number of people that they hold, also where it is a secret."""
    whole = session.Session.__init__

    def opened(self, *given, **more):
        whole(self, *given, **more)
        self._rows = self._engine.units

    patch.setattr(session.Session, "__init__", opened)


def generous_budget(patch):
    """An account counts twice the ρ that its ε and δ are worth."""
    whole = accounting.rho_of_epsilon_delta
    patch.setattr(accounting, "rho_of_epsilon_delta", lambda epsilon, delta: 2 * whole(epsilon, delta))


def cheap_pure(patch):
    """An account that counts either way takes a pure release for a quarter of its Rényi divergence."""
    whole = ledger_values.rho_of_pure
    patch.setattr(ledger_values, "rho_of_pure", lambda epsilon, order: whole(epsilon, order) / 4)


CONTROLS = [
    Control(
        "sensitivity halved",
        scaled_sensitivity(0.5),
        ("partial dependence, replace", "distribution, replace", "private k-means, replace", "Shapley values, add-remove"),
        slow=False,
    ),
    Control("noise halved", scaled_noise(0.5), ("distribution, replace", "released noise")),
    Control("an L2 clip used as an L1 bound", l2_for_l1, ("partial dependence, replace",), slow=False),
    Control("replace-one histogram with scale 1/ε", histogram_of_one, ("distribution, replace",), slow=False),
    Control("balanced shuffle under add-remove", balanced_shuffle, ("private plot, as many blocks as records, add-remove",)),
    Control("un-noised β in the adaptive explainer", exact_beta, ("answers alone",)),
    Control(
        "above-threshold with a private threshold and too little noise", above_private_threshold, ("Shapley ranking, replace",)
    ),
    Control("noise shared between histograms", shared_between_histograms, ("released noise",)),
    Control("exact support released", exact_support, ("distribution, add-remove",), slow=False),
    Control("a model that looks at its batch", never_tried, ("own rows alone",), slow=False),
    Control("a model with a memory", in_this_process, ("no memory",)),
    Control("ids through floats", ids_through_floats, ("distribution, ids that floats cannot tell apart",), slow=False),
    Control(
        "batches of other shapes",
        as_they_come,
        ("one shape", "partial dependence, a table that fills a question, add-remove"),
        slow=False,
    ),
    Control(
        "a clipped copy that is computed and not used",
        not_clipped,
        ("permutation importance, losses above the cap",),
        slow=False,
    ),
    Control(
        "a sensitivity that forgets the count",
        forgotten_count,
        ("partial dependence, people with several rows, zCDP, add-remove",),
        slow=False,
    ),
    Control("a score calibrated to half its span", low_scores, ("Shapley importance, a private cap",)),
    Control("noise shared between numbers", shared_noise, ("distribution, replace", "released noise")),
    Control(
        "a row that fails takes others with it",
        all_fail_together,
        ("partial dependence, a row on which the model fails, add-remove",),
        slow=False,
    ),
    Control(
        "a scale that is half of what was charged for",
        narrow_calibration,
        ("feature interaction, pairs, zCDP", "private k-means, grid, zCDP"),
        slow=False,
    ),
    Control(
        "a choice twice as sharp as its span",
        sharp_choice,
        ("Shapley importance, a private cap", "Shapley ranking, replace"),
        slow=False,
    ),
    Control("a stream charged half", cheap_stream, ("stream, one-shot",)),
    Control("narrow noise in bulk", narrow_cubes, ("bulk noise",), slow=False),
    Control("random bytes used twice", bytes_again, ("bulk noise",), slow=False),
    Control("draws used twice", used_twice, ("released noise",)),
    Control("even draws", even, ("released noise",)),
    Control("exact counts decide after a look", exact_look, ("answers alone",)),
    Control("an exact cap beside a private one", exact_cap, ("answers alone",)),
    Control("a release that knows a secret number of people", known_number, ("secret number",), slow=False),
    Control("a budget worth twice its ε and δ", generous_budget, ("meant budgets",), slow=False),
    Control(
        "a pure release counted for a quarter",
        cheap_pure,
        ("account that counts either way, more pure releases than their ε adds up to",),
        slow=False,
    ),
]
"""The first fifteen are those that every audit of ours must catch."""
