"""Sequences of boxes with identities: what they are, and their formats on disk."""
