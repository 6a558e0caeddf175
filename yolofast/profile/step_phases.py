"""The phases of a training step, by the names that tables, files and marks in the step use."""

DATA_WAIT, TO_DEVICE, AUGMENT = "data wait", "host→device", "augment"
FORWARD, ASSIGN, LOSS, BACKWARD, OPTIMIZER, EMA = "forward", "assign", "loss", "backward", "optimizer", "EMA"
FUSED = "assign+loss"
"""Both as one compiled region, into which nobody can look."""
GRAPH = "graph"
"""A captured graph without marks inside, all of it."""
REST = "rest"
"""Everything else: the schedule, copies into a graph's memory, the record of losses and gradients."""
END = "end"
"""Not a phase: the moment at which the last one is over."""

ORDER = (DATA_WAIT, TO_DEVICE, AUGMENT, FORWARD, FUSED, ASSIGN, LOSS, BACKWARD, OPTIMIZER, EMA, GRAPH, REST)
"""As they happen, and as they are listed; OPTIMIZER and EMA happen where weights move."""
