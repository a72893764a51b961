"""What drawings of explainers usually leave out, found by words in names and notes.

A vertex that was left out makes the analysis certify the wrong thing, so these are questions worth a false alarm. Each rule
looks at the words of a stage and asks whether the stage, or something it reads, accounts for them; a note that says
"declared", "public" or "schema" does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...public.schema import Relation
from .graph import Vertex, reached


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.IGNORECASE)


MEAN = _words("means?|averages?|averaged|averaging|rates?|proportions?|divided by|divides? by|weights?|weighted")
GROUPED = _words(
    r"weights?|weighted|(?:per|each|within|inside|in|of|by|every) (?:an? |the |one |its |own |single )*"
    "(?:intervals?|bins?|cells?|groups?|clusters?|categor(?:y|ies)|class(?:es)?)"
)
NUMBER = _words(r"n|1/n|number of (?:records|rows|people|persons|patients|samples|units)")
DIVISOR = _words("(?:public|declared|fixed) (?:constant|number|normali[sz]er)")
COUNT = _words("counts?|counted|histograms?|frequenc(?:y|ies)|sizes?|tally")
EDGES = _words(
    "edges?|borders?|breakpoints?|intervals?|bins?|binned|grids?|quantiles?|percentiles?|deciles?|medians?|thresholds?|"
    "cut ?points?"
)
CLIPPED = _words(
    "clip|clips|clipped|clipping|clamped|bounds?|bounded|min|max|minimum|maximum|smallest|largest|range|scaled|"
    "standardi[sz]ed|normali[sz]ed|z-scores?"
)
LIMITS = _words("clips?|bounds?|ranges?|limits?|min|max|minimum|maximum|scales?|schema|caps?")
SEEN = _words("unique|distinct|observed|vocabulary|number of (?:categories|levels|classes|values)")
LISTED = _words("categor(?:y|ies)|levels|class|classes|one-hot|schema")
MODEL = _words("models?|predict|predicts|predicted|predictions?|classifiers?|regressors?|clustering|forests?|networks?")
MACHINE = _words("models?|classifiers?|regressors?|clustering|forests?|networks?")
ELSEWHERE = _words(
    "other|elsewhere|public|synthetic|privately|private training|differentially private|not trained|declared|hand-written"
)
DECLARED = _words("declared|public|fixed|schema|in advance|constants?")
FROM_DATA = _words(
    "observed|unique|distinct|quantiles?|percentiles?|medians?|(?:from|in|of) the (?:data|records|rows|table|column|sample)"
)


@dataclass(frozen=True)
class _Look:
    """A vertex and all it reads, as words."""

    vertex: Vertex
    before: tuple[Vertex, ...]

    @property
    def name(self) -> str:
        return self.vertex.name

    @property
    def words(self) -> str:
        return _text(self.vertex)

    def drawn(self, pattern: re.Pattern[str]) -> bool:
        """Whether its own name, or anything it reads, says the word."""
        return bool(pattern.search(self.name)) or any(pattern.search(_text(v)) for v in self.before)

    @property
    def declared(self) -> bool:
        return bool(DECLARED.search(self.words))


def _text(vertex: Vertex) -> str:
    return f"{vertex.name}: {vertex.note}"


def omissions(vertices: Sequence[Vertex], private: Sequence[str], relation: Relation) -> list[str]:
    """One sentence for each kind of omission found, with the names it is about and the fix."""
    backward = {v.name: v.sources for v in vertices}
    (data,) = (v.name for v in vertices if v.kind == "input")
    looks = []
    for vertex in vertices:
        read = reached(backward, [vertex.name]) - {vertex.name, data}
        looks.append(_Look(vertex, tuple(v for v in vertices if v.name in read)))
    stages = [look for look in looks if look.name in private]
    public = [look for look in looks if look.vertex.kind == "public"]
    said = []
    for fires, sentence, among in _rules(relation, stages, public):
        names = [look.name for look in among if fires(look)]
        if names:
            said.append(f"{', '.join(names)}: {sentence.format(data=data, name=names[0])}")
    return said


_Rule = tuple[Callable[[_Look], bool], str, Sequence[_Look]]


def _rules(relation: Relation, stages: Sequence[_Look], public: Sequence[_Look]) -> list[_Rule]:
    rules: list[_Rule] = [
        (
            _group_mean_without_counts,
            "a mean or weight over part of the records divides by how many there are, and no counts are drawn. "
            "Draw '{data} -> counts' and an arrow from counts to {name}.",
            stages,
        ),
        (
            _edges_not_drawn,
            "intervals, grids or quantiles are used but not drawn. Draw '{data} -> edges' if they come from the data, or "
            "'public: edges' if they are declared, and an arrow to {name}.",
            stages,
        ),
        (
            _limits_not_drawn,
            "something is clipped, scaled or compared with limits that are not drawn. Draw '{data} -> bounds' if they are read "
            "from the data, or 'public: bounds' if they are declared, and an arrow to {name}.",
            stages,
        ),
        (
            _values_seen,
            "which values occur, and how many, is itself read from the data. Use the declared categories, "
            "'public: categories', and say so in the note.",
            stages,
        ),
        (
            _categories_not_drawn,
            "categories are used but not drawn. Draw 'public: categories' for the declared ones and an arrow to {name}.",
            stages,
        ),
        (
            _model_not_drawn,
            "a model is used but not drawn. Draw '{data} -> model' if it was trained on this data, or 'public: model' with a "
            "note where it was trained, and an arrow to {name}.",
            stages,
        ),
        (
            _model_not_elsewhere,
            "drawn as public without saying that it was trained on other data. If it was, write '{name}: trained on other data'; "
            "if it was trained on {data}, draw '{data} -> {name}' and drop the mark.",
            public,
        ),
        (
            _public_from_data,
            "marked public, but the words say that it is read from the data. Draw '{data} -> {name}', or declare it.",
            public,
        ),
    ]
    if relation == "add-remove":
        rules += [
            (
                _mean_without_number,
                "divides by the number of records, which is secret under add-remove, and no count is drawn. Draw "
                "'{data} -> count' and an arrow to {name}, or release a sum and divide by a public constant.",
                stages,
            ),
            (
                _number_called_public,
                "marked public, but under add-remove the number of records is secret. Draw '{data} -> {name}', or use the "
                "replace relation.",
                public,
            ),
        ]
    return rules


def _counted(look: _Look) -> bool:
    own = bool(COUNT.search(look.words) or NUMBER.search(look.name))
    return own or any(COUNT.search(_text(v)) or NUMBER.search(v.name) for v in look.before)


def _group_mean_without_counts(look: _Look) -> bool:
    return bool(MEAN.search(look.words) and GROUPED.search(look.words)) and not _counted(look)


def _mean_without_number(look: _Look) -> bool:
    mean = MEAN.search(look.words) and not GROUPED.search(look.words)
    already = any(MEAN.search(_text(v)) for v in look.before)
    told = _counted(look) or DIVISOR.search(look.words)
    return bool(NUMBER.search(look.words) or (mean and not already)) and not told


def _edges_not_drawn(look: _Look) -> bool:
    return bool(EDGES.search(look.words)) and not look.declared and not look.drawn(EDGES)


def _limits_not_drawn(look: _Look) -> bool:
    told = look.declared or "[" in look.vertex.note or "±" in look.vertex.note
    return bool(CLIPPED.search(look.words)) and not told and not look.drawn(LIMITS)


def _values_seen(look: _Look) -> bool:
    return bool(SEEN.search(look.words)) and not look.declared


def _categories_not_drawn(look: _Look) -> bool:
    mentioned = LISTED.search(look.words) and not SEEN.search(look.words)
    return bool(mentioned) and not look.declared and not look.drawn(LISTED)


def _model_not_drawn(look: _Look) -> bool:
    return (
        bool(MODEL.search(look.words)) and not MACHINE.search(look.name) and not any(MODEL.search(_text(v)) for v in look.before)
    )


def _model_not_elsewhere(look: _Look) -> bool:
    return bool(MACHINE.search(look.name)) and not ELSEWHERE.search(look.vertex.note)


def _public_from_data(look: _Look) -> bool:
    return bool(FROM_DATA.search(look.words)) and not DECLARED.search(look.words) and not MACHINE.search(look.name)


def _number_called_public(look: _Look) -> bool:
    return bool(NUMBER.search(look.name) or COUNT.search(look.name))
