"""One file per command: it composes the stages and prints. `cli.py` only parses flags and picks one of these."""
