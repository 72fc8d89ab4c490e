"""One broker process: `wiring` puts the parts together, `lifecycle` starts and stops them."""
