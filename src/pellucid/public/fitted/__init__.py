"""Fitted models that are read: what they compute is known, and Pellucid computes it itself."""
