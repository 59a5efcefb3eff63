"""The start of a process: its folder, environment, sandbox, limits, and the files of its reports.

Reading order: `spawn` (process and environment), `private_folders`, `task_channel` (progress,
checkpoint and result as files), `confinement` (sandbox and limits together), `sandbox`, `binds`,
`egress`. Imports `kernel`; `process`, `python` and `container` import it.
"""
