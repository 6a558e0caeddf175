"""Run folders and logs -> what happened in them: curves, statistics, verdicts, advice, pictures."""
