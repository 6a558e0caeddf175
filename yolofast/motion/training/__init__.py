"""How motion models learn from the tracks of sequences."""
