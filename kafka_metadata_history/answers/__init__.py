"""Questions to a lake in SQL, how recording fares, and both as text. Without in_spark no JVM."""
