"""The settings of every command: pure data, checked when made; flags, files and documentation follow from it."""
