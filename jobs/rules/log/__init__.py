"""The controllers' log: records -> state over time, exact. Pure functions, one cluster each."""
