"""What touches exact totals runs in here: whatever goes wrong inside says nothing about why, because the reason may be data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ..errors import ReleaseFailed
from ..public.silence import unwarned

T = TypeVar("T")

STOPPED = (
    "the release stopped while rows were read; the charge stays spent and nothing was released. "
    "The reason is not shown because it may depend on the data; check that the file is complete."
)
CHANGED = (
    "the data file was changed or removed while the session was open; nothing more was charged. "
    "Open a new session on it: whose row is whose was settled when this one was opened."
)
CHANGED_SINCE = (
    "the data file was changed or removed after the release was charged: the charge stays spent and nothing was released. "
    "Open a new session on it."
)


def shielded(work: Callable[[], T]) -> T:
    """Do what touches exact totals and was charged before. What goes wrong inside says nothing about why: that may be data."""
    interrupted, message = False, STOPPED
    try:
        # NumPy warns about cells it met, and a warning would be seen.
        with np.errstate(all="ignore"), unwarned():
            return work()
    except KeyboardInterrupt:
        interrupted = True
    except ReleaseFailed as failure:
        # User code could raise one too, with a row in its message: only words known to be ours pass.
        message = CHANGED_SINCE if str(failure) in (CHANGED, CHANGED_SINCE) else STOPPED
    except BaseException:
        pass
    # Raised outside the handlers, so that not even the context or the frames of the error hold what went wrong.
    if interrupted:
        raise KeyboardInterrupt
    raise ReleaseFailed(message)
