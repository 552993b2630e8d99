"""What agents ask a lake, over the Model Context Protocol (MCP)."""
