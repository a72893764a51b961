"""Local linear explanations: why single decisions came out as they did, question after question.

local_linear   the explainer: one question by a release, many by a stream
encoder        records → coordinates and labels; the sums that questions ask for
bound          Moments: the set in which one record's part of those sums lies
readings       gradients and starts, as images and scores of sums behind the door
oracles        what a method may ask, as queries
methods        from noisy answers to an explanation: one-shot, descent, adaptive, enhanced
weights        certified weights of distances
settings, questions, stream, history   how a stream goes from one question to the next
results, plots what comes out
"""
