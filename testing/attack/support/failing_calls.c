// Preloaded into a server: lets the n-th call of a kind on a kind of file fail. Set by the environment:
//   FAIL_CALL   pwrite, pread, sync, truncate, rename or unlink
//   FAIL_PATH   text that the file's path contains
//   FAIL_AT     number of the first call that fails, from 1, counted from when FAIL_ARMED exists
//   FAIL_COUNT  how many fail; -1: all from then on
//   FAIL_ERRNO  the error
//   FAIL_SHORT  a failing pwrite writes half of its bytes first
//   FAIL_UNMAPPED  such files cannot be mapped into memory, so that what is written to them takes pwrite
//   FAIL_ARMED  a file; FAIL_DONE: a file that is made at the first failure
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long matching;

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static int fails(const char *call, const char *path) {
    const char *chosen = getenv("FAIL_CALL"), *part = getenv("FAIL_PATH"), *armed = getenv("FAIL_ARMED"), *done = getenv("FAIL_DONE");
    if (!chosen || strcmp(chosen, call) || !part || !strstr(path, part) || !armed || access(armed, F_OK)) return 0;
    long at = number("FAIL_AT", 1), count = number("FAIL_COUNT", 1), n = atomic_fetch_add(&matching, 1) + 1;
    if (n < at || (count >= 0 && n >= at + count)) return 0;
    if (done) {
        int made = open(done, O_CREAT | O_WRONLY, 0600);
        if (made >= 0) close(made);
    }
    errno = (int)number("FAIL_ERRNO", EIO);
    return 1;
}

static int fails_on(const char *call, int descriptor) {
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return fails(call, path);
}

#define NEXT(result, name, ...)                                   \
    static result (*next)(__VA_ARGS__);                           \
    if (!next) next = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define PWRITE(name)                                                              \
    ssize_t name(int fd, const void *bytes, size_t count, off_t offset) {         \
        NEXT(ssize_t, name, int, const void *, size_t, off_t);                    \
        if (!fails_on("pwrite", fd)) return next(fd, bytes, count, offset);       \
        int error = errno;                                                        \
        if (getenv("FAIL_SHORT") && count > 1) next(fd, bytes, count / 2, offset); \
        errno = error;                                                            \
        return -1;                                                                \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

#define PREAD(name)                                                         \
    ssize_t name(int fd, void *bytes, size_t count, off_t offset) {         \
        NEXT(ssize_t, name, int, void *, size_t, off_t);                    \
        return fails_on("pread", fd) ? -1 : next(fd, bytes, count, offset); \
    }
PREAD(pread)
PREAD(pread64)

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    NEXT(ssize_t, pwritev, int, const struct iovec *, int, off_t);
    return fails_on("pwrite", fd) ? -1 : next(fd, parts, count, offset);
}

// Without `dlsym`, which may map memory itself.
static void *map(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    char link[64], path[512];
    const char *part = getenv("FAIL_PATH");
    if (fd >= 0 && part && getenv("FAIL_UNMAPPED")) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t count = readlink(link, path, sizeof path - 1);
        path[count < 0 ? 0 : count] = 0;
        if (strstr(path, part)) {
            errno = ENOMEM;
            return MAP_FAILED;
        }
    }
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return map(address, length, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return map(address, length, protection, flags, fd, offset);
}

#define SYNC(name)                                         \
    int name(int fd) {                                     \
        NEXT(int, name, int);                              \
        return fails_on("sync", fd) ? -1 : next(fd);       \
    }
SYNC(fsync)
SYNC(fdatasync)

#define TRUNCATE(name)                                               \
    int name(int fd, off_t length) {                                 \
        NEXT(int, name, int, off_t);                                 \
        return fails_on("truncate", fd) ? -1 : next(fd, length);     \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

int rename(const char *from, const char *to) {
    NEXT(int, rename, const char *, const char *);
    return fails("rename", from) ? -1 : next(from, to);
}

int unlink(const char *path) {
    NEXT(int, unlink, const char *);
    return fails("unlink", path) ? -1 : next(path);
}
