"""The history of a cluster held against what its controllers wrote down, after much was done to
it.
"""
