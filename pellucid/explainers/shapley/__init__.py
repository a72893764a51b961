"""Shapley vectors of records against other records, one of the two private, and how far one of them can move a total.

    choose.estimator_for(model, schema, record)   a public record against private ones: the best estimator, and why
    against.estimator_against(…, background)      private records against public ones: the same with the roles swapped
    exact, trees, fitted                          linear models and sums of trees, read off exactly
    coalitions                                    any model, by asking: enumeration, public permutations, kernel regression
    bound.ShapleyVectors                          the integer set that every vector is clipped into, with its norms
    scores.ShapleyScore                           private rankings, signed or by size
    radii.shapley_radii                           how large a Shapley vector of any bounded model can be
    certainty                                     how sure a private ranking is, from public numbers alone
    asked                                         the record asked about, kept and never written down

The explanation is the mean over background records z of the Shapley vectors of the games v(S) = f(x_S, z_rest): what the
shap package calls interventional.
"""
