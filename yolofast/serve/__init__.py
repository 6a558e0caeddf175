"""A network as a small HTTP service: `yolofast serve`."""
