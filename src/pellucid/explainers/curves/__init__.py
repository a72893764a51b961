"""Curves along a feature.

partial_dependence    the mean prediction with the feature set to each value of a grid; smoothing: running means, by request
variation             curves by level and differences: grids and bounds from public records, contributions, errors
accumulated_effects   what the feature does to predictions, measured where people are
steps                 what a record brings to accumulated effects
expected_effects      what they will be like, guessed from public things
accumulate            intervals, curves and error bars of accumulated effects, from released numbers
results               a partial dependence by differences, an accumulated curve
"""
