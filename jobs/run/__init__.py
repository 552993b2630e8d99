"""A job's session, command line and streams, whatever it makes."""
