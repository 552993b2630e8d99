"""The cost of rebalances and the lag that history tells, held against what real members did."""
