"""Data sets as a few files: read from zip, tar and parquet as a stream, written as tar files that are read in place."""
