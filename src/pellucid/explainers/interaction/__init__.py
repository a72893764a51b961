"""Feature interaction: Friedman's H-statistic of pairs of features, and of each feature with all others.

feature_interaction   the explainer: which of the two is asked
statistic             what both share: how many values pay, what to expect
pairwise              H of one feature with every other one
overall               H of each feature with all others together
rounding              features rounded to a few values, by released counts
energies              mean squares without the noise's own share, and what noise does to their ratios
results               both kinds of result
"""
