extension RedisModel {
    static let serverCommands: [ModelCommand] = [
        ModelCommand("TIME", .exactly(1)) { model, _ in
            .array([.text(String(model.now / 1_000_000)), .text(String(model.now % 1_000_000))])
        },
        ModelCommand("PING", .atLeast(1)) { _, arguments in
            arguments.count > 1 ? .bulk(arguments[1]) : .status("PONG")
        },
        ModelCommand("ECHO", .exactly(2)) { _, arguments in .bulk(arguments[1]) },
        ModelCommand("INFO", .atLeast(1)) { model, arguments in
            .text(model.information(arguments.count > 1 ? upper(arguments[1]).lowercased() : nil))
        },
        ModelCommand("ROLE", .exactly(1), .noScript) { model, _ in
            model.isReplica
                ? .array([.text("slave"), .text("127.0.0.1"), .integer(0), .text("connected"), .integer(0)])
                : .array([.text("master"), .integer(0), .array([])])
        },
        ModelCommand("CONFIG", .atLeast(2), .noScript) { model, arguments throws(CommandFault) in
            try model.configure(arguments)
        },
        ModelCommand("COMMAND", .atLeast(1)) { _, arguments throws(CommandFault) in
            guard arguments.count > 2, upper(arguments[1]) == "INFO" else { throw .syntax }
            return .array(
                arguments[2...].map {
                    RedisModel.command($0).map { .array([.text($0.name.lowercased())]) } ?? .nullArray
                }
            )
        },
        ModelCommand("CLUSTER", .atLeast(2)) { model, arguments throws(CommandFault) in
            guard let cluster = model.cluster else {
                throw CommandFault("ERR This instance has cluster support disabled")
            }
            switch upper(arguments[1]) {
            case "NODES": return .text(cluster.map.nodes(seenBy: cluster.index))
            case "INFO": return .text("cluster_state:ok\r\ncluster_slots_assigned:16384\r\n")
            default: return .ok
            }
        },
        ModelCommand("FUNCTION", .atLeast(2), .noScript) { model, arguments throws(CommandFault) in
            try model.manageFunctions(arguments)
        },
        ModelCommand("FCALL", .atLeast(3), .noScript) { model, arguments throws(CommandFault) in
            try model.callFunction(arguments, isReadOnly: false)
        },
        ModelCommand("FCALL_RO", .atLeast(3), .noScript) { model, arguments throws(CommandFault) in
            try model.callFunction(arguments, isReadOnly: true)
        },
    ]

    private func information(_ section: String?) -> String {
        let sections: [(name: String, lines: [String])] = [
            (
                "server",
                [
                    "redis_version:7.0.15", "redis_mode:\(self.cluster == nil ? "standalone" : "cluster")",
                    "run_id:\(self.runID)", "tcp_port:6379",
                ]
            ),
            (
                "memory",
                ["used_memory:\(self.usedBytes)", "maxmemory:\(self.settings["maxmemory"] ?? "0")"]
            ),
            ("persistence", ["loading:0", "aof_enabled:1", "aof_last_write_status:ok"]),
            (
                "replication",
                ["role:\(self.isReplica ? "slave" : "master")", "connected_slaves:\(self.replicas)"]
                    + (0..<self.replicas).map { "slave\($0):ip=127.0.0.1,port=6380,state=online,offset=0,lag=0" }
            ),
            ("cluster", ["cluster_enabled:\(self.cluster == nil ? 0 : 1)"]),
        ]
        let shown = sections.filter { section == nil || section == "all" || $0.name == section }
        return shown.map { "# \($0.name.capitalizedFirst)\r\n" + $0.lines.map { $0 + "\r\n" }.joined() }
            .joined(separator: "\r\n")
    }

    private func configure(_ arguments: [Bytes]) throws(CommandFault) -> ModelReply {
        switch upper(arguments[1]) {
        case "GET" where arguments.count > 2:
            let found = self.settings.sorted { $0.key < $1.key }.filter { setting in
                arguments[2...].contains { matches($0[...], Bytes(setting.key.utf8)[...]) }
            }
            return .array(found.flatMap { [.text($0.key), .text($0.value)] })
        case "SET" where arguments.count > 3 && arguments.count.isMultiple(of: 2):
            for index in stride(from: 2, to: arguments.count, by: 2) {
                let name = String(decoding: arguments[index], as: UTF8.self)
                self.settings[name] = String(decoding: arguments[index + 1], as: UTF8.self)
            }
            return .ok
        default: throw .syntax
        }
    }

    private func manageFunctions(_ arguments: [Bytes]) throws(CommandFault) -> ModelReply {
        switch upper(arguments[1]) {
        case "LOAD" where arguments.count == 3 || (arguments.count == 4 && upper(arguments[2]) == "REPLACE"):
            let functions: FunctionEngine
            if let loaded = self.functions { functions = loaded } else { functions = try FunctionEngine(self) }
            self.functions = functions
            return .text(try functions.load(arguments[arguments.count - 1], replaces: arguments.count == 4))
        case "DELETE" where arguments.count == 3:
            guard self.functions?.delete(String(decoding: arguments[2], as: UTF8.self)) == true else {
                throw CommandFault("ERR Library not found")
            }
            return .ok
        case "FLUSH":
            self.functions = nil
            return .ok
        default:
            let name = String(decoding: arguments[1], as: UTF8.self)
            throw CommandFault("ERR unknown subcommand or wrong number of arguments for '\(name)'. Try FUNCTION HELP.")
        }
    }

    private func callFunction(_ arguments: [Bytes], isReadOnly: Bool) throws(CommandFault) -> ModelReply {
        guard let functions = self.functions, let function = functions.function(arguments[1]) else {
            throw CommandFault("ERR Function not found")
        }
        guard let count = parseInteger(arguments[2]) else { throw CommandFault("ERR Bad number of keys provided") }
        guard count <= arguments.count - 3 else {
            throw CommandFault("ERR Number of keys can't be greater than number of args")
        }
        guard count >= 0 else { throw CommandFault("ERR Number of keys can't be negative") }
        let mayWrite = function.mayWrite
        if isReadOnly, mayWrite {
            throw CommandFault("ERR Can not execute a script with write flag using *_ro command.")
        }
        if mayWrite, self.isReplica {
            throw CommandFault("READONLY Can not run script with write flag on readonly replica.")
        }
        if mayWrite, self.isFull, !function.allowsFull {
            throw CommandFault(
                "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"
            )
        }
        let keys = arguments[3..<(3 + Int(count))]
        return functions.call(function, keys: keys, arguments: arguments[keys.endIndex...])
    }
}

extension String {
    fileprivate var capitalizedFirst: String { self.prefix(1).uppercased() + self.dropFirst() }
}
