/* A server of streamed completions with an exact pace: token i of an answer leaves at the request's arrival
 * + TTFT + i / PACE, whatever happened before. The model of a request says both: "plain@PACE@TTFT" (tokens a
 * second, seconds). One thread, one heap of deadlines, no time spent on anything else: where it shares two cores
 * with the generator that is measured, it is the generator's limit that shows and not its own.
 *
 * Prints "port N" when it listens on the loopback; stays on a connection unless the request says close.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define INBOX 65536
#define MOST 65536

struct client {
    int fd, place;  /* place in the heap; -1: no deadline */
    double began, due, pace, ttft;
    int given, tokens, stays;
    size_t have;
    char in[INBOX];
};

static const char HEAD[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
static struct client *heap[MOST];
static int waiting;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void put(int place, struct client *one) {
    heap[place] = one;
    one->place = place;
}

static void sift(int place, struct client *one) {
    for (int over; place && heap[over = (place - 1) / 2]->due > one->due; place = over)
        put(place, heap[over]);
    for (int under; (under = 2 * place + 1) < waiting; place = under) {
        if (under + 1 < waiting && heap[under + 1]->due < heap[under]->due)
            under++;
        if (heap[under]->due >= one->due)
            break;
        put(place, heap[under]);
    }
    put(place, one);
}

static void forget(struct client *one) {
    int place = one->place;
    if (place < 0)
        return;
    one->place = -1;
    struct client *last = heap[--waiting];
    if (last != one)
        sift(place, last);
}

static void hang_up(struct client *one) {
    forget(one);
    close(one->fd);
    free(one);
}

static int piece(char *out, const char *json) {
    return sprintf(out, "%zx\r\ndata: %s\n\n\r\n", strlen(json) + 8, json);
}

static void tell(struct client *one, const char *data, size_t size) {
    if (write(one->fd, data, size) < 0 && errno != EAGAIN)
        shutdown(one->fd, SHUT_RDWR);
}

/* The next token, and with the last one all that ends an answer. */
static void give(struct client *one) {
    char out[1024];
    int size = piece(out, "{\"id\": \"cmpl-1\", \"object\": \"text_completion\", \"model\": \"m\", \"choices\": "
                          "[{\"index\": 0, \"text\": \" word\", \"logprobs\": null, \"finish_reason\": null}]}");
    if (++one->given < one->tokens) {
        one->due = one->began + one->ttft + one->given / one->pace;
        sift(one->place, one);
        tell(one, out, (size_t)size);
        return;
    }
    char usage[256];
    sprintf(usage, "{\"id\": \"cmpl-1\", \"choices\": [], \"usage\": {\"prompt_tokens\": 9, "
                   "\"completion_tokens\": %d, \"total_tokens\": %d}}", one->tokens, one->tokens + 9);
    size += piece(out + size, usage);
    size += piece(out + size, "[DONE]");
    size += sprintf(out + size, "0\r\n\r\n");
    forget(one);
    tell(one, out, (size_t)size);
    if (!one->stays)
        shutdown(one->fd, SHUT_WR);
}

static double number(const char *text, const char *name, double other) {
    const char *at = strcasestr(text, name);
    return at ? strtod(at + strlen(name) + strspn(at + strlen(name), "\": "), NULL) : other;
}

static void plain(struct client *one, const char *body) {
    char out[512];
    int size = sprintf(out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                       strlen(body), body);
    tell(one, out, (size_t)size);
}

/* Whole requests of what has come; 0: there is none. */
static int answer(struct client *one, double arrived) {
    one->in[one->have] = 0;
    char *end = memmem(one->in, one->have, "\r\n\r\n", 4);
    if (!end)
        return 0;
    *end = 0;
    size_t whole = (size_t)(end + 4 - one->in) + (size_t)number(one->in, "content-length:", 0);
    int close_it = strcasestr(one->in, "connection: close") != NULL, post = one->in[0] == 'P';
    if (one->have < whole) {
        *end = '\r';
        return 0;
    }
    const char *body = end + 4, *model = strstr(body, "plain@");
    one->stays = !close_it;
    if (post && model) {
        char *after;
        one->pace = strtod(model + 6, &after);
        one->ttft = strtod(after + 1, NULL);
        one->tokens = (int)number(body, "\"max_tokens\"", number(body, "\"max_completion_tokens\"", 2));
        one->given = 0, one->began = arrived, one->due = arrived + one->ttft;
        tell(one, HEAD, sizeof HEAD - 1);
        sift(waiting++, one);
    } else
        plain(one, post ? "{}" : "{\"object\": \"list\", \"data\": [{\"id\": \"plain\", \"object\": \"model\"}]}");
    one->have -= whole;
    memmove(one->in, one->in + whole, one->have);
    return 1;
}

static void take_in(struct client *one, double arrived) {
    ssize_t size = read(one->fd, one->in + one->have, INBOX - 1 - one->have);
    if (size <= 0 && !(size < 0 && errno == EAGAIN)) {
        hang_up(one);
        return;
    }
    one->have += size > 0 ? (size_t)size : 0;
    while (one->place < 0 && answer(one, arrived))
        ;
}

static void let_in(int poll, int listener) {
    int fd, yes = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        struct client *one = calloc(1, sizeof *one);
        one->fd = fd, one->place = -1;
        struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = one};
        epoll_ctl(poll, EPOLL_CTL_ADD, fd, &wanted);
    }
}

static void set(int timer, double left) {
    struct itimerspec at = {0};
    left = left > 1e-9 ? left : 1e-9;
    at.it_value.tv_sec = (time_t)left;
    at.it_value.tv_nsec = (long)(1e9 * (left - (double)at.it_value.tv_sec)) + 1;
    timerfd_settime(timer, 0, &at, NULL);
}

int main(void) {
    struct rlimit most;
    getrlimit(RLIMIT_NOFILE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof place;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(listener, (struct sockaddr *)&place, size) || listen(listener, 4096))
        return 1;
    getsockname(listener, (struct sockaddr *)&place, &size);
    int poll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event door = {.events = EPOLLIN, .data.ptr = &listener}, clock = {EPOLLIN, {.ptr = &timer}};
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &door);
    epoll_ctl(poll, EPOLL_CTL_ADD, timer, &clock);
    printf("port %d\n", ntohs(place.sin_port));
    fflush(stdout);
    for (double set_to = 0;;) {
        if (waiting && heap[0]->due != set_to)
            set(timer, (set_to = heap[0]->due) - now());
        struct epoll_event found[256];
        int count = epoll_wait(poll, found, 256, -1);
        double arrived = now();
        for (int i = 0; i < count; i++) {
            if (found[i].data.ptr == &listener)
                let_in(poll, listener);
            else if (found[i].data.ptr == &timer) {
                unsigned long long ignored;
                (void)!read(timer, &ignored, sizeof ignored);
            } else
                take_in(found[i].data.ptr, arrived);
        }
        while (waiting && heap[0]->due <= now())
            give(heap[0]);
        if (waiting && heap[0]->due == set_to)
            set_to = 0;
    }
}
