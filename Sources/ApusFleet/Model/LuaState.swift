internal import CLua

/// An interpreter of Lua 5.1, as far as a host of functions needs it. Positions on the stack are Lua's: 1 is the first argument, -1 the top.
///
/// No method raises an error of Lua, so none passes a frame of Swift.
@safe
struct LuaState {
    let pointer: OpaquePointer

    init(_ pointer: OpaquePointer) { unsafe self.pointer = pointer }

    enum Kind { case none, null, boolean, number, string, table, function, other }

    var count: Int { Int(unsafe lua_gettop(self.pointer)) }

    func kind(_ index: Int32) -> Kind {
        switch unsafe lua_type(self.pointer, index) {
        case LUA_TNONE: .none
        case LUA_TNIL: .null
        case LUA_TBOOLEAN: .boolean
        case LUA_TNUMBER: .number
        case LUA_TSTRING: .string
        case LUA_TTABLE: .table
        case LUA_TFUNCTION: .function
        default: .other
        }
    }

    /// Returns the bytes of a string; nil for another kind.
    func bytes(_ index: Int32) -> Bytes? {
        guard self.kind(index) == .string else { return nil }
        var length = 0
        guard let start = unsafe lua_tolstring(self.pointer, index, &length) else { return nil }
        return unsafe start.withMemoryRebound(to: UInt8.self, capacity: length) { start in
            unsafe Bytes(UnsafeBufferPointer(start: start, count: length))
        }
    }

    func text(_ index: Int32) -> String? { self.bytes(index).map { String(decoding: $0, as: UTF8.self) } }

    /// Returns a number, also of a string that reads as one.
    func number(_ index: Int32) -> Double? {
        guard unsafe lua_isnumber(self.pointer, index) != 0 else { return nil }
        return unsafe lua_tonumber(self.pointer, index)
    }

    func boolean(_ index: Int32) -> Bool { unsafe lua_toboolean(self.pointer, index) != 0 }

    func push(_ bytes: Bytes) {
        unsafe bytes.withUnsafeBytes { buffer in
            unsafe clua_push_bytes(self.pointer, buffer.baseAddress, buffer.count)
        }
    }

    func push(_ text: String) {
        var text = text
        text.withUTF8 { buffer in
            unsafe clua_push_bytes(self.pointer, buffer.baseAddress, buffer.count)
        }
    }

    func push(_ bytes: ArraySlice<UInt8>) {
        unsafe bytes.withUnsafeBytes { buffer in
            unsafe clua_push_bytes(self.pointer, buffer.baseAddress, buffer.count)
        }
    }

    func push(_ number: Double) { unsafe lua_pushnumber(self.pointer, number) }
    func push(_ boolean: Bool) { unsafe lua_pushboolean(self.pointer, boolean ? 1 : 0) }
    func pushNull() { unsafe lua_pushnil(self.pointer) }
    func pushTable(count: Int = 0) { unsafe lua_createtable(self.pointer, Int32(count), 0) }
    func pop(_ count: Int = 1) { unsafe clua_pop(self.pointer, Int32(count)) }

    /// Makes room for values; false when the stack cannot grow.
    func reserve(_ count: Int) -> Bool { unsafe lua_checkstack(self.pointer, Int32(clamping: count)) != 0 }

    /// Pops a value into a table's place.
    func setElement(_ index: Int, of table: Int32) { unsafe lua_rawseti(self.pointer, table, Int32(index)) }

    /// Pushes an element of a table, without metamethods.
    func pushElement(_ index: Int, of table: Int32) { unsafe lua_rawgeti(self.pointer, table, Int32(index)) }

    /// Pushes a field of a table, without metamethods.
    func pushField(_ name: String, of table: Int32) {
        let table = self.absolute(table)
        self.push(name)
        unsafe lua_rawget(self.pointer, table)
    }

    /// Pops a value into a field of a table, without metamethods.
    func setField(_ name: String, of table: Int32) {
        let table = self.absolute(table)
        self.push(name)
        unsafe lua_insert(self.pointer, -2)
        unsafe lua_rawset(self.pointer, table)
    }

    /// Pops a value and a key into a table, without metamethods.
    func setPair(_ table: Int32) { unsafe lua_rawset(self.pointer, table) }

    func absolute(_ index: Int32) -> Int32 { index > 0 ? index : unsafe lua_gettop(self.pointer) + index + 1 }

    /// Pushes the next key and value of a table in the place of a key; false after the last one.
    func next(_ table: Int32) -> Bool { unsafe lua_next(self.pointer, table) != 0 }

    /// Returns the function on top of the stack as Lua compiled it, which loads as its text does.
    func dumped() -> Bytes {
        var bytes: Bytes = []
        _ = unsafe withUnsafeMutablePointer(to: &bytes) { bytes in
            unsafe lua_dump(
                self.pointer,
                { _, piece, count, bytes in
                    let piece = unsafe UnsafeRawBufferPointer(start: piece, count: count)
                    unsafe bytes?.assumingMemoryBound(to: Bytes.self).pointee.append(contentsOf: piece)
                    return 0
                },
                bytes
            )
        }
        return bytes
    }

    /// Returns the place in the Lua text that called the host, such as "user_function:12: ".
    var place: String {
        unsafe luaL_where(self.pointer, 1)
        defer { self.pop() }
        return self.text(-1) ?? ""
    }
}
