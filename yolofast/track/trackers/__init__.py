"""Trackers as functions over arrays: who is who from frame to frame, without a network and without torch."""
