"""The steps of a run measured: phases, use of the machine, limits."""
