/* A disk with one head, for programs that are started with this library in LD_PRELOAD.

   Files below DISK_ROOT behave as on a disk whose page cache was cold at the start: the first touch
   of each 128 KiB block costs its transfer at DISK_RATE bytes/s, and DISK_SEEK seconds before it
   unless the head stands there already; a block that was read once is in memory from then on, for
   all processes. With DISK_INODES=1 the first open of a file costs a seek more, for its inode.
   There is one head for all processes and threads: requests are served one after the other, in the
   order in which they come. State lies in the file DISK_STATE. Covered: open*, read, pread*,
   preadv*. Not covered: mmap, stat, listing folders. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 128 << 10, SLOTS = 1 << 21, FILES = 1 << 16 };
#define INODE_BLOCK 0xffffffu

struct Disk {
  pthread_mutex_t lock;
  double free_at;
  uint64_t head;
  uint64_t seeks, bytes;
  uint64_t cached[SLOTS];
};

static struct Disk* disk;
static const char* root;
static double seek_seconds, bytes_per_second;
static int counts_inodes;
static unsigned char ours[FILES];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

__attribute__((constructor)) static void start(void) {
  const char* path = getenv("DISK_STATE");
  root = getenv("DISK_ROOT");
  if (!path || !root) return;
  seek_seconds = atof(getenv("DISK_SEEK"));
  bytes_per_second = atof(getenv("DISK_RATE"));
  counts_inodes = getenv("DISK_INODES") && atoi(getenv("DISK_INODES"));
  int (*real_open)(const char*, int, ...) = dlsym(RTLD_NEXT, "open");
  int fd = real_open(path, O_RDWR | O_CREAT, 0600);
  struct stat about;
  fstat(fd, &about);
  int first = about.st_size == 0;
  if (first && ftruncate(fd, sizeof(struct Disk))) abort();
  disk = mmap(NULL, sizeof(struct Disk), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (!first) return;
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&disk->lock, &kind);
}

/* Whether the block was not in memory; it is then. */
static int touch(uint64_t key) {
  uint64_t slot = key * 0x9e3779b97f4a7c15u >> 43;
  while (disk->cached[slot] && disk->cached[slot] != key) slot = (slot + 1) % SLOTS;
  if (disk->cached[slot]) return 0;
  disk->cached[slot] = key;
  return 1;
}

static uint64_t name_block(ino_t inode, uint64_t block) {
  return ((uint64_t)inode << 24 | block) + 1;
}

static double cost_of(uint64_t key, uint64_t size) {
  if (!touch(key)) return 0;
  int seeks = key != disk->head + 1;
  disk->head = key;
  disk->seeks += seeks;
  disk->bytes += size;
  return seeks * seek_seconds + size / bytes_per_second;
}

static void wait_until(double time) {
  struct timespec t = {(time_t)time, (long)((time - (time_t)time) * 1e9)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL)) {
  }
}

/* Reads bytes `offset` to `offset + size` - 1, or the inode if `size` is 0. */
static void work(int fd, uint64_t offset, uint64_t size) {
  struct stat about;
  if (!disk || fd < 0 || fd >= FILES || !ours[fd] || fstat(fd, &about)) return;
  uint64_t end = offset + size, length = about.st_size;
  if (end > length) end = length;
  double cost = 0;
  pthread_mutex_lock(&disk->lock);
  if (!size) cost = cost_of(name_block(about.st_ino, INODE_BLOCK), 4096);
  for (uint64_t block = offset / BLOCK; size && block * BLOCK < end; ++block) {
    uint64_t rest = length - block * BLOCK;
    cost += cost_of(name_block(about.st_ino, block), rest < BLOCK ? rest : BLOCK);
  }
  double begin = now();
  if (disk->free_at > begin) begin = disk->free_at;
  double done = disk->free_at = cost > 0 ? begin + cost : disk->free_at;
  pthread_mutex_unlock(&disk->lock);
  if (cost > 0) wait_until(done);
}

static int opened(int fd, const char* path) {
  if (!disk || fd < 0 || fd >= FILES) return fd;
  ours[fd] = !strncmp(path, root, strlen(root));
  if (ours[fd] && counts_inodes) work(fd, 0, 0);
  return fd;
}

#define REAL(name) (real ? real : (real = dlsym(RTLD_NEXT, name)))
#define MODE(flags)                                                 \
  va_list rest;                                                     \
  va_start(rest, flags);                                            \
  int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0; \
  va_end(rest)

#define OPEN(name)                                       \
  int name(const char* path, int flags, ...) {           \
    static int (*real)(const char*, int, ...);           \
    MODE(flags);                                         \
    return opened(REAL(#name)(path, flags, mode), path); \
  }
#define OPENAT(name)                                             \
  int name(int folder, const char* path, int flags, ...) {       \
    static int (*real)(int, const char*, int, ...);              \
    MODE(flags);                                                 \
    return opened(REAL(#name)(folder, path, flags, mode), path); \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

ssize_t read(int fd, void* to, size_t size) {
  static ssize_t (*real)(int, void*, size_t);
  if (fd >= 0 && fd < FILES && ours[fd] && size) work(fd, lseek(fd, 0, SEEK_CUR), size);
  return REAL("read")(fd, to, size);
}

#define PREAD(name)                                           \
  ssize_t name(int fd, void* to, size_t size, off_t offset) { \
    static ssize_t (*real)(int, void*, size_t, off_t);        \
    if (size) work(fd, offset, size);                         \
    return REAL(#name)(fd, to, size, offset);                 \
  }
PREAD(pread)
PREAD(pread64)

static size_t count_bytes(const struct iovec* to, int count) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += to[i].iov_len;
  return size;
}

#define PREADV(name)                                                      \
  ssize_t name(int fd, const struct iovec* to, int count, off_t offset) { \
    static ssize_t (*real)(int, const struct iovec*, int, off_t);         \
    if (count_bytes(to, count)) work(fd, offset, count_bytes(to, count)); \
    return REAL(#name)(fd, to, count, offset);                            \
  }
PREADV(preadv)
PREADV(preadv64)

#define PREADV2(name)                                                                \
  ssize_t name(int fd, const struct iovec* to, int count, off_t offset, int flags) { \
    static ssize_t (*real)(int, const struct iovec*, int, off_t, int);               \
    if (flags & RWF_NOWAIT) return errno = EAGAIN, -1; /* "not in memory" */         \
    if (count_bytes(to, count)) work(fd, offset, count_bytes(to, count));            \
    return REAL(#name)(fd, to, count, offset, flags);                                \
  }
PREADV2(preadv2)
PREADV2(preadv64v2)
