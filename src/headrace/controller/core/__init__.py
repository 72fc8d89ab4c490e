"""The controller's decisions: facts in, changes out. No clock, no chance, no I/O."""
