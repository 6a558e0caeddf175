"""Raw maps and their assignment in, `LossTerms` out."""
