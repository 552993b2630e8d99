"""Rules of what lies in log directories."""
