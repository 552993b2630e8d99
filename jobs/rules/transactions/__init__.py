"""Rules of transactions: records of `__transaction_state`, by transactional id."""
