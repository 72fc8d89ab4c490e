"""The cluster as one immutable picture: core.image (what it is), core.changes (how it moves), core.delta (what moved),
core.placement (where replicas go); then codecs (as bytes), loading and follower (from the store), view (for
everyone)."""
