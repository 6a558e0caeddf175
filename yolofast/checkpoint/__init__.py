"""Weights in and out: read any published file without running its code, load it into a model, write our own.

Reading order: `pickle_graph` (bytes -> `inert` values), `containers` (the two that torch writes), `tensors` (inert
values -> tensors), `foreign` (which of them are the weights), then `read`, `load` and `save`, which users call.
"""
