"""Reproducible benchmarks of rota: ``make bench``.

    scenarios/   the measurements, one small function each
    runner       starts a fresh cluster for each scenario, and records its costs
    fleet        that cluster: real nodes on real disks, and a real etcd
    report       output: figures, plots, machine, durability
    skeleton, smoke   rota and a bare replicated journal in one run: ratios, no absolute times
    peers/       the same scenarios on other schedulers, interleaved with rota
    parts/       parts of a node alone: executors, replication, ring, HTTP, etcd

Three rules make the figures meaningful. Where latency is measured, the load is open: a request is
sent when it is due, whether or not earlier requests have been answered, and its latency counts from
then. Percentiles are exact, from all samples. Only figures of the same run are compared.
"""
