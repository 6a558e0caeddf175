"""What is shown on a terminal: names from files never steer it, tables fit it."""
