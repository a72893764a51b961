"""One draw of items for every place at once from the exponential mechanism over all assignments: exactly.

The law is P ∝ exp(rate·u), where an assignment gives place p the set S_p of items and has the integer score
u = Σ_p Σ_{i in S_p} unary[p][i] - Σ_{p<q} Σ_{i in S_p and S_q} penalty[i][p][q].
There are |items|^|places| assignments, so no sampler enumerates them. Each proposes an assignment with a probability that is an
exact fraction and accepts it with probability exp(rate·u)·(a fraction), tossed exactly by comparing random bits with ever tighter
integer enclosures. An attempt returns an assignment with probability exp(rate·u)/K, where K is the same for all of them; so the
accepted one has the law, whatever rule picks the next proposal. Floats steer: they decide how soon, not with what probability.

    scores    unary and penalty, and the score of one assignment
    coins     exact coins with probability exp(-x) times a fraction
    sets      `SetSampler`, few places: adds up exp(rate·u) over all assignments, item by item, over the sets of places already
              served; the sums are certified upper bounds, so nearly every proposal is accepted, whatever the scores
    regions   `PriceSampler`, more places: *prices* charge a place in advance for sharing an item, which turns the score into a
              sum over places that is never below it; where proposals keep being refused, the most likely region is cut in two
    prices    floats that propose prices
    draw      which of the two runs, by the numbers of places, items and picks only; the time may depend on the data

Claim: combination-exponential
"""

from .draw import draw_assignment
from .scores import Assignment, AssignmentScores, Candidates

__all__ = ["Assignment", "AssignmentScores", "Candidates", "draw_assignment"]
