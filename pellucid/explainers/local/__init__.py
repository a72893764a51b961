"""Local linear explanations: which features carried one decision, from the records around it.

weights      how much a record counts by its distance, with certified constants
bound        the set one record's part of the totals lies in
encoder       records → coordinates in [0, 1] → rows
exact        exact totals, next to the engine: what leaves has noise and was paid for
methods      one-shot, descent, adaptive, enhanced, non-interactive: from noisy answers to an explanation
reuse        what was answered before
stream       question after question: hand on, ask and pay, or fit what is known; no rows in scope
individual   one account per record
desk         between a stream, the ledger and the records: pays, reads, certifies and remembers
"""
