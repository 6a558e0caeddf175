"""Who learns which box: predictions and targets in, `Assignment` out. No gradient, fixed shapes, no host sync."""
