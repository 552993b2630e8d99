"""The command `kafka-metadata-history`: everything that a person does with a lake of Kafka's
history.
"""
