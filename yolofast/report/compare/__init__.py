"""Several runs side by side: what they reached, what it cost, what differs, and how sure one can be of it."""
