internal import ApusCore
internal import ApusTLS
internal import CLua
internal import Synchronization

/// Runs the functions of libraries, in Lua 5.1 as Redis does: the text that is loaded is the product's own.
final class FunctionEngine {
    /// A registered function.
    final class Function {
        let name: String
        let library: String
        /// False when it promises to write nothing.
        let mayWrite: Bool
        /// True when it runs also while memory is full.
        let allowsFull: Bool
        fileprivate let reference: Int32

        fileprivate init(name: String, library: String, flags: Set<String>, reference: Int32) {
            self.name = name
            self.library = library
            self.mayWrite = !flags.contains("no-writes")
            self.allowsFull = flags.contains("allow-oom")
            self.reference = reference
        }
    }

    /// The rights of a running function.
    struct Permissions {
        var mayWrite: Bool
    }

    /// The functions that Swift gives to Lua.
    private enum Host: Int32, CaseIterable {
        case call, callProtected, errorReply, statusReply, sha1, log, register
        case structPack, structUnpack, messagePack, messageUnpack
        case bitAnd, bitOr, bitXor, bitShiftRight, bitShiftLeft, bitTo

        /// The library and the name under which Lua finds the function.
        var place: (library: String, name: String) {
            switch self {
            case .call: ("redis", "call")
            case .callProtected: ("redis", "pcall")
            case .errorReply: ("redis", "error_reply")
            case .statusReply: ("redis", "status_reply")
            case .sha1: ("redis", "sha1hex")
            case .log: ("redis", "log")
            case .register: ("redis", "register_function")
            case .structPack: ("struct", "pack")
            case .structUnpack: ("struct", "unpack")
            case .messagePack: ("cmsgpack", "pack")
            case .messageUnpack: ("cmsgpack", "unpack")
            case .bitAnd: ("bit", "band")
            case .bitOr: ("bit", "bor")
            case .bitXor: ("bit", "bxor")
            case .bitShiftRight: ("bit", "rshift")
            case .bitShiftLeft: ("bit", "lshift")
            case .bitTo: ("bit", "tobit")
            }
        }
    }

    /// Adds to an error where it was raised, refuses global variables, and hides what scripts may not use.
    private static let preparation = """
        local getinfo = debug.getinfo
        local function handle_error(err)
            if type(err) ~= 'table' then err = {err = 'ERR ' .. tostring(err)} end
            local info = getinfo(2, 'nSl')
            if info and info.what == 'C' then info = getinfo(3, 'nSl') end
            if info then err.source, err.line = info.source, info.currentline end
            return err
        end
        for _, name in ipairs({'debug', 'print', 'dofile', 'loadfile', 'getfenv', 'setfenv', 'newproxy', 'module', 'require'}) do
            _G[name] = nil
        end
        setmetatable(_G, {
            __index = function(_, name)
                error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
            end,
            __newindex = function() error('Attempt to modify a readonly table', 2) end,
        })
        return handle_error
        """

    /// The texts that were run, with their names, as Lua compiles them.
    private static let compiled = Mutex<[ByteKey: Bytes]>([:])

    private let lua: LuaState
    private unowned let model: RedisModel
    private var functions: [String: Function] = [:]
    private var handler: Int32 = 0
    /// The permissions of the running function; nil while a library is loaded or nothing runs.
    private var permissions: Permissions?
    /// The functions that the library being loaded has registered; nil while none is loaded.
    private var loading: (library: String, functions: [Function])?

    init(_ model: RedisModel) throws(CommandFault) {
        guard let pointer = unsafe luaL_newstate() else { throw CommandFault("OOM Lua cannot start") }
        unsafe self.lua = LuaState(pointer)
        self.model = model
        // Memory is collected when there is ten times as much as after the last time, which takes long.
        _ = unsafe lua_gc(pointer, LUA_GCSETPAUSE, 1_000)
        unsafe clua_open(pointer, "", luaopen_base)
        unsafe clua_open(pointer, "table", luaopen_table)
        unsafe clua_open(pointer, "string", luaopen_string)
        unsafe clua_open(pointer, "math", luaopen_math)
        unsafe clua_open(pointer, "debug", luaopen_debug)
        for library in ["redis", "struct", "cmsgpack", "bit"] {
            self.lua.pushTable()
            for host in Host.allCases where host.place.library == library {
                unsafe clua_push_host_function(
                    pointer,
                    { unsafe FunctionEngine.perform($0, $1, $2) },
                    Unmanaged.passUnretained(self).toOpaque(),
                    host.rawValue,
                )
                self.lua.setField(host.place.name, of: -2)
            }
            unsafe clua_set_global(pointer, library)
        }
        try self.run(Bytes(Self.preparation.utf8), name: "=preparation", results: 1)
        self.handler = unsafe clua_reference(pointer)
    }

