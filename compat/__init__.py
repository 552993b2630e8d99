"""The same script on real versions of Kafka, and the history that must come of it on each."""
