"""Types of libraries that are named and not imported."""

import pytest
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from pellucid.public.fitted import estimators
from pellucid.public.fitted.estimators import LINEAR, TREES, Types

NAMED = {name: value for name, value in vars(estimators).items() if isinstance(value, Types)}


@pytest.mark.parametrize("name", NAMED)
def test_every_name_is_a_type(name):
    for module, kind in NAMED[name].places:
        assert getattr(pytest.importorskip(module), kind) in NAMED[name]


def test_types_are_compared_by_identity():
    class Ridge2(Ridge):
        pass

    namesake = type("Ridge", (), {"__module__": Ridge.__module__})
    assert Ridge in LINEAR and Ridge2 not in LINEAR and namesake not in LINEAR
    assert DecisionTreeRegressor in LINEAR + TREES and DecisionTreeRegressor not in LINEAR
    assert None not in Types("sklearn.nowhere", "Nothing")
