# Run a program as the unit's settings would have it run, as far as that can be had without systemd:
# private /dev, ProtectProc, ProtectHome, a read-only system, no capabilities, another user.
#
#     unshare --mount --propagation private sh unit_surroundings.sh DEV WRITABLE PROGRAM...
#
# DEV: an empty folder. WRITABLE: the only folder besides /tmp and /var/tmp that can be written to.
set -e
dev=$1
writable=$2
shift 2
mount -t tmpfs -o mode=755,nosuid none "$dev"
for name in null zero full random urandom tty; do
    touch "$dev/$name"
    mount --bind "/dev/$name" "$dev/$name"
done
mkdir "$dev/shm" "$dev/pts"
mount --bind /dev/shm "$dev/shm"
mount --bind /dev/pts "$dev/pts"
ln -s pts/ptmx "$dev/ptmx"
ln -s /proc/self/fd "$dev/fd"
mount --rbind "$dev" /dev
for path in /tmp /var/tmp "$writable"; do mount --bind "$path" "$path"; done
mount -t proc -o nosuid,nodev,noexec,hidepid=invisible proc /proc
for path in /home /root; do mount -t tmpfs -o mode=000,size=4k none "$path"; done
mount -o remount,bind,ro /
exec setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --bounding-set=-all \
    --inh-caps=-all "$@"
