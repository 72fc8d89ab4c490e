"""Listeners and connections: frames in, replies out in request order, sendfile. Knows frames, not APIs."""
