"""Judges a run from outside: by what clients, tasks, etcd and disks have written down.

Nothing in here imports rota, so that no mistake of rota can hide itself.
"""
