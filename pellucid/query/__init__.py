"""What may be asked of data: bounds and scores with their register, the kinds of query, and `sensitivity`."""

from .kinds import Blocks, Choice, Couples, Joint, Over, Pairs, Records, Sum, changes, parts_of, relative_scales, sensitivity

__all__ = [
    "Blocks",
    "Choice",
    "Couples",
    "Joint",
    "Over",
    "Pairs",
    "Records",
    "Sum",
    "changes",
    "parts_of",
    "relative_scales",
    "sensitivity",
]
