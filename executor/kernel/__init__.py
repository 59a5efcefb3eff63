"""Linux interfaces: control groups, signals, ``/proc``, prctl, and the processes of an attempt.

Reading order: `process_trees` (what holds an attempt's processes together), `cgroups` and `limits`
(resource limits), `subreaper` and `orphans` (processes that left their parent), then the small
interfaces `procfs`, `pidfd_signals`, `prctl`, `fd_watch`, `env_marker`, `seclusion`. Imports no
other package of `rota.executor`.
"""
