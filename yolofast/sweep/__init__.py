"""Experiments of many runs from one file: what is tried, the queue that trains it, and what came out.

The Python API has a function of this name: `yolofast.sweep("experiment.yaml")`.
"""

from yolofast.extensions import RoomToCall

RoomToCall.make(__name__)
