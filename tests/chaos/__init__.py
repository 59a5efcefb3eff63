"""Real processes, real faults, and a judge that believes only what it saw."""
