"""Pictures, videos and streams, in and out."""
