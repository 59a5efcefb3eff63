"""The shards of a node: loop of turns and commits, timers, dry runs, comparison of copies."""
