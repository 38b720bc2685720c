/* A disk whose syncs take a millisecond longer, for programs that run with it preloaded: see README.md. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

static void wait_a_millisecond(void) {
    struct timespec millisecond = {0, 1000000};
    nanosleep(&millisecond, 0);
}

int fsync(int fd) {
    static int (*sync)(int);
    if (!sync) sync = dlsym(RTLD_NEXT, "fsync");
    wait_a_millisecond();
    return sync(fd);
}

int fdatasync(int fd) {
    static int (*sync)(int);
    if (!sync) sync = dlsym(RTLD_NEXT, "fdatasync");
    wait_a_millisecond();
    return sync(fd);
}
