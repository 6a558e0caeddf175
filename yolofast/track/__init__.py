"""Following objects: trackers, sequences on disk, and how good tracks are."""
