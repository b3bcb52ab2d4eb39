#include "send_limit.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { entries_max = 100, devices = 1000, wait_ms = 2000, output_max = 1 << 17 };

/* What the three threads share. */
struct run {
    const struct send_limit_order *order;
    struct send_limit_result *result;
    pthread_mutex_t lock;
    /* The first problem of any thread; the others stop when there is one. */
    char problem[200];
    atomic_int failed;
};

struct provider {
    int socket;
    SSL_CTX *context;
    SSL *tls;
    nghttp2_session *session;
    unsigned char output[output_max];
    size_t length;
    unsigned answered;
};

static const char body[] = "{\"aps\":{\"alert\":{\"title\":\"Your code\",\"body\":\"A short message of about one hundred bytes, which somebody waits "
                           "for: 123456.\"},\"sound\":\"default\"},\"id\":\"0123456789abcdef\"}";

static void fail(struct run *run, const char *step, const char *detail) {
    pthread_mutex_lock(&run->lock);
    if (!atomic_exchange(&run->failed, 1)) snprintf(run->problem, sizeof run->problem, "%s: %s", step, detail);
    pthread_mutex_unlock(&run->lock);
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Redis */

static redisContext *connect_redis(struct run *run) {
    redisContext *redis = redisConnectUnix(run->order->redis_socket);
    if (redis != NULL && redis->err == 0) return redis;
    fail(run, "Redis", redis == NULL ? "no memory" : redis->errstr);
    if (redis != NULL) redisFree(redis);
    return NULL;
}

/* Takes that many replies of commands that were appended; each must be no error. */
static int take(struct run *run, redisContext *redis, unsigned count) {
    for (unsigned index = 0; index < count; index++) {
        redisReply *reply = NULL;
        int is_good = redisGetReply(redis, (void **)&reply) == REDIS_OK && reply->type != REDIS_REPLY_ERROR;
        if (!is_good) fail(run, "Redis", reply != NULL ? reply->str : redis->errstr);
        if (reply != NULL) freeReplyObject(reply);
        if (!is_good) return 0;
    }
    return 1;
}

/* Reads the new entries of a stream, and keeps their ids. Returns their number, 0 when none has come in time. */
static unsigned read_entries(struct run *run, redisContext *redis, const char *stream, char ids[][32]) {
    redisReply *reply =
        redisCommand(redis, "XREADGROUP GROUP limit one COUNT %d BLOCK %d STREAMS %s >", entries_max, wait_ms, stream);
    unsigned count = 0;
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        fail(run, "XREADGROUP", reply == NULL ? redis->errstr : reply->str);
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 1) {
        redisReply *entries = reply->element[0]->element[1];
        for (; count < entries->elements && count < entries_max; count++)
            snprintf(ids[count], sizeof ids[count], "%s", entries->element[count]->element[0]->str);
    }
    if (reply != NULL) freeReplyObject(reply);
    return count;
}

static int prepare(struct run *run) {
    redisContext *redis = connect_redis(run);
    if (redis == NULL) return 0;
    static const char *const streams[] = {"{limit}in", "{limit}out"};
    redisAppendCommand(redis, "DEL {limit}in {limit}out {limit}devices");
    for (int index = 0; index < 2; index++) redisAppendCommand(redis, "XGROUP CREATE %s limit 0 MKSTREAM", streams[index]);
    for (int index = 0; index < devices; index++) redisAppendCommand(redis, "HSET {limit}devices %d %b", index, body, (size_t)120);
    int is_good = take(run, redis, 3 + devices);
    redisFree(redis);
    return is_good;
}

/* The provider */

static int closed(nghttp2_session *session, int32_t stream, uint32_t code, void *context) {
    (void)session, (void)stream;
    if (code == NGHTTP2_NO_ERROR) ((struct provider *)context)->answered++;
    return 0;
}

static ssize_t read_body(
    nghttp2_session *session, int32_t stream, uint8_t *bytes, size_t room, uint32_t *flags, nghttp2_data_source *source, void *context) {
    (void)session, (void)stream, (void)room, (void)source, (void)context;
    memcpy(bytes, body, sizeof body - 1);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    return sizeof body - 1;
}

