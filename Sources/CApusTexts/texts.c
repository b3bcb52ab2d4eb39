#include "texts.h"

// The compiler reads the files as they are, each time that one has changed.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char apus_text_store_functions_bytes[] = {
#embed "../ApusStore/Functions/store_shared.lua" suffix(,)
#embed "../ApusStore/Functions/places_shared.lua" suffix(,)
#embed "../ApusStore/Functions/removals_shared.lua" suffix(,)
#embed "../ApusStore/Functions/history_shared.lua" suffix(,)
#embed "../ApusStore/Functions/history.lua" suffix(,)
#embed "../ApusStore/Functions/undo_shared.lua" suffix(,)
#embed "../ApusStore/Functions/undo.lua" suffix(,)
#embed "../ApusStore/Functions/devices.lua" suffix(,)
#embed "../ApusStore/Functions/badges.lua" suffix(,)
#embed "../ApusStore/Functions/tokens.lua" suffix(,)
#embed "../ApusStore/Functions/users.lua" suffix(,)
#embed "../ApusStore/Functions/topics.lua"
};
apus_text apus_text_store_functions(void) { return (apus_text){ apus_text_store_functions_bytes, sizeof apus_text_store_functions_bytes }; }

static const unsigned char apus_text_stream_functions_bytes[] = {
#embed "../ApusStreams/Functions/streams_common.lua" suffix(,)
#embed "../ApusStreams/Functions/idempotency_shared.lua" suffix(,)
#embed "../ApusStreams/Functions/quarantine_shared.lua" suffix(,)
#embed "../ApusStreams/Functions/mailbox.lua" suffix(,)
#embed "../ApusStreams/Functions/idempotency.lua" suffix(,)
#embed "../ApusStreams/Functions/plan.lua" suffix(,)
#embed "../ApusStreams/Functions/units.lua" suffix(,)
#embed "../ApusStreams/Functions/entries.lua" suffix(,)
#embed "../ApusStreams/Functions/takeover.lua" suffix(,)
#embed "../ApusStreams/Functions/outcomes.lua" suffix(,)
#embed "../ApusStreams/Functions/events.lua" suffix(,)
#embed "../ApusStreams/Functions/control.lua" suffix(,)
#embed "../ApusStreams/Functions/lost_sends.lua" suffix(,)
#embed "../ApusStreams/Functions/dead_letters.lua" suffix(,)
#embed "../ApusStreams/Functions/routes.lua" suffix(,)
#embed "../ApusStreams/Functions/rate_limit.lua" suffix(,)
#embed "../ApusStreams/Functions/quarantine.lua" suffix(,)
#embed "../ApusStreams/Functions/channels.lua" suffix(,)
#embed "../ApusStreams/Functions/services.lua" suffix(,)
#embed "../ApusStreams/Functions/send_list.lua" suffix(,)
#embed "../ApusStreams/Functions/audit.lua"
};
apus_text apus_text_stream_functions(void) { return (apus_text){ apus_text_stream_functions_bytes, sizeof apus_text_stream_functions_bytes }; }

static const unsigned char apus_text_open_api_bytes[] = {
#embed "../ApusRegistration/openapi.json"
};
apus_text apus_text_open_api(void) { return (apus_text){ apus_text_open_api_bytes, sizeof apus_text_open_api_bytes }; }

static const unsigned char apus_text_dashboards_page_bytes[] = {
#embed "../ApusDashboards/Console/Page/console.html"
};
apus_text apus_text_dashboards_page(void) { return (apus_text){ apus_text_dashboards_page_bytes, sizeof apus_text_dashboards_page_bytes }; }

static const unsigned char apus_text_dashboards_style_bytes[] = {
#embed "../ApusDashboards/Console/Page/console.css"
};
apus_text apus_text_dashboards_style(void) { return (apus_text){ apus_text_dashboards_style_bytes, sizeof apus_text_dashboards_style_bytes }; }

static const unsigned char apus_text_dashboards_script_bytes[] = {
#embed "../ApusDashboards/Console/Page/console.js"
};
apus_text apus_text_dashboards_script(void) { return (apus_text){ apus_text_dashboards_script_bytes, sizeof apus_text_dashboards_script_bytes }; }

static const unsigned char apus_text_console_style_bytes[] = {
#embed "../ApusConsole/Assets/console.css"
};
apus_text apus_text_console_style(void) { return (apus_text){ apus_text_console_style_bytes, sizeof apus_text_console_style_bytes }; }

static const unsigned char apus_text_console_script_bytes[] = {
#embed "../ApusConsole/Assets/console.js"
};
apus_text apus_text_console_script(void) { return (apus_text){ apus_text_console_script_bytes, sizeof apus_text_console_script_bytes }; }

static const unsigned char apus_text_console_icon_bytes[] = {
#embed "../ApusConsole/Assets/icon.svg"
};
apus_text apus_text_console_icon(void) { return (apus_text){ apus_text_console_icon_bytes, sizeof apus_text_console_icon_bytes }; }
