"""Networks as files for other runtimes: written, proven equal, and run again."""
