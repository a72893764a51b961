"""Statistics of the people themselves, without a model.

distribution        how many people have each value of a column
formulas            what explainers about a formula share
statistic           the mean or sum of a formula, at its certified sensitivity
attribute_shares    which attribute drives that sensitivity, over the people
results, plots      counts and estimates, and pictures of counts
"""
