"""Statistics of the people themselves, without a model.

distribution        how many people have each value of a column
completeness        how much of each column is missing, unreadable, not declared or out of range
formulas            what explainers about a formula share
statistic           the mean or sum of a formula, at its certified sensitivity
attribute_shares    which attribute drives that sensitivity, over the people
results, plots      counts, shares and estimates, and pictures of them
"""
