"""The start of a process: folder, environment, sandbox, limits, and the files of its reports."""
