"""Settings in, trained weights out: the run, the loop and the step, and what surrounds them."""

from yolofast.extensions import RoomToCall

RoomToCall.make(__name__)
