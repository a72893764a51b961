"""Any function of records, asked of blocks of people: any plot, any ranking.

private_plot, private_ranking   the explainers
functions    what a function may answer, and how many blocks to ask
ballots      the set in which the votes of one block lie
adapters     explainers of other packages as functions of a block
results      votes
"""
