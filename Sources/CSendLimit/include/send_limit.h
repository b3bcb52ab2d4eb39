#ifndef SEND_LIMIT_H
#define SEND_LIMIT_H

/* The servers on this machine, and the load. */
struct send_limit_order {
    /* The path of Redis' Unix socket. */
    const char *redis_socket;
    /* An HTTP/2 server over TLS that answers every POST to /3/device/<token>. */
    int provider_port;
    /* The file of the certificate, in PEM, that vouches for the provider. */
    const char *ca_file;
    unsigned count;
    double per_second;
};

/* The processor seconds that each thread has spent. */
struct send_limit_result {
    double publisher_seconds;
    double dispatcher_seconds;
    double feedback_seconds;
};

/*
 * Does for `count` single sends what no dispatcher over Redis streams can leave out, over hiredis, nghttp2 and OpenSSL, and nothing else. A
 * publisher appends 400 bytes to a stream when each send is due. A dispatcher reads what is there, looks one device up, sends one request,
 * waits for its answer, acknowledges and deletes the entry and appends an outcome. Feedback reads it, acknowledges and deletes it. It checks,
 * counts and remembers nothing. The streams `{limit}in` and `{limit}out` are made anew.
 *
 * Returns 0, or -1 when a step failed; then `problem`, of `size` bytes, says which.
 */
int send_limit_run(const struct send_limit_order *order, struct send_limit_result *result, char *problem, unsigned size);

#endif
