"""A rented GPU in one command: what SkyPilot is asked for, and the calls of its program."""
