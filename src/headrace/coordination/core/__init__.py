"""Pure parts of coordination: the node tree."""
