"""Which layers learn when, and what weights made for inference need first."""
