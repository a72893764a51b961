"""What travels to executors: everything a task needs, pickled once a query."""

from __future__ import annotations

from typing import Any

import cloudpickle

from ...mechanisms.labels import in_payload
from ..sandbox.isolated import by_value


def pickled(work: Any) -> bytes:
    """Work with its sums and models, and the code of what executors could not import."""
    with by_value(), in_payload():
        return cloudpickle.dumps(work, protocol=5)
