"""Local linear explanations: loss, questions per budget and the individual filter, on committed synthetic generators.

    python benchmarks/local.py loss
    python benchmarks/local.py individual

Everything runs on plain arrays with the package's own bounds and mechanisms; distances to the optimum are not private.
"""
