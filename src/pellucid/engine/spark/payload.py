"""What travels to executors: everything a task needs, pickled once a query."""

from __future__ import annotations

from typing import Any

import cloudpickle

from ..sandbox.isolated import by_value


def pickled(work: Any) -> bytes:
    """Work with its sums and models, and the code of what executors could not import."""
    with by_value():
        return cloudpickle.dumps(work, protocol=5)
