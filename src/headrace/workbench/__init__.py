"""Bench, doctor and report: where the time goes, stage by stage.

Measuring gives frozen values (`numbers`, `record`); verdicts, tables and reports are pure functions of them.
"""
