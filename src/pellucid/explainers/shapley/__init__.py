"""Shapley explanations: values and rankings for one record, importance and dependence over people.

    shap_values, shap_ranking          one record against private people, or a private record against public ones
    shap_importance, shap_dependence   the people against public records, with a cap on sizes
    base                               what these four share
    estimator                          which estimator suits a model and the record asked about, and why
    background                         the same with the roles swapped: private records against a public background
    coalitions                         any model, by asking: enumeration, public permutations, kernel regression
    model_specific, fitted_models, trees   linear models and sums of trees, read off exactly
    loops, outcomes, masks             walks of two records at once, tables of outcomes, sets of leaves, compiled
    queries                            what is asked about vectors, and what the noise of the answers means
    bound, radii                       the integer set that every vector is clipped into; how large a vector can be
    scores                             private rankings, signed or by size
    certainty                          how sure a ranking is, from public numbers alone
    results, plots                     released numbers and their pictures

The explanation is the mean over background records z of the Shapley vectors of the games v(S) = f(x_S, z_rest): what the
shap package calls interventional.
"""
