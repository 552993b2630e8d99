"""The cost of rebalances that history tells, held against what real members did."""
