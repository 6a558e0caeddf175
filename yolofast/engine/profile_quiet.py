"""torch's profiler without the lines its library (Kineto) writes to standard error at every start and stop.

It asks the environment once, when it is first used, and has no other switch. Its warnings go with them: a profiler that
sees no kernels is told by what it saw. A level that the user has set stays.
"""

import os

_ABOVE_ALL_LEVELS = "99"


def quiet_profiler() -> None:
    """Before the profiler is used for the first time."""
    os.environ.setdefault("KINETO_LOG_LEVEL", _ABOVE_ALL_LEVELS)
