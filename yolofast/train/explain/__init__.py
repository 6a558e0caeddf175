"""What a run will really do, found before it runs."""
