"""Whole reports for one price: which explanations, at which share; one page, one certificate, one total.

report        what is wanted of a report
usual         how far explanations of a model usually go, and how large their errors will be, from public things
split         how a price is divided so that each explanation is useful
candidates    the explanations that a report may hold
planner       what is released, at which share, and what is left out and why
draft         a report of a session: its plan, then its release, list after list
made          what was released, with its page, certificate and total
sentences     what was found, in words
page          one HTML page
"""
