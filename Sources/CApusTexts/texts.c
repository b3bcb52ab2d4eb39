#include "texts.h"

// The compiler reads the files as they are, each time that one has changed.
#pragma clang diagnostic ignored "-Wc23-extensions"

// A file of functions stands in a block of its own: its locals are invisible to the others, and a library of many files stays below Lua's limit
// of 200 locals. All files see the locals of those that are shared.
#define BLOCK 'd', 'o', '\n',
#define END '\n', 'e', 'n', 'd', '\n',

static const unsigned char apus_text_store_functions_bytes[] = {
#embed "../ApusStore/Functions/store_shared.lua" suffix(,)
#embed "../ApusStore/Functions/places_shared.lua" suffix(,)
#embed "../ApusStore/Functions/removals_shared.lua" suffix(,)
#embed "../ApusStore/Functions/history_shared.lua" suffix(,)
BLOCK
#embed "../ApusStore/Functions/history.lua" suffix(,)
END
#embed "../ApusStore/Functions/undo_shared.lua" suffix(,)
BLOCK
#embed "../ApusStore/Functions/undo.lua" suffix(,)
END
BLOCK
#embed "../ApusStore/Functions/devices.lua" suffix(,)
END
BLOCK
#embed "../ApusStore/Functions/badges.lua" suffix(,)
END
BLOCK
#embed "../ApusStore/Functions/tokens.lua" suffix(,)
END
BLOCK
#embed "../ApusStore/Functions/users.lua" suffix(,)
END
BLOCK
#embed "../ApusStore/Functions/topics.lua" suffix(,)
END
};
apus_text apus_text_store_functions(void) { return (apus_text){ apus_text_store_functions_bytes, sizeof apus_text_store_functions_bytes }; }

static const unsigned char apus_text_stream_functions_bytes[] = {
#embed "../ApusStreams/Functions/streams_common.lua" suffix(,)
#embed "../ApusStreams/Functions/idempotency_shared.lua" suffix(,)
#embed "../ApusStreams/Functions/quarantine_shared.lua" suffix(,)
BLOCK
#embed "../ApusStreams/Functions/mailbox.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/idempotency.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/plan.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/units.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/entries.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/takeover.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/outcomes.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/events.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/control.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/lost_sends.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/dead_letters.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/routes.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/rate_limit.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/quarantine.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/channels.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/services.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/send_list.lua" suffix(,)
END
BLOCK
#embed "../ApusStreams/Functions/audit.lua" suffix(,)
END
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
