#pragma once
#include <stdlib.h>
#include <yaml.h>

// A parser with its current event, on the heap: libyaml keeps pointers into the parser, so that it must not move.
typedef struct CYAML_Parser {
    yaml_parser_t parser;
    yaml_event_t event;
    int hasEvent;
} CYAML_Parser;

// The current event without libyaml's unions. Texts live until the next event.
typedef struct CYAML_Event {
    yaml_event_type_t type;
    const char *text;
    size_t length;
    const char *anchor;
    const char *tag;
    int isPlain;
    size_t line;
} CYAML_Event;

// A parser of UTF-8 text that outlives it; NULL without memory. Freed by `CYAML_parserFree`.
static inline CYAML_Parser *CYAML_parserCreate(const unsigned char *text, size_t length) {
    CYAML_Parser *own = (CYAML_Parser *)calloc(1, sizeof(*own));
    if (own == NULL) return NULL;
    if (!yaml_parser_initialize(&own->parser)) {
        free(own);
        return NULL;
    }
    yaml_parser_set_encoding(&own->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&own->parser, text, length);
    return own;
}

static inline void CYAML_parserFree(CYAML_Parser *own) {
    if (own->hasEvent) yaml_event_delete(&own->event);
    yaml_parser_delete(&own->parser);
    free(own);
}

// Goes on to the next event; 0 when the text is not YAML.
static inline int CYAML_parserNext(CYAML_Parser *own, CYAML_Event *event) {
    if (own->hasEvent) yaml_event_delete(&own->event);
    own->hasEvent = yaml_parser_parse(&own->parser, &own->event);
    if (!own->hasEvent) return 0;
    *event = (CYAML_Event){.type = own->event.type, .line = own->event.start_mark.line + 1};
    switch (own->event.type) {
    case YAML_SCALAR_EVENT:
        event->text = (const char *)own->event.data.scalar.value;
        event->length = own->event.data.scalar.length;
        event->anchor = (const char *)own->event.data.scalar.anchor;
        event->tag = (const char *)own->event.data.scalar.tag;
        event->isPlain = own->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        break;
    case YAML_SEQUENCE_START_EVENT: event->anchor = (const char *)own->event.data.sequence_start.anchor; break;
    case YAML_MAPPING_START_EVENT: event->anchor = (const char *)own->event.data.mapping_start.anchor; break;
    case YAML_ALIAS_EVENT: event->anchor = (const char *)own->event.data.alias.anchor; break;
    default: break;
    }
    return 1;
}

// The error after `CYAML_parserNext` failed; NULL when memory was missing.
static inline const char *CYAML_parserProblem(const CYAML_Parser *own) { return own->parser.problem; }

// Where it is wrong, from 1; 0 when libyaml does not tell.
static inline size_t CYAML_parserProblemLine(const CYAML_Parser *own) {
    return own->parser.error == YAML_READER_ERROR ? 0 : own->parser.problem_mark.line + 1;
}
