"""Steps of executions: attempts, loops and waits, each a kind with a module and a row."""
