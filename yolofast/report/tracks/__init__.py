"""The page of `yolofast trackval`: scores, objects, and why identities switched."""
