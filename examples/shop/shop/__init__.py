"""A small shop: orders are paid, and each customer is notified."""
