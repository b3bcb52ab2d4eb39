#pragma once
#include <hiredis/hiredis.h>
#include <hiredis/read.h>
#include <stdlib.h>
#include <string.h>

// The parts of a reply, in the order in which they are read: an array comes before its elements.
//
// hiredis' own table of functions cannot be filled from Swift: `redisReplyObjectFunctions` has five members in 0.14 and
// nine in 1.x, and an array's length is an `int` in one and a `size_t` in the other. This one stays the same. Every
// function returns 0 to refuse, which ends the reader with an error.
typedef struct CHiredis_Sink {
    void *context;
    int (*string)(void *context, int type, const char *bytes, size_t length);
    int (*array)(void *context, long long count);
    int (*integer)(void *context, long long value);
    int (*null)(void *context);
} CHiredis_Sink;

// hiredis keeps what these return as "the object" and only asks that it is not NULL; the sink itself will do.
static void *CHiredis_createString(const redisReadTask *task, char *bytes, size_t length) {
    // RESP3 has more kinds of text; nobody asks for it, so nobody may answer with it. (0.14 knows none of them.)
    if (task->type != REDIS_REPLY_STRING && task->type != REDIS_REPLY_STATUS && task->type != REDIS_REPLY_ERROR) {
        return NULL;
    }
    CHiredis_Sink *sink = (CHiredis_Sink *)task->privdata;
    return sink->string(sink->context, task->type, bytes, length) ? sink : NULL;
}

#if HIREDIS_MAJOR >= 1
static void *CHiredis_createArray(const redisReadTask *task, size_t count) {
#else
static void *CHiredis_createArray(const redisReadTask *task, int count) {
#endif
    if (task->type != REDIS_REPLY_ARRAY) return NULL;
    CHiredis_Sink *sink = (CHiredis_Sink *)task->privdata;
    return sink->array(sink->context, (long long)count) ? sink : NULL;
}

static void *CHiredis_createInteger(const redisReadTask *task, long long value) {
    CHiredis_Sink *sink = (CHiredis_Sink *)task->privdata;
    return sink->integer(sink->context, value) ? sink : NULL;
}

static void *CHiredis_createNull(const redisReadTask *task) {
    CHiredis_Sink *sink = (CHiredis_Sink *)task->privdata;
    return sink->null(sink->context) ? sink : NULL;
}

// The objects are the sink, which the reader does not own.
static void CHiredis_freeNothing(void *object) { (void)object; }

#if HIREDIS_MAJOR >= 1
// RESP3 as well. A function that is missing would let the value pass without being told.
static void *CHiredis_refuseDouble(const redisReadTask *task, double value, char *text, size_t length) {
    (void)task, (void)value, (void)text, (void)length;
    return NULL;
}

static void *CHiredis_refuseBool(const redisReadTask *task, int value) {
    (void)task, (void)value;
    return NULL;
}
#endif

static redisReplyObjectFunctions CHiredis_functions = {
    .createString = CHiredis_createString,
    .createArray = CHiredis_createArray,
    .createInteger = CHiredis_createInteger,
    .createNil = CHiredis_createNull,
    .freeObject = CHiredis_freeNothing,
#if HIREDIS_MAJOR >= 1
    .createDouble = CHiredis_refuseDouble,
    .createBool = CHiredis_refuseBool,
#endif
};

// A reader that tells a copy of `sink`; NULL without memory. Freed by `CHiredis_readerFree`.
static inline redisReader *CHiredis_readerCreate(CHiredis_Sink sink) {
    CHiredis_Sink *own = (CHiredis_Sink *)malloc(sizeof(*own));
    if (own == NULL) return NULL;
    *own = sink;
    redisReader *reader = redisReaderCreateWithFunctions(&CHiredis_functions);
    if (reader == NULL) {
        free(own);
        return NULL;
    }
    reader->privdata = own;
    return reader;
}

static inline void CHiredis_readerFree(redisReader *reader) {
    void *own = reader->privdata;
    redisReaderFree(reader);
    free(own);
}

// The bytes that were fed and not yet understood.
static inline size_t CHiredis_readerUnreadCount(const redisReader *reader) { return reader->len - reader->pos; }

// Returns 1 if the first `limit` unread bytes hold the end of a line. Without one hiredis scans them again at every call.
static inline int CHiredis_readerHasLine(const redisReader *reader, size_t limit) {
    size_t count = reader->len - reader->pos;
    if (count == 0) return 0;
    return memmem(reader->buf + reader->pos, count < limit ? count : limit, "\r\n", 2) != NULL;
}

// `errstr` is a C array, which Swift sees as a tuple of 128 numbers.
static inline const char *CHiredis_readerErrorText(const redisReader *reader) { return reader->errstr; }

static inline int CHiredis_majorVersion(void) { return HIREDIS_MAJOR; }
static inline int CHiredis_minorVersion(void) { return HIREDIS_MINOR; }