static int connect_provider(struct run *run, struct provider *provider) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)run->order->provider_port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    provider->socket = socket(AF_INET, SOCK_STREAM, 0);
    int one = 1;
    if (provider->socket < 0 || connect(provider->socket, (struct sockaddr *)&address, sizeof address) != 0 ||
        setsockopt(provider->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) {
        fail(run, "the provider", strerror(errno));
        return 0;
    }
    provider->context = SSL_CTX_new(TLS_client_method());
    if (provider->context == NULL || SSL_CTX_load_verify_locations(provider->context, run->order->ca_file, NULL) != 1) {
        fail(run, "TLS", "the certificate file cannot be read");
        return 0;
    }
    SSL_CTX_set_verify(provider->context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_alpn_protos(provider->context, (const unsigned char *)"\x02h2", 3);
    provider->tls = SSL_new(provider->context);
    if (provider->tls == NULL || SSL_set_fd(provider->tls, provider->socket) != 1 || SSL_connect(provider->tls) != 1) {
        fail(run, "TLS", "the handshake failed");
        return 0;
    }
    fcntl(provider->socket, F_SETFL, O_NONBLOCK);
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, closed);
    nghttp2_session_client_new(&provider->session, callbacks, provider);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
    return nghttp2_submit_settings(provider->session, NGHTTP2_FLAG_NONE, settings, 1) == 0;
}

static void disconnect_provider(struct provider *provider) {
    nghttp2_session_del(provider->session);
    SSL_free(provider->tls);
    SSL_CTX_free(provider->context);
    if (provider->socket >= 0) close(provider->socket);
}

#define HEADER(name, value) {(uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, strlen(value), NGHTTP2_NV_FLAG_NONE}

static int submit(struct provider *provider, unsigned number) {
    char path[80], id[40];
    snprintf(path, sizeof path, "/3/device/%064x", number);
    snprintf(id, sizeof id, "%08x-0000-4000-8000-000000000000", number);
    nghttp2_nv headers[] = {
        HEADER(":method", "POST"), HEADER(":scheme", "https"), HEADER(":authority", "localhost"), HEADER(":path", path), HEADER("apns-id", id),
        HEADER("apns-push-type", "alert"), HEADER("apns-topic", "com.example.app"), HEADER("apns-priority", "10"),
    };
    nghttp2_data_provider data = {.read_callback = read_body};
    return nghttp2_submit_request(provider->session, NULL, headers, sizeof headers / sizeof *headers, &data, NULL) >= 0;
}

static int flush(struct provider *provider) {
    for (;;) {
        const uint8_t *bytes = NULL;
        ssize_t length = nghttp2_session_mem_send(provider->session, &bytes);
        if (length < 0) return 0;
        if (length > 0 && provider->length + (size_t)length <= output_max) {
            memcpy(provider->output + provider->length, bytes, (size_t)length);
            provider->length += (size_t)length;
            continue;
        }
        if (length > 0) return 0;
        if (provider->length == 0) return 1;
        /* A few kilobytes fit into an empty socket. */
        int written = SSL_write(provider->tls, provider->output, (int)provider->length);
        if (written != (int)provider->length) return 0;
        provider->length = 0;
        return 1;
    }
}

/* Waits until that many requests have been answered. */
static int await_answers(struct provider *provider, unsigned wanted) {
    while (provider->answered < wanted) {
        struct pollfd poller = {.fd = provider->socket, .events = POLLIN};
        if (poll(&poller, 1, wait_ms) != 1) return 0;
        unsigned char input[16384];
        int length;
        while ((length = SSL_read(provider->tls, input, sizeof input)) > 0)
            if (nghttp2_session_mem_recv(provider->session, input, (size_t)length) != length) return 0;
        if (SSL_get_error(provider->tls, length) != SSL_ERROR_WANT_READ || !flush(provider)) return 0;
    }
    return 1;
}

/* The threads */

