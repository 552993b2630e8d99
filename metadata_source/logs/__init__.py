"""Logs that Kafka keeps of itself: one frame, and a folder for what each log brings."""
