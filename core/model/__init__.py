"""Jobs, executions, tasks and attempts: records, their states and the rules of one record alone."""
