"""Why a loss does what it does, what to change, which epoch to ship."""
