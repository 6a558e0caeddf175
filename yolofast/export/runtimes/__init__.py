"""Exported files run: a loader for each format, and the file in place of its network or as it is."""
