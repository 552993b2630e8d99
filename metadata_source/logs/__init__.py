"""Logs that Kafka keeps of itself, followed by offset: one frame, and a folder for what each log
brings.
"""
