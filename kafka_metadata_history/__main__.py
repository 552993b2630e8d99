"""``python -m kafka_metadata_history``."""

from kafka_metadata_history.command import main

if __name__ == "__main__":
    main()
