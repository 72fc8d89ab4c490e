"""Pure parts of share groups: queues, their durable state, sessions."""
