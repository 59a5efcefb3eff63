"""Reproducible benchmarks of rota: ``make bench``.

    scenarios/   the measurements, one small function each
    runner       starts a fresh cluster for each scenario, and records its costs
    fleet        that cluster: real nodes on real disks, and a real etcd
    report       output: figures, plots, machine, durability
    skeleton, smoke   a bare journal and link beside rota in one run: no absolute times
    peers/       the same scenarios on other schedulers, interleaved with rota
    parts/       parts of a node alone: executors, replication, ring, HTTP, etcd

Three rules make figures worth something. Load is open: requests are sent when they are due, whether
or not those before have been answered, and latency counts from then. Percentiles are exact, from
all samples. And nothing is compared that was not measured in one run.
"""
