"""What Python programs use: the `Detector`, and messages in the words of Python."""
