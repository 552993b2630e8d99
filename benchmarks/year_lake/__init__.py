"""A lake of a year as jobs would leave it, made without Kafka or Spark, to be asked."""
