"""Plan, door, certificate, explanation, session: how a release comes about."""
