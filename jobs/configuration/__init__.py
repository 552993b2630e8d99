"""The file that users write."""
