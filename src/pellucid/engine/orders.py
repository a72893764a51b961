"""Units in the order of their secret labels, and what follows from it: rows that stay, pairs, couples and blocks.

Pure functions of labels, which every engine calls on whatever rows it has at hand. A unit is a row, or all rows of a person; rows
of one unit have one label. Tables that do not fit are handled in *buckets*, which are ranges of labels: `bucket_of` says where a
row goes, and the functions below are told what a bucket has to know of the others. How many buckets there are is a matter of
memory, and never of the result:

    pairing     the rows of a bucket, and behind them those of the unit that follows in the next bucket, as guests
    matching    the same, and the rank of the first row
    division    the rank of the first unit, and how many units there are in all

Rows are given in the fixed order of the table, guests last. Content plays no part in any of this.
"""

from __future__ import annotations

import numpy as np

from ..public.schema import Relation

Pairing = tuple[np.ndarray, np.ndarray]
"""Places of rows: who receives, and from whom."""


def in_order(labels: np.ndarray) -> np.ndarray:
    """The places of rows by label; rows of the same unit stay in their order."""
    high = np.ascontiguousarray(labels[:, 0])
    order = np.argsort(high, kind="stable")
    by_high = high[order]
    if (same := by_high[1:] == by_high[:-1]).any():
        low = labels[order, 1]
        if (same & (low[1:] != low[:-1])).any():
            return np.lexsort((labels[:, 1], high))
    return order


def begins(labels: np.ndarray) -> np.ndarray:
    """Where units begin among labels that are in order."""
    if not len(labels):
        return np.empty(0, dtype=np.intp)
    return np.flatnonzero(np.r_[True, (labels[1:] != labels[:-1]).any(axis=1)])


def bucket_of(labels: np.ndarray, buckets: int) -> np.ndarray:
    """The bucket of every row: ranges of the upper 32 bits, in order."""
    return ((labels[:, 0] >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)).astype(np.intp)


def bucket_of_block(labels: np.ndarray, blocks: int, buckets: int) -> np.ndarray:
    """The bucket of every row where each unit draws its block by itself: ranges of blocks, in order."""
    return drawn_block(labels, blocks) * buckets // blocks


def first_unit(labels: np.ndarray) -> np.ndarray:
    """The places of the rows of the unit with the smallest label; of no rows none."""
    if not len(labels):
        return np.empty(0, dtype=np.intp)
    least = np.flatnonzero(labels[:, 0] == labels[:, 0].min())
    low = labels[least, 1]
    return least[low == low.min()]


def count_units(labels: np.ndarray) -> int:
    """How many units these rows are of."""
    return len(begins(labels[in_order(labels)]))


def kept_rows(people: np.ndarray, rows: np.ndarray, max_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """For every row how many rows its person keeps, 0 for a row that goes; and how many rows each person has.

    Claim: person-average

    `people` are labels of the people, `rows` of the rows: the `max_rows` rows of a person with the smallest labels stay.
    """
    parts = np.zeros(len(people), dtype=np.int64)
    by_person = in_order(people)
    begin = begins(people[by_person])
    count = np.diff(np.r_[begin, len(people)])
    which = np.repeat(np.arange(len(begin)), count)
    if len(count) and count.max() > max_rows:
        own = rows[by_person]
        by_person = by_person[np.lexsort((own[:, 1], own[:, 0], which))]
    rank = np.arange(len(people)) - begin[which]
    parts[by_person] = np.where(rank < max_rows, np.minimum(count, max_rows)[which], 0)
    return parts, count


def pairing(labels: np.ndarray, guests: int = 0) -> Pairing:
    """Receivers and donors: the donor is the next unit in the cyclic order of labels. Claim: pairs

    Row r of a person with n rows receives from row r mod m of one with m. The last `guests` rows are those of the unit that
    follows, from another bucket; without any the order closes here.
    """
    own = len(labels) - guests
    order = in_order(labels[:own])
    begin = begins(labels[:own][order])
    if len(begin) == own and guests <= 1:
        return order, np.append(order[1:], own if guests else order[:1]) if own else order
    count = np.diff(np.r_[begin, own])
    # The unit that each one receives from: where its rows begin, and how many there are.
    following, sizes = np.append(begin[1:], own if guests else 0), np.append(count[1:], guests or count[:1])
    order = np.r_[order, np.arange(own, len(labels))]
    which = np.repeat(np.arange(len(begin)), count)
    rank = np.arange(own) - begin[which]
    return order[:own], order[following[which] + rank % sizes[which]]


def matching(labels: np.ndarray, first_rank: int = 0, guests: int = 0) -> Pairing:
    """First and second of every couple: the rows of ranks 2j and 2j + 1, of which the first is not a guest. Claim: couples

    The second of the last couple may be a guest; without any, a row that is left over stays alone.
    """
    own = len(labels) - guests
    order = np.r_[in_order(labels[:own]), np.arange(own, len(labels))][first_rank % 2 :]
    firsts, seconds = order[: max(own - first_rank % 2, 0) : 2], order[1::2]
    return firsts[: len(seconds)], seconds


def division(labels: np.ndarray, blocks: int, relation: Relation, first_rank: int, units: int) -> np.ndarray:
    """The block of every row. Claim: blocks

    A balanced division needs the number of units to be public; under add-remove every unit draws its block by itself.
    """
    if relation != "replace":
        return drawn_block(labels, blocks)
    order = in_order(labels)
    begin = begins(labels[order])
    rank = first_rank + np.arange(len(begin))
    found = np.empty(len(labels), dtype=np.intp)
    found[order] = np.repeat(rank * blocks // max(units, 1), np.diff(np.r_[begin, len(labels)]))
    return found


def drawn_block(labels: np.ndarray, blocks: int) -> np.ndarray:
    """The block that a unit draws by itself: the lower half of its label, modulo their number."""
    return (labels[:, 1] % np.uint64(blocks)).astype(np.intp)
