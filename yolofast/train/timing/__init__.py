"""Steps timed by phase while a run trains, without waiting for the device."""
