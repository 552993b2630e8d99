"""Questions that a lake is asked in SQL, how recording fares, and both as text. Nothing here needs
a JVM.
"""
