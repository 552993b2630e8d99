"""Hundreds of clusters in one stream, some of them sick."""
