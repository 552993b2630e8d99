"""The history of a cluster held against what its controllers wrote, after much was done to it."""
