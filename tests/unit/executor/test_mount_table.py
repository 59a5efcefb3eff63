"""Mounts that a bind makes, and those that a namespace has."""

from rota.executor.kernel.mount_table import Mount, as_bound, mounted_at

ROOT = Mount(27, 1, "254:0", "/", "/", "ext4")
DATA = Mount(30, 27, "254:1", "/export", "/data", "ext4")
BELOW = Mount(31, 30, "0:40", "/", "/data/a/tmp", "tmpfs")
MOUNTS = (ROOT, DATA, BELOW)


def test_a_bind_of_a_folder_has_its_root_on_the_device_and_the_mounts_below_it() -> None:
    assert as_bound("/data/a", DATA, MOUNTS, "/x") == {
        Mount(0, 0, "254:1", "/export/a", "/x", "ext4"),
        Mount(0, 0, "0:40", "/", "/x/tmp", "tmpfs"),
    }
    assert as_bound("/etc", ROOT, MOUNTS, "/x") == {Mount(0, 0, "254:0", "/etc", "/x", "ext4")}
    assert as_bound("/data", DATA, (ROOT, DATA), "/x") == {
        Mount(0, 0, "254:1", "/export", "/x", "ext4")
    }


def test_mounts_that_the_last_one_at_a_path_covers_do_not_count() -> None:
    covered = Mount(40, 27, "0:50", "/", "/data/old", "tmpfs")
    last = Mount(41, 27, "254:0", "/srv", "/data", "ext4")
    on_it = Mount(42, 41, "0:51", "/", "/data/new", "tmpfs")

    found = mounted_at("/data", (*MOUNTS, covered, last, on_it))

    assert found == {each._replace(number=0, parent=0) for each in (last, on_it)}
    assert mounted_at("/absent", MOUNTS) == set()
