"""Commands about files of jobs and documents as a whole."""
