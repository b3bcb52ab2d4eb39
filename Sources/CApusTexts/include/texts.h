#ifndef APUS_TEXTS_H
#define APUS_TEXTS_H

#include <stddef.h>

/// The bytes of files that are compiled into the programs. No zero ends them.
typedef struct {
    const unsigned char *bytes;
    size_t count;
} apus_text;

/// The functions in Redis that keep the devices, one Lua text per subject: those that others use come first.
apus_text apus_text_store_functions(void);
/// The functions in Redis for sends and their streams: those that others use come first.
apus_text apus_text_stream_functions(void);
/// The description of the HTTP API.
apus_text apus_text_open_api(void);
/// The page of Prometheus' console, its style and its script.
apus_text apus_text_dashboards_page(void);
apus_text apus_text_dashboards_style(void);
apus_text apus_text_dashboards_script(void);
/// The style, the script and the icon of the operators' console.
apus_text apus_text_console_style(void);
apus_text apus_text_console_script(void);
apus_text apus_text_console_icon(void);

#endif
