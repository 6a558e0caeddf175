"""An assigner and a loss joined: raw maps and targets in, loss terms out; and which one when."""
