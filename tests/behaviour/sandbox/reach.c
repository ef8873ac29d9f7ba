/* Tries to reach what a sandbox should withhold, and prints what each attempt came to. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static void say(const char *what, long result)
{
    const char *came_to = result >= 0 ? "ok" : errno == EACCES ? "EACCES" : errno == EPERM ? "EPERM" : strerror(errno);
    printf("%s: %s\n", what, came_to);
}

static void internet(int type, const char *port)
{
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, type, 0);
    say("socket", fd);
    if (fd >= 0 && type == SOCK_STREAM)
        say("connect", connect(fd, (struct sockaddr *)&there, sizeof there));
    if (fd >= 0 && type == SOCK_DGRAM)
        say("send", sendto(fd, "hello", 5, 0, (struct sockaddr *)&there, sizeof there));
}

static void local(const char *path)
{
    struct sockaddr_un there = {.sun_family = AF_UNIX};
    strncpy(there.sun_path, path, sizeof there.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    say("socket", fd);
    if (fd >= 0)
        say("connect", connect(fd, (struct sockaddr *)&there, sizeof there));
}

static void every_kind(void)
{
    int ends[2];
    char params[120] = {0};
    say("tcp", socket(AF_INET, SOCK_STREAM, 0));
    say("udp", socket(AF_INET, SOCK_DGRAM, 0));
    say("tcp6", socket(AF_INET6, SOCK_STREAM, 0));
    say("udp6", socket(AF_INET6, SOCK_DGRAM, 0));
    say("raw", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
    say("packet", socket(AF_PACKET, SOCK_RAW, 0));
    say("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
    say("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
    say("unix", socket(AF_UNIX, SOCK_STREAM, 0));
    say("no family", socket(-1, SOCK_STREAM, 0));
    say("high bits", syscall(SYS_socket, 0x100000002L, (long)SOCK_DGRAM, 0L));
    say("pair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    say("tipc pair", socketpair(AF_TIPC, SOCK_STREAM, 0, ends));
    say("io_uring", syscall(425, 4, params));
}

#ifdef __x86_64__
static long narrow(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(first), "c"(second), "d"(third) : "memory", "r8", "r9", "r10", "r11");
    if (result < 0 && result > -4096) {
        errno = -result;
        return -1;
    }
    return result;
}

/* The calls of 32-bit programs, and those of x32, made from a 64-bit one. */
static void other_calls(void)
{
    unsigned *below = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    unsigned arguments[] = {AF_INET, SOCK_DGRAM, 0};
    memcpy(below, arguments, sizeof arguments);
    say("x32 socket", syscall(0x40000000 + SYS_socket, AF_INET, SOCK_DGRAM, 0));
    fflush(stdout);
    say("i386 getpid", narrow(20, 0, 0, 0));
    say("i386 socket", narrow(359, AF_INET, SOCK_DGRAM, 0));
    say("i386 socketcall", narrow(102, 1, (long)below, 0));
}
#else
static void other_calls(void) {}
#endif

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *with = argc > 2 ? argv[2] : "";
    if (!strcmp(what, "tcp"))
        internet(SOCK_STREAM, with);
    else if (!strcmp(what, "udp"))
        internet(SOCK_DGRAM, with);
    else if (!strcmp(what, "unix"))
        local(with);
    else if (!strcmp(what, "every-kind"))
        every_kind();
    else if (!strcmp(what, "other-calls"))
        other_calls();
    else if (!strcmp(what, "trace"))
        say("attach", ptrace(PTRACE_ATTACH, atoi(with), NULL, NULL));
    else if (!strcmp(what, "truncate"))
        say("truncate", truncate(with, 0));
    else
        return 2;
    return 0;
}
