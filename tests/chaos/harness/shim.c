/*
 * Faults of a host's wall clock and of its disk's syncs: preloaded into every process of a node
 * (LD_PRELOAD), because hosts of a chaos run share one kernel, whose wall clock cannot be set for one of
 * them and whose disk does not fail on demand.
 *
 * The orders are in a file that LD_CHAOS_ORDERS names; it is mapped, so a change applies at once to all
 * of them. shim.py writes it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000LL /* in microseconds, as all orders */

struct orders {
    int64_t ahead_us;      /* wall clock minus true time */
    int64_t sync_takes_us; /* delay of each sync */
    int64_t sync_fails;    /* not 0: syncs fail with EIO */
};

static const struct orders nothing;
static const volatile struct orders *orders = &nothing;

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);

/* Others may ask for the time before our turn to begin has come. */
#define FIND(name) ((void)(real_##name || (*(void **)&real_##name = dlsym(RTLD_NEXT, #name))))

__attribute__((constructor)) static void begin(void) {
    FIND(clock_gettime), FIND(fsync), FIND(fdatasync);
    const char *path = getenv("LD_CHAOS_ORDERS");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof nothing, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        orders = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    FIND(clock_gettime);
    int status = real_clock_gettime(clock, at);
    int64_t ahead_us = orders->ahead_us;
    if (status == 0 && ahead_us && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t us = at->tv_sec * SECOND + at->tv_nsec / 1000 + ahead_us;
        at->tv_nsec = us % SECOND * 1000 + at->tv_nsec % 1000;
        at->tv_sec = us / SECOND;
    }
    return status;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    return at ? *at = now.tv_sec : now.tv_sec;
}

static int spoiled(int (*sync)(int), int file) {
    int64_t takes_us = orders->sync_takes_us;
    if (takes_us)
        usleep(takes_us);
    if (orders->sync_fails) {
        errno = EIO;
        return -1;
    }
    return sync(file);
}

int fsync(int file) {
    FIND(fsync);
    return spoiled(real_fsync, file);
}

int fdatasync(int file) {
    FIND(fdatasync);
    return spoiled(real_fdatasync, file);
}
