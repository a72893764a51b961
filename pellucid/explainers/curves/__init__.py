"""Curves along a feature.

partial_dependence    the mean prediction with the feature set to each value of a grid; smoothing: running means, by request
accumulated_effects   what the feature does to predictions, measured where people are
steps                 what a record brings to accumulated effects
accumulate            intervals, curves and error bars of accumulated effects, from released numbers
results               an accumulated curve
"""
