"""Client quotas: rates measured, throttle times computed."""
