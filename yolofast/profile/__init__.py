"""Measured figures of training steps -> statistics, limits, verdicts, tables. Nothing here measures anything."""
