"""The controller: the one writer of cluster state.

Read core/ first (what is decided: partition_states, elections, reassignments, deletions, topics), then ledger (how
decisions become stored changes), leadership (who decides), controller (the operations), gateway (the way there from
any broker)."""
