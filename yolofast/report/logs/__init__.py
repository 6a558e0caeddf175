"""Run folders and logs of several trainers as numbers."""
