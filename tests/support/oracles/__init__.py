"""The rules of silver and gold a second time, in the dumbest way."""
