"""The run folder: names of files, columns, fitness, and the one reader. No torch here."""
