"""Transactions: producers that write down what they do, and history held against that."""
