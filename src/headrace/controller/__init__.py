"""The only writer of cluster state: `core/` decides (pure), the shell reads and writes the coordination store."""
