"""The only place that draws noise: exact integer mechanisms, their calibration, and the law of the noise they add.

amounts      what a charge buys: currencies, conversions, sensitivities as exact integers
noise        additive noise: the mechanism with the smallest error for a spend, and the draw
laws         the public law of that noise, for error bars
choices      private choices by integer scores: one candidate, k of them, items for every place
assignment   items for every place by one exact draw
samplers     exact samplers that OpenDP does not have
source       where randomness comes from; nothing else imports OpenDP
"""

from .amounts import (
    RESOLUTION,
    Currency,
    Norms,
    Spend,
    delta_of_rho,
    epsilon_at_order,
    epsilon_of_mix,
    epsilon_of_rho,
    exact,
    order_of,
    rho_at_order,
    rho_of_epsilon_delta,
    rho_of_pure,
    root_below,
    to_replace,
)
from .assignment import AssignmentScores
from .choices import Choosing, calibrate_assignment, calibrate_choice, choose, choose_assignment
from .labels import Labels
from .laws import NoiseLaw
from .noise import Mechanism, add_noise, calibrate
from .source import is_private

__all__ = [
    "RESOLUTION",
    "AssignmentScores",
    "Choosing",
    "Currency",
    "Labels",
    "Mechanism",
    "NoiseLaw",
    "Norms",
    "Spend",
    "add_noise",
    "calibrate",
    "calibrate_assignment",
    "calibrate_choice",
    "choose",
    "choose_assignment",
    "delta_of_rho",
    "epsilon_at_order",
    "epsilon_of_mix",
    "epsilon_of_rho",
    "exact",
    "is_private",
    "order_of",
    "rho_at_order",
    "rho_of_epsilon_delta",
    "rho_of_pure",
    "root_below",
    "to_replace",
]
