"""Detections over time: identities, how good they are, and which settings give the best ones."""
