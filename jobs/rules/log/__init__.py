"""The controllers' own log: its records -> state over time, exact. Pure functions, one cluster at a
time.
"""
