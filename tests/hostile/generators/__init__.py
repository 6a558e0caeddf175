"""Hostile inputs without end, by class: each is a function of a seed, so that it can be made again."""
