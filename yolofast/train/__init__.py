"""Settings in, trained weights out: the run, the loop and the step, and what surrounds them."""
