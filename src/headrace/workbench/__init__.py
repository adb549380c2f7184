"""Bench, doctor and report: where the time goes, stage by stage.

Measuring gives frozen values (`bench/results.py`, `watch/watched_program.py`); verdicts, tables and reports
are pure functions of them.
"""
