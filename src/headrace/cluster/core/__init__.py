"""Pure parts of the cluster picture: image, changes, delta, placement."""
