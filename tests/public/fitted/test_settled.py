"""Where comparisons in single precision change, among doubles."""

import numpy as np
import pytest

from pellucid.public.fitted.settled import _last_rounded_to

LARGEST = float(np.finfo(np.float32).max)
TINY = float(np.finfo(np.float32).smallest_subnormal)


def limits():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 4000, dtype=np.uint32).view(np.float32).astype(float)
    near = [0.0, -0.0, TINY, -TINY, 1.0, -1.0, LARGEST, -LARGEST, 2.0**128, -(2.0**128), 1e300, -1e300]
    singles = np.concatenate([bits[np.isfinite(bits)], near])
    return np.concatenate([singles, np.nextafter(singles, np.inf), np.nextafter(singles, -np.inf), rng.normal(size=500)])


@pytest.mark.filterwarnings("ignore:overflow")
def test_the_last_double_at_or_below_a_limit():
    """That very double is at most the limit in single precision, and the next one is not."""
    limit = limits()
    last = _last_rounded_to(limit)
    assert np.all(last.astype(np.float32).astype(float) <= limit)
    after = np.nextafter(last, np.inf)
    assert np.all((after.astype(np.float32).astype(float) > limit) | np.isinf(last))
    assert np.array_equal(_last_rounded_to(np.array([np.inf, -np.inf])), [np.inf, -LARGEST - 2.0**103])
