"""What may be asked of data, and how far one unit can move the answer.

    bound        what a bound is; bounds: the general ones (Box, CountedBox, Cells, CrossCells, Ball, Gram)
    image        what an image of totals is
    scores       what a score of a private choice is; the quantile
    reviewed     the register: only bounds, images and scores of this package, each with its theorem, scale noise
    kinds        Sum, Joint, Reading and Choice, over records, pairs, couples or blocks
    sensitivities  the one place that noise scales come from

Families of explainers bring bounds, images and scores of their own, beside the explainers that need them.
"""

from .kinds import Blocks, Choice, Couples, Joint, Over, Pairs, Query, Reading, Records, Sum, parts_of
from .sensitivities import calibrated, calibrated_choice, changes, relative_scales, released_parts, sensitivity, touched

__all__ = [
    "Blocks",
    "Choice",
    "Couples",
    "Joint",
    "Over",
    "Pairs",
    "Query",
    "Reading",
    "Records",
    "Sum",
    "calibrated",
    "calibrated_choice",
    "changes",
    "parts_of",
    "relative_scales",
    "released_parts",
    "sensitivity",
    "touched",
]
