"""Jobs on virtual time: the decisions of a shard, with attempts that end after given durations."""
