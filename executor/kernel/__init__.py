"""Linux interfaces: control groups, signals, ``/proc``, prctl, and the processes of an attempt.

Reading order: `process_trees` (identification of an attempt's processes), `cgroups` and `limits`
(resource limits), `subreaper` and `orphans` (processes that lost their parent), then the small
interfaces `procfs`, `pidfd_signals`, `prctl`, `fd_watch`, `env_marker`, `seclusion`. Imports no
other package of `rota.executor`.
"""
