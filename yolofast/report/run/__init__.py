"""The page of one run, made of the files in its folder."""
