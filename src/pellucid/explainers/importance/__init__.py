"""Permutation importance: how much worse a model predicts when a feature comes from somebody else.

permutation_importance   the explainer: settings, plan, preview
losses                   losses with a declared range
shuffling                what both ways of asking share: who gives to whom, the truth, the private cap
mean_losses              losses as they are and with each feature shuffled: importances with their size
mean_increases           how much losses grow, which is all that an order needs
results                  importances with their order
"""
