#include "CLua.h"

#include <stdio.h>

// Calls the host, whose address, context and number are the upvalues.
static int call_host(lua_State *lua) {
    CLuaHost host = (CLuaHost)lua_touserdata(lua, lua_upvalueindex(1));
    void *context = lua_touserdata(lua, lua_upvalueindex(2));
    int results = host(lua, context, (int)lua_tointeger(lua, lua_upvalueindex(3)));
    return results < 0 ? lua_error(lua) : results;
}

void clua_push_host_function(lua_State *lua, CLuaHost host, void *context, int function) {
    lua_pushlightuserdata(lua, (void *)host);
    lua_pushlightuserdata(lua, context);
    lua_pushinteger(lua, function);
    lua_pushcclosure(lua, call_host, 3);
}

int clua_format_number(double number, char *buffer, size_t size) {
    return snprintf(buffer, size, "%.17g", number);
}

void clua_open(lua_State *lua, const char *name, lua_CFunction open) {
    lua_pushcclosure(lua, open, 0);
    lua_pushstring(lua, name);
    lua_call(lua, 1, 0);
}
