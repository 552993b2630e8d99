"""The state of clusters as a lake has it at a time, and what differs between two of them."""
