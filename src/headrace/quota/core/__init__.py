"""Pure arithmetic of quotas."""
