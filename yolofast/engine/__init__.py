"""Composition: stages joined into what a training step needs."""
