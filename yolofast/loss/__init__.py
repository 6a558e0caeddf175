"""Predictions and who learns what in, `LossTerms` out."""
