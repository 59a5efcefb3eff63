"""Linux interfaces: control groups, signals, ``/proc``, prctl, and the processes of an attempt."""
