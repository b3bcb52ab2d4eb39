import ApusCore
import ApusInstallation
import Foundation
import Testing

/// Tests the rights of Redis' users against the sources.
@Suite struct RedisUserTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private static func commands(of user: RedisUser) -> Set<String> {
        Set(user.rules(named: user.defaultName).filter { $0.hasPrefix("+") }.map { String($0.dropFirst()) })
    }

    @Test(arguments: RedisUser.allCases)
    func `The file of a user is what the program prints`(_ user: RedisUser) throws {
        let file = Self.root.appending(path: "Scripts/deploy/redis/\(user.defaultName).acl")
        let text = try String(contentsOf: file, encoding: .utf8)
        #expect(text == user.line(named: user.defaultName, password: ">PASSWORD") + "\n")
    }

    @Test func `Services may execute every command of the functions`() throws {
        var used: Set<String> = []
        for target in ["ApusStreams", "ApusStore"] {
            let folder = Self.root.appending(path: "Sources/\(target)/Functions")
            for file in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
            where file.pathExtension == "lua" {
                let text = try String(contentsOf: file, encoding: .utf8)
                for match in text.matches(of: /redis\.p?call\(\s*'([A-Za-z]+)'(?:,\s*'([A-Z]+)')?/) {
                    let command = match.1.lowercased()
                    let isContainer = ["xgroup", "xinfo", "memory"].contains(command)
                    used.insert(isContainer ? "\(command)|\((match.2 ?? "").lowercased())" : command)
                }
            }
        }
        #expect(used.count > 50)
        for user in [RedisUser.registration, .dispatcher, .feedback, .operator] {
            #expect(used.subtracting(Self.commands(of: user)) == [], "\(user)")
        }
    }

    @Test(arguments: RedisUser.allCases)
    func `Nobody may run scripts, change Redis or touch the keys of others`(_ user: RedisUser) {
        let rules = user.rules(named: user.defaultName)
        let commands = Self.commands(of: user)
        let forbidden = [
            "eval", "script", "function", "config", "keys", "flushall", "flushdb", "restore", "migrate", "debug", "acl",
            "shutdown",
            "replicaof", "monitor", "client|kill", "cluster|setslot", "sort", "swapdb", "module", "dump",
        ]
        #expect(!commands.contains { command in forbidden.contains { command == $0 || command.hasPrefix("\($0)|") } })
        #expect(
            !rules.contains { $0.contains("@all") && $0 != "-@all" } && !rules.contains("allkeys")
                && !rules.contains("~*")
        )
        #expect(rules.contains("resetchannels"))
        for rule in rules where rule.hasPrefix("~") || rule.hasPrefix("%") {
            #expect(rule.contains("~{q*}") || rule.contains("~{t*}") || rule.contains("~apus:"), "\(rule)")
        }
    }

    @Test func `A publisher reads the receipts of its own name only, and a name cannot widen a pattern`() {
        for user in [RedisUser.publisher, .appPublisher] {
            let receipts = user.rules(named: "shop").filter { $0.contains("receipts:") }
            #expect(receipts == ["%R~apus:receipts:shop", "%R~apus:receipts:shop:*"])
            #expect(!Self.commands(of: user).contains("client|unblock"))
        }
        for name in ["", "a b", "a.b", "a_b", "Shop", "a*", "a?", "[a]", "ä", "a:b", String(repeating: "a", count: 65)]
        {
            #expect(throws: IdentifierError.self) { try PublisherName(name) }
        }
        for name in ["shop-backend-1", String(repeating: "a", count: 64)] {
            #expect(throws: Never.self) { try PublisherName(name) }
        }
    }
}
