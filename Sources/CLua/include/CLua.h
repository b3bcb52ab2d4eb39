// Lua 5.1 as Swift can call it: macros as functions, and one entry for all functions that Swift gives to Lua.

#ifndef CLUA_H
#define CLUA_H

#include <lua5.1/lua.h>
#include <lua5.1/lauxlib.h>
#include <lua5.1/lualib.h>

// Performs a function that Swift gives to Lua. Returns how many results lie on the stack; -1 raises the value on top as an error.
//
// Swift never raises by itself: an error of Lua is a longjmp, which must pass no frame of Swift.
typedef int (*CLuaHost)(lua_State *lua, void *context, int function);

// Pushes the function of that number as a value of Lua.
void clua_push_host_function(lua_State *lua, CLuaHost host, void *context, int function);

// Formats a number as Redis writes scores and numbers of scripts: 17 significant digits at most. Returns the length.
int clua_format_number(double number, char *buffer, size_t size);

// Opens one library of Lua's own under its name.
void clua_open(lua_State *lua, const char *name, lua_CFunction open);

static inline void clua_pop(lua_State *lua, int count) { lua_settop(lua, -count - 1); }
static inline void clua_push_bytes(lua_State *lua, const void *bytes, size_t count) { lua_pushlstring(lua, count ? bytes : "", count); }
static inline int clua_load(lua_State *lua, const void *text, size_t count, const char *name) {
    return luaL_loadbuffer(lua, text, count, name);
}
static inline void clua_set_global(lua_State *lua, const char *name) { lua_setfield(lua, LUA_GLOBALSINDEX, name); }
static inline int clua_reference(lua_State *lua) { return luaL_ref(lua, LUA_REGISTRYINDEX); }
static inline void clua_release(lua_State *lua, int reference) { luaL_unref(lua, LUA_REGISTRYINDEX, reference); }
static inline void clua_push_reference(lua_State *lua, int reference) { lua_rawgeti(lua, LUA_REGISTRYINDEX, reference); }

#endif
