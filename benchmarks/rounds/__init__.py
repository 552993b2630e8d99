"""How long a round of history takes, how late history is, and what it costs."""