    deinit { unsafe lua_close(self.lua.pointer) }

    func function(_ name: Bytes) -> Function? { self.functions[String(decoding: name, as: UTF8.self)] }

    // MARK: Libraries

    /// Loads a library; returns its name.
    func load(_ text: Bytes, replaces: Bool) throws(CommandFault) -> String {
        guard text.starts(with: "#!".utf8), let end = text.firstIndex(of: 0x0a) else {
            throw CommandFault("ERR Missing library metadata")
        }
        let head = String(decoding: text[..<end], as: UTF8.self).split(separator: " ")
        guard head.first == "#!lua" else {
            throw CommandFault("ERR Engine '\(head.first?.dropFirst(2) ?? "")' not found")
        }
        guard let name = head.dropFirst().first(where: { $0.hasPrefix("name=") })?.dropFirst(5) else {
            throw CommandFault("ERR Library name was not given")
        }
        let library = String(name)
        let former = self.functions.values.filter { $0.library == library }
        guard former.isEmpty || replaces else { throw CommandFault("ERR Library '\(library)' already exists") }
        self.loading = (library, [])
        defer { self.loading = nil }
        do throws(CommandFault) {
            try self.run(Bytes(text[end...]), name: "@user_function", results: 0)
        } catch {
            throw CommandFault("ERR Error registering functions: \(error.text.dropFirst("ERR ".count))")
        }
        let registered = self.loading?.functions ?? []
        guard !registered.isEmpty else { throw CommandFault("ERR No functions registered") }
        for function in registered {
            if let other = self.functions[function.name], other.library != library {
                throw CommandFault("ERR Function \(function.name) already exists")
            }
        }
        self.forget(former)
        for function in registered { self.functions[function.name] = function }
        return library
    }

    /// Deletes a library; returns whether it was there.
    func delete(_ library: String) -> Bool {
        let found = self.functions.values.filter { $0.library == library }
        self.forget(found)
        return !found.isEmpty
    }

    private func forget(_ functions: [Function]) {
        for function in functions {
            self.functions[function.name] = nil
            unsafe clua_release(self.lua.pointer, function.reference)
        }
    }

    /// Pushes the function that a text is, or an error. What an engine of the process has had is not compiled again.
    private func push(_ text: Bytes, name: String) -> Int32 {
        let pointer = unsafe self.lua.pointer
        let key = ByteKey(Bytes(name.utf8) + text)
        let compiled = Self.compiled.withLock { $0[key] }
        let status = unsafe (compiled ?? text).withUnsafeBytes { buffer in
            unsafe clua_load(pointer, buffer.baseAddress, buffer.count, name)
        }
        if status == 0, compiled == nil {
            let bytes = self.lua.dumped()
            Self.compiled.withLock { $0[key] = bytes }
        }
        return status
    }

    /// Runs a text and leaves its results on the stack.
    private func run(_ text: Bytes, name: String, results: Int32) throws(CommandFault) {
        let pointer = unsafe self.lua.pointer
        if self.handler != 0 { unsafe clua_push_reference(pointer, self.handler) }
        let base = unsafe lua_gettop(pointer)
        var status = self.push(text, name: name)
        guard status == 0 else {
            let message = self.lua.text(-1) ?? "?"
            unsafe lua_settop(pointer, base - (self.handler == 0 ? 0 : 1))
            throw CommandFault("ERR \(message)")
        }
        status = unsafe lua_pcall(pointer, 0, results, self.handler == 0 ? 0 : base)
        guard status == 0 else {
            let message = self.errorText(-1)
            unsafe lua_settop(pointer, base - (self.handler == 0 ? 0 : 1))
            throw CommandFault(message)
        }
        if self.handler != 0 { unsafe lua_remove(pointer, base) }
    }

    /// Returns the text of an error value.
    private func errorText(_ index: Int32) -> String {
        guard self.lua.kind(index) == .table else { return self.lua.text(index) ?? "ERR unknown error" }
        self.lua.pushField("err", of: index)
        defer { self.lua.pop() }
        return self.lua.text(-1) ?? "ERR unknown error"
    }

