"""Commands about jobs, their fire times and executions."""
