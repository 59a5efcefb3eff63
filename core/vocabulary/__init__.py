"""Commands, changes, effects and decisions, their stored form, and the configuration of a shard."""
