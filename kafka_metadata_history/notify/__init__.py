"""Messages: incidents of a lake reach whoever has to act. The lake is read, and never written."""
