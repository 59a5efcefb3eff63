"""Bodies of requests: JSON into documents, and jobs into records of the core, with all errors."""