static void *publish(void *context) {
    struct run *run = context;
    redisContext *redis = connect_redis(run);
    char command[400];
    memset(command, 'x', sizeof command);
    double start = seconds(CLOCK_MONOTONIC);
    for (unsigned number = 0; redis != NULL && number < run->order->count && !atomic_load(&run->failed); number++) {
        double wait = start + number / run->order->per_second - seconds(CLOCK_MONOTONIC);
        struct timespec pause = {.tv_nsec = (long)(wait * 1e9)};
        if (wait > 0 && wait < 1) nanosleep(&pause, NULL);
        redisAppendCommand(redis, "XADD {limit}in * m %b", command, sizeof command);
        if (!take(run, redis, 1)) break;
    }
    if (redis != NULL) redisFree(redis);
    run->result->publisher_seconds = seconds(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

static int dispatch_entries(struct run *run, redisContext *redis, struct provider *provider, char ids[][32], unsigned count) {
    unsigned first = provider->answered;
    for (unsigned index = 0; index < count; index++)
        redisAppendCommand(redis, "HGET {limit}devices %u", (first + index) % devices);
    if (!take(run, redis, count)) return 0;
    for (unsigned index = 0; index < count; index++)
        if (!submit(provider, first + index)) return 0;
    if (!flush(provider) || !await_answers(provider, first + count)) return 0;
    for (unsigned index = 0; index < count; index++) {
        redisAppendCommand(redis, "XACK {limit}in limit %s", ids[index]);
        redisAppendCommand(redis, "XDEL {limit}in %s", ids[index]);
        redisAppendCommand(redis, "XADD {limit}out * m %b", body, (size_t)100);
    }
    return take(run, redis, 3 * count);
}

static void *dispatch(void *context) {
    struct run *run = context;
    redisContext *redis = connect_redis(run);
    static struct provider provider;
    memset(&provider, 0, sizeof provider);
    provider.socket = -1;
    char ids[entries_max][32];
    double start = 0;
    if (redis != NULL && connect_provider(run, &provider)) {
        /* Connecting is no part of a send. */
        start = seconds(CLOCK_THREAD_CPUTIME_ID);
        while (provider.answered < run->order->count && !atomic_load(&run->failed)) {
            unsigned count = read_entries(run, redis, "{limit}in", ids);
            if (count == 0) {
                fail(run, "the dispatcher", "nothing was published");
            } else if (!dispatch_entries(run, redis, &provider, ids, count)) {
                fail(run, "the dispatcher", "a request was not answered");
            }
        }
    }
    run->result->dispatcher_seconds = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
    disconnect_provider(&provider);
    if (redis != NULL) redisFree(redis);
    return NULL;
}

static void *feed_back(void *context) {
    struct run *run = context;
    redisContext *redis = connect_redis(run);
    char ids[entries_max][32];
    for (unsigned done = 0; redis != NULL && done < run->order->count && !atomic_load(&run->failed);) {
        unsigned count = read_entries(run, redis, "{limit}out", ids);
        for (unsigned index = 0; index < count; index++) {
            redisAppendCommand(redis, "XACK {limit}out limit %s", ids[index]);
            redisAppendCommand(redis, "XDEL {limit}out %s", ids[index]);
        }
        if (!take(run, redis, 2 * count)) break;
        done += count;
    }
    if (redis != NULL) redisFree(redis);
    run->result->feedback_seconds = seconds(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

int send_limit_run(const struct send_limit_order *order, struct send_limit_result *result, char *problem, unsigned size) {
    struct run run = {.order = order, .result = result};
    pthread_mutex_init(&run.lock, NULL);
    if (prepare(&run)) {
        void *(*const bodies[])(void *) = {publish, dispatch, feed_back};
        pthread_t threads[3];
        int started = 0;
        while (started < 3 && pthread_create(&threads[started], NULL, bodies[started], &run) == 0) started++;
        if (started < 3) fail(&run, "the limit", "a thread could not be started");
        for (int index = 0; index < started; index++) pthread_join(threads[index], NULL);
    }
    pthread_mutex_destroy(&run.lock);
    if (!atomic_load(&run.failed)) return 0;
    snprintf(problem, size, "%s", run.problem);
    return -1;
}
