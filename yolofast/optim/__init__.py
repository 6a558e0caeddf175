"""What moves the weights: parameter groups, schedules as pure functions of the iteration, the moving average."""
