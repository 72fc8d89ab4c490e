/* Library that a broker preloads. It counts the calls that change files below the directory KILL_SHIM_BELOW, and kills
   the process at one of them. The file named by KILL_SHIM has the numbers below, and then the text of the last call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define SIZE 4096

struct shared {
    int64_t made;    /* calls so far */
    int64_t kill_at; /* the number of the call that is not made; negative: none */
    int64_t halves;  /* 1: half of the bytes of a write are written first */
    char last[SIZE - 24];
};

static struct shared *shared;
static const char *below;
static size_t below_length;

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("KILL_SHIM");
    below = getenv("KILL_SHIM_BELOW");
    int file = path && below ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    below_length = strlen(below);
    void *found = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) shared = found;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Whether the process shall die at this call. */
static int counted(const char *call, const char *path) {
    if (!shared || strncmp(path, below, below_length) != 0) return 0;
    int64_t number = __atomic_fetch_add(&shared->made, 1, __ATOMIC_SEQ_CST);
    if (number != shared->kill_at) return 0;
    snprintf(shared->last, sizeof shared->last, "%s %s", call, path + below_length);
    return 1;
}

static void at_path(const char *call, const char *path) {
    if (shared && counted(call, path)) die();
}

static int is_at_file(const char *call, int file) {
    if (!shared) return 0;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return counted(call, path);
}

static void at_file(const char *call, int file) {
    if (is_at_file(call, file)) die();
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        if (flags & (O_CREAT | O_TRUNC)) at_path("open", path); \
        return real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int place, const char *path, int flags, ...) { \
        REAL(name); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        if (flags & (O_CREAT | O_TRUNC)) at_path("open", path); \
        return real(place, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

#define OF_PATH(name, kind, arguments, values) \
    kind name arguments { \
        REAL(name); \
        at_path(#name, path); \
        return real values; \
    }
OF_PATH(unlink, int, (const char *path), (path))
OF_PATH(rmdir, int, (const char *path), (path))
OF_PATH(mkdir, int, (const char *path, mode_t mode), (path, mode))
OF_PATH(rename, int, (const char *path, const char *to), (path, to))
OF_PATH(link, int, (const char *path, const char *to), (path, to))
OF_PATH(truncate, int, (const char *path, off_t size), (path, size))
OF_PATH(truncate64, int, (const char *path, off64_t size), (path, size))

/* The path may be relative to an open directory: as when a tree is removed. */
int unlinkat(int place, const char *path, int flags) {
    REAL(unlinkat);
    if (path[0] == '/') at_path("unlinkat", path);
    else at_file("unlinkat", place);
    return real(place, path, flags);
}

#define OF_FILE(name, kind, arguments, values) \
    kind name arguments { \
        REAL(name); \
        at_file(#name, file); \
        return real values; \
    }
OF_FILE(fsync, int, (int file), (file))
OF_FILE(fdatasync, int, (int file), (file))
OF_FILE(ftruncate, int, (int file, off_t size), (file, size))
OF_FILE(ftruncate64, int, (int file, off64_t size), (file, size))
OF_FILE(sendfile, ssize_t, (int file, int from, off_t *at, size_t size), (file, from, at, size))
OF_FILE(sendfile64, ssize_t, (int file, int from, off64_t *at, size_t size), (file, from, at, size))
OF_FILE(pwritev, ssize_t, (int file, const struct iovec *parts, int count, off_t at), (file, parts, count, at))
OF_FILE(pwritev64, ssize_t, (int file, const struct iovec *parts, int count, off64_t at), (file, parts, count, at))
OF_FILE(writev, ssize_t, (int file, const struct iovec *parts, int count), (file, parts, count))

ssize_t copy_file_range(int from, off64_t *at, int file, off64_t *to, size_t size, unsigned flags) {
    REAL(copy_file_range);
    at_file("copy_file_range", file);
    return real(from, at, file, to, size, flags);
}

#define WRITE(name, arguments, half, values) \
    ssize_t name arguments { \
        REAL(name); \
        if (is_at_file(#name, file)) { \
            if (shared->halves) real half; \
            die(); \
        } \
        return real values; \
    }
WRITE(write, (int file, const void *data, size_t size), (file, data, size / 2), (file, data, size))
WRITE(pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size / 2, at), (file, data, size, at))
WRITE(pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size / 2, at),
      (file, data, size, at))
