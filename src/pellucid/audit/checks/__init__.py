"""What no game sees: noise that is not fresh, cells in stored texts, shapes that follow the data, a budget that is spent twice,
exact numbers among the released ones, models that are no functions of one row.

Every check makes its own small tables and ledgers, and says in words what it found.
"""

from __future__ import annotations

from collections.abc import Callable

from .answers import answers_alone
from .finding import Finding
from .models import no_memory, one_shape, own_rows_alone
from .noise import bulk_noise, fresh_noise, low_bits, own_noise, released_noise
from .sessions import fixed_shape, meant_budgets, no_canaries, one_unit_left, quiet_refusal, secret_number

__all__ = ["Finding", "checks"]


def checks() -> list[Callable[[], Finding]]:
    """All of them."""
    return [
        fresh_noise,
        own_noise,
        low_bits,
        bulk_noise,
        released_noise,
        answers_alone,
        one_unit_left,
        meant_budgets,
        secret_number,
        fixed_shape,
        no_canaries,
        quiet_refusal,
        own_rows_alone,
        no_memory,
        one_shape,
    ]
