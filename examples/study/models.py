"""The model of the example study: any function of a DataFrame that looks at one row at a time."""

import numpy as np


def risk(people):
    score = 0.05 * (people["age"] - 55) + 0.04 * (people["bmi"] - 27) + 0.7 * people["smoker"] + 0.2 * (people["sex"] == "M")
    return 1 / (1 + np.exp(-score))
