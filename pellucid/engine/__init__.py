"""Exact totals over a table: the only room that sees rows."""
