"""The only place that draws noise: exact integer mechanisms, their calibration, and the law of the noise they add."""

from .amounts import RESOLUTION, Currency, Norms, Spend, delta_of_rho, epsilon_of_rho, exact, rho_of_epsilon_delta, to_replace
from .assignment import calibrate_combination
from .choices import Choosing, calibrate_choice, choose, choose_combination
from .laws import NoiseLaw
from .noise import Mechanism, add_noise, calibrate
from .source import is_private, secret_labels

__all__ = [
    "RESOLUTION",
    "Choosing",
    "Currency",
    "Mechanism",
    "NoiseLaw",
    "Norms",
    "Spend",
    "add_noise",
    "calibrate",
    "calibrate_choice",
    "calibrate_combination",
    "choose",
    "choose_combination",
    "delta_of_rho",
    "epsilon_of_rho",
    "exact",
    "is_private",
    "rho_of_epsilon_delta",
    "secret_labels",
    "to_replace",
]
