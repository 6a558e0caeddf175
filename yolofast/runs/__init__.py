"""The run folder: what its files and columns are called, how it is named and read. Knows nothing of networks."""