    // MARK: Calls

    /// Calls a function.
    func call(_ function: Function, keys: ArraySlice<Bytes>, arguments: ArraySlice<Bytes>) -> ModelReply {
        let pointer = unsafe self.lua.pointer
        let base = unsafe lua_gettop(pointer)
        defer {
            unsafe lua_settop(pointer, base)
            self.permissions = nil
        }
        self.permissions = Permissions(mayWrite: function.mayWrite)
        unsafe clua_push_reference(pointer, self.handler)
        unsafe clua_push_reference(pointer, function.reference)
        for list in [keys, arguments] {
            self.lua.pushTable(count: list.count)
            for (offset, bytes) in list.enumerated() {
                self.lua.push(bytes)
                self.lua.setElement(offset + 1, of: -2)
            }
        }
        let status = unsafe lua_pcall(pointer, 2, 1, base + 1)
        guard status == 0 else { return .error(self.message(of: function)) }
        return self.reply(-1)
    }

    /// Returns the error on top of the stack with the place where it was raised.
    private func message(of function: Function) -> String {
        let text = self.errorText(-1)
        guard self.lua.kind(-1) == .table else { return text }
        self.lua.pushField("source", of: -1)
        self.lua.pushField("line", of: -2)
        defer { self.lua.pop(2) }
        guard let source = self.lua.text(-2), let line = self.lua.number(-1) else { return text }
        return "\(text) script: \(function.name), on \(source):\(Int(line))."
    }

    /// Converts a value of Lua to a reply.
    private func reply(_ index: Int32) -> ModelReply {
        switch self.lua.kind(index) {
        case .string: return .bulk(self.lua.bytes(index) ?? [])
        case .boolean: return self.lua.boolean(index) ? .integer(1) : .null
        case .number: return .integer(LuaLibrary.integer(self.lua.number(index) ?? 0))
        case .table:
            guard self.lua.reserve(8) else { return .error("ERR reached lua stack limit") }
            let table = self.lua.absolute(index)
            for (field, make) in [("err", ModelReply.error), ("ok", ModelReply.status)] {
                self.lua.pushField(field, of: table)
                defer { self.lua.pop() }
                if let text = self.lua.text(-1) { return make(text) }
            }
            var elements: [ModelReply] = []
            while true {
                self.lua.pushElement(elements.count + 1, of: table)
                defer { self.lua.pop() }
                if self.lua.kind(-1) == .null { return .array(elements) }
                elements.append(self.reply(-1))
            }
        default: return .null
        }
    }

    /// Pushes a reply as the value that scripts see.
    private func push(_ reply: ModelReply) {
        guard self.lua.reserve(8) else { return }
        switch reply {
        case .integer(let number): self.lua.push(Double(number))
        case .bulk(let bytes): self.lua.push(bytes)
        case .null, .nullArray: self.lua.push(false)
        case .status(let text):
            self.lua.pushTable()
            self.lua.push(text)
            self.lua.setField("ok", of: -2)
        case .error(let text): self.pushError(text)
        case .array(let elements):
            self.lua.pushTable(count: elements.count)
            for (offset, element) in elements.enumerated() {
                self.push(element)
                self.lua.setElement(offset + 1, of: -2)
            }
        }
    }

    /// Pushes an error: a table with the field `err`.
    private func pushError(_ text: String) {
        self.lua.pushTable()
        self.lua.push(text)
        self.lua.setField("err", of: -2)
    }

    // MARK: The host

    /// Performs a function of Swift. Everything happens on one thread, within `call` or `load` of the engine.
    private static func perform(
        _ pointer: OpaquePointer?,
        _ context: UnsafeMutableRawPointer?,
        _ number: Int32
    ) -> Int32 {
        guard let context = unsafe context, let pointer = unsafe pointer, let host = Host(rawValue: number) else {
            return 0
        }
        let engine = unsafe Unmanaged<FunctionEngine>.fromOpaque(context).takeUnretainedValue()
        let lua = unsafe LuaState(pointer)
        do throws(LuaLibrary.Failure) {
            return Int32(try engine.perform(host, lua))
        } catch {
            lua.push(lua.place + error.text)
            return -1
        }
    }

