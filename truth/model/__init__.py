"""The events and spells that states with times make: of a log, whoever kept it."""
