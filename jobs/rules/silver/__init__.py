"""Silver: what polls said -> state over time. Pure functions, one cluster at a time."""