    /// Returns the number of results; -1 raises what lies on top of the stack.
    private func perform(_ host: Host, _ lua: LuaState) throws(LuaLibrary.Failure) -> Int {
        switch host {
        case .call, .callProtected:
            let reply = self.execute(lua)
            self.push(reply)
            return reply.error != nil && host == .call ? -1 : 1
        case .errorReply:
            guard lua.count == 1, let text = lua.text(1) else {
                self.pushError("ERR wrong number or type of arguments")
                return 1
            }
            self.pushError(Self.errorReply(text))
            return 1
        case .statusReply:
            lua.pushTable()
            lua.push(lua.bytes(1) ?? [])
            lua.setField("ok", of: -2)
            return 1
        case .sha1:
            guard lua.count == 1 else { throw LuaLibrary.Failure(text: "wrong number of arguments") }
            let bytes = lua.bytes(1) ?? lua.number(1).map(luaText) ?? []
            lua.push(Hexadecimal.encode(SHA1.hash(bytes.span)))
            return 1
        case .log: return 0
        case .register:
            try self.register(lua)
            return 0
        case .structPack: return try LuaLibrary.pack(lua)
        case .structUnpack: return try LuaLibrary.unpack(lua)
        case .messagePack: return try LuaLibrary.packMessage(lua)
        case .messageUnpack: return try LuaLibrary.unpackMessage(lua)
        case .bitAnd: return self.combine(lua) { $0 & $1 }
        case .bitOr: return self.combine(lua) { $0 | $1 }
        case .bitXor: return self.combine(lua) { $0 ^ $1 }
        case .bitTo: return self.combine(lua) { one, _ in one }
        case .bitShiftRight: return self.combine(lua) { $0 >> ($1 & 31) }
        case .bitShiftLeft: return self.combine(lua) { $0 << ($1 & 31) }
        }
    }

    private func combine(_ lua: LuaState, _ operation: (UInt32, UInt32) -> UInt32) -> Int {
        let operands = (0..<lua.count).map { LuaLibrary.bits(lua.number(Int32($0) + 1) ?? 0) }
        let result = operands.dropFirst().reduce(operands.first ?? 0, operation)
        lua.push(Double(Int32(bitPattern: result)))
        return 1
    }

    /// Returns the error that `redis.error_reply` makes of a text: a word and the rest, `ERR` where there is no word.
    static func errorReply(_ text: String) -> String {
        let body = text.hasPrefix("-") ? String(text.dropFirst()) : text
        return body.contains(" ") ? body : "ERR \(body)"
    }

    private func execute(_ lua: LuaState) -> ModelReply {
        guard let permissions = self.permissions else {
            return .error("ERR redis.call/pcall can only be called inside a script invocation")
        }
        guard lua.count > 0 else {
            return .error("ERR Please specify at least one argument for this redis.call() call")
        }
        let count = lua.count
        var arguments: [Bytes] = []
        arguments.reserveCapacity(count)
        for index in 1...Int32(count) {
            switch lua.kind(index) {
            case .number: arguments.append(formatNumber(lua.number(index) ?? 0))
            case .string: arguments.append(lua.bytes(index) ?? [])
            default: return .error("ERR Lua redis lib command arguments must be strings or integers")
            }
        }
        return self.model.executeInFunction(arguments, permissions)
    }

    private func register(_ lua: LuaState) throws(LuaLibrary.Failure) {
        guard let library = self.loading?.library else {
            throw LuaLibrary.Failure(text: "redis.register_function can only be called on FUNCTION LOAD command")
        }
        guard lua.kind(1) == .table else {
            throw LuaLibrary.Failure(
                text: "calling redis.register_function with a single argument is only applicable to Lua table"
            )
        }
        lua.pushField("function_name", of: 1)
        guard let name = lua.text(-1) else {
            throw LuaLibrary.Failure(text: "redis.register_function must get a function name argument")
        }
        lua.pop()
        var flags: Set<String> = []
        lua.pushField("flags", of: 1)
        if lua.kind(-1) == .table {
            for index in 1... {
                lua.pushElement(index, of: -1)
                defer { lua.pop() }
                guard let flag = lua.text(-1) else { break }
                flags.insert(flag)
            }
        }
        lua.pop()
        guard flags.isSubset(of: ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"])
        else {
            throw LuaLibrary.Failure(text: "unknown flag given")
        }
        lua.pushField("callback", of: 1)
        guard lua.kind(-1) == .function else {
            throw LuaLibrary.Failure(text: "redis.register_function must get a callback argument")
        }
        let reference = unsafe clua_reference(lua.pointer)
        let function = Function(name: name, library: library, flags: flags, reference: reference)
        self.loading?.functions.append(function)
    }
}
