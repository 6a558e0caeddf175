"""Runs shown in a browser while they train: finds their folders, reads their files as they grow, answers on a port.

Training knows nothing of it: files are only read, each is open for a moment, and none is read twice.
"""
