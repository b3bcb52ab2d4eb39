import ApusCore
import ApusTestKit
import Foundation
import Testing

/// `apus config check`, `show` and `schema`.
@Suite struct ConfigCommandTests {
    private static let good = """
        redis: {url: "redis://redis.example:6379"}
        log: {level: warning}
        apps:
          shop:
            auth:
              api_keys:
                backend: {sha256: "\(String(repeating: "5e", count: 32))", role: register}
        dispatcher: {lease: 12s}
        """

    private func with(_ yaml: String, _ body: (_ file: String) throws -> Void) throws {
        let folder = try TemporaryDirectory.make("apus-config")
        defer { TemporaryDirectory.remove(folder) }
        let file = "\(folder)/apus.yaml"
        try yaml.write(toFile: file, atomically: true, encoding: .utf8)
        try body(file)
    }

    @Test func `A valid configuration is shown with the origins of its values, without secrets`() throws {
        try self.with(Self.good) { file in
            let check = try OperatorProgram.run(["config", "check", "--json", "--config", file])
            #expect(check.code == 0 && check.json?["valid"] == true && check.json?["mistakes"]?.array == [])
            #expect(check.json?["file"]?.string == file && check.json?["apps"] == ["shop"])
            // The app has no provider; Redis is on another machine, without TLS and without a password.
            let warnings = check.json?["warnings"]?.array ?? []
            #expect(warnings.compactMap { $0["key"]?.string } == ["apps.shop", "redis.url", "redis.url"])
            let text = try OperatorProgram.run(["config", "check", "--config", file])
            #expect(text.code == 0 && text.lines.count == 4)
            #expect(text.lines.first == "\(file): valid for all services, 1 app: shop")
            #expect(text.lines.dropFirst().first?.hasPrefix("warning: apps.shop has no provider") == true)
            #expect(text.lines.dropFirst(2).allSatisfy { $0.hasPrefix("warning: redis.url reaches redis.example ") })

            let show = try OperatorProgram.run(
                ["config", "show", "--json", "--config", file],
                environment: ["APUS_LOG_FORMAT": "json"]
            )
            #expect(show.code == 0)
            let settings = show.json?["settings"]?.array ?? []
            func setting(_ key: String) -> JSONValue? { settings.first { $0["key"]?.string == key } }
            #expect(setting("redis.url")?["value"]?.string == "redis://redis.example:6379")
            #expect(setting("redis.url")?["from"]?.string == "apus.yaml:1")
            #expect(setting("redis.url")?["services"]?.array?.count == 3)
            #expect(setting("log.format")?["from"]?.string == "APUS_LOG_FORMAT")
            #expect(setting("dispatcher.lease")?["value"]?.string == "12s")
            #expect(setting("dispatcher.lease")?["services"] == ["dispatcher"])
            #expect(setting("feedback.lease")?["from"]?.string == "default")
            #expect(settings.filter { $0["key"]?.string == "admin.listen" }.count == 3)
            #expect(!String(decoding: show.output, as: UTF8.self).contains("5e5e"))

            let given = try OperatorProgram.run(
                ["config", "show", "--given", "--service", "feedback", "--json", "--config", file]
            )
            #expect(
                given.json?["settings"]?.array?.compactMap { $0["key"]?.string } == [
                    "redis.url", "log.level", "apps.shop.auth.api_keys.backend.sha256",
                    "apps.shop.auth.api_keys.backend.role",
                ]
            )
            let table = try OperatorProgram.run(["config", "show", "--config", file])
            #expect(table.code == 0 && table.lines.first?.hasPrefix("KEY") == true && table.lines.count > 40)
        }
    }

    @Test func `Every mistake is reported once, with the services that it stops, and exit code 1`() throws {
        try self.with(Self.good + "\nsurprise: 1\nfeedback: {lease: hunter2}\n") { file in
            let check = try OperatorProgram.run(["config", "check", "--json", "--config", file])
            #expect(check.code == 1 && check.json?["valid"] == false)
            let mistakes = check.json?["mistakes"]?.array ?? []
            #expect(mistakes.count == 2)
            #expect(mistakes.first?["key"]?.string == "surprise")
            #expect(mistakes.first?["services"]?.array?.count == 3)
            #expect(mistakes.last?["key"]?.string == "feedback.lease" && mistakes.last?["services"] == ["feedback"])
            let text = try OperatorProgram.run(["config", "check", "--config", file])
            #expect(text.code == 1 && text.lines.count == 3)
            #expect(text.lines.first == "\(file): 2 mistakes")
            #expect(text.lines.dropFirst().first?.hasSuffix("[all services]") == true)

            let show = try OperatorProgram.run(["config", "show", "--config", file])
            #expect(show.code == 1 && show.talk.contains("apus config check"))
            #expect(!String(decoding: show.output, as: UTF8.self).contains("hunter2"))
        }
        let absent = try OperatorProgram.run(["config", "show", "--config", "/nowhere/apus.yaml"])
        #expect(absent.code == 1 && absent.talk.contains("cannot be read"))
        let wrong = try OperatorProgram.run(["config", "show", "--service", "mailer"])
        #expect(wrong.code == 64 && wrong.talk.contains("registration, dispatcher, feedback"))
    }

    @Test func `An address of Redis that cannot be parsed is a mistake, and its password is not shown`() throws {
        try self.with("redis: {url: \"redis://:hunter2/x@redis.example:6379\"}\n") { file in
            let check = try OperatorProgram.run(["config", "check", "--json", "--config", file])
            let mistakes = check.json?["mistakes"]?.array ?? []
            #expect(check.code == 1 && mistakes.count == 1 && mistakes.first?["key"]?.string == "redis.url")
            let show = try OperatorProgram.run(["config", "show", "--json", "--config", file])
            let url = show.json?["settings"]?.array?.first { $0["key"]?.string == "redis.url" }
            #expect(show.code == 1 && url?["value"]?.string == "(refused)")
            for arguments in [["--check"], []] {
                let own = try OperatorProgram.run(arguments + ["--config", file], program: "apus-feedback")
                #expect(own.code == 64 && own.talk.contains("written as %2F"), "\(own.talk)")
                #expect(!own.talk.contains("hunter2"))
            }
        }
    }

    @Test func `Files that a service cannot start with are mistakes, though they can be read`() throws {
        let folder = try TemporaryDirectory.make("apus-files")
        defer { TemporaryDirectory.remove(folder) }
        let (garbage, keySet, secret) = ("\(folder)/garbage", "\(folder)/jwks.json", "\(folder)/secret")
        try String(repeating: "0a", count: 32).write(toFile: secret, atomically: true, encoding: .utf8)
        try "garbage".write(toFile: garbage, atomically: true, encoding: .utf8)
        try #"{"keys":[]}"#.write(toFile: keySet, atomically: true, encoding: .utf8)
        let files = "{certificate_file: \(garbage), key_file: \(garbage)}"
        for (yaml, key, services) in [
            ("registration: {tls: \(files)}", "registration.tls", ["registration"]),
            ("admin: {tls: \(files)}", "admin.tls", ["registration", "dispatcher", "feedback"]),
            (
                "tracing: {endpoint: \"https://collector:4318\", ca_file: \(garbage)}", "tracing.ca_file",
                ["registration", "dispatcher", "feedback"]
            ),
            (
                "feedback: {webhook: {url: \"https://hooks.example\", secret_file: \(secret), ca_file: \(garbage)}}",
                "feedback.webhook.ca_file", ["feedback"]
            ),
            (
                "  news: {auth: {jwt: {algorithm: es256, jwks_file: \(keySet), audience: news}}}",
                "apps.news.auth.jwt", ["registration"]
            ),
        ] {
            let configuration = Self.good.replacing("\ndispatcher: {lease: 12s}", with: "\n\(yaml)")
            try self.with(configuration) { file in
                let check = try OperatorProgram.run(["config", "check", "--json", "--config", file])
                let mistakes = check.json?["mistakes"]?.array ?? []
                #expect(check.code == 1 && mistakes.count == 1, "\(yaml): \(check.lines)")
                #expect(mistakes.first?["key"]?.string == key)
                #expect(mistakes.first?["services"]?.array?.compactMap(\.string) == services)
                for service in ["registration", "dispatcher", "feedback"] {
                    let own = try OperatorProgram.run(["--check", "--config", file], program: "apus-\(service)")
                    #expect(own.code == (services.contains(service) ? 64 : 0), "\(service): \(own.talk)")
                    #expect(own.talk.contains(key) == services.contains(service), "\(service): \(own.talk)")
                }
            }
        }
    }

    @Test func `Credentials that a dispatcher cannot start with are mistakes, and all of them are told`() throws {
        let folder = try TemporaryDirectory.make("apus-credentials")
        defer { TemporaryDirectory.remove(folder) }
        for (name, text) in [("bad.p8", "garbage"), ("account.json", #"{"a":1}"#), ("ca.pem", "none")] {
            try text.write(toFile: "\(folder)/\(name)", atomically: true, encoding: .utf8)
        }
        let apns = "{team_id: ABCDE12345, key_id: FGHIJ67890, key_file: \(folder)/bad.p8, topic: com.example.demo"
        let fcm = "{project_id: demo-12345, service_account_file: \(folder)/account.json, ca_file: \(folder)/ca.pem}"
        let vapid = "key_file: \(folder)/bad.p8, older_key_files: [\(folder)/ca.pem], subject: \"mailto:a@example.com\""
        let yaml = """
            apps:
              demo:
                apns: \(apns), environments: [production, sandbox], ca_file: \(folder)/ca.pem}
                fcm: \(fcm)
              web:
                webpush: {\(vapid)}
            """
        let keys = [
            "apps.demo.apns.key_file", "apps.demo.apns.ca_file", "apps.demo.fcm.ca_file",
            "apps.demo.fcm.service_account_file", "apps.web.webpush.key_file", "apps.web.webpush.older_key_files",
        ]
        try self.with(yaml) { file in
            let check = try OperatorProgram.run(["config", "check", "--json", "--config", file])
            let mistakes = check.json?["mistakes"]?.array ?? []
            #expect(check.code == 1 && mistakes.compactMap { $0["key"]?.string } == keys, "\(check.lines)")
            #expect(mistakes.allSatisfy { $0["services"] == ["dispatcher"] })
            // A dispatcher that starts says the same at once: it connects to nothing before.
            for arguments in [["--check"], []] {
                let own = try OperatorProgram.run(arguments + ["--config", file], program: "apus-dispatcher")
                #expect(own.code == 64 && own.talk.contains("the configuration has 6 mistakes:"), "\(own.talk)")
                #expect(keys.allSatisfy { own.talk.contains("\n  \($0): cannot be used: ") }, "\(own.talk)")
            }
            for service in ["apus-registration", "apus-feedback"] {
                #expect(try OperatorProgram.run(["--check", "--config", file], program: service).code == 0)
            }
        }
    }

    @Test func `A check names its file and its apps, and warns where there is none`() throws {
        try self.with("apps: {}\nlog: {level: info}\n") { file in
            let empty = try OperatorProgram.run(["config", "check", "--config", file])
            #expect(empty.code == 0 && empty.lines.first == "\(file): valid for all services, no apps")
            #expect(empty.lines.dropFirst().first?.hasPrefix("warning: apps has no app. ") == true)
            let own = try OperatorProgram.run(["--check", "--config", file], program: "apus-feedback")
            #expect(own.code == 0 && own.lines == ["\(file): valid, no apps"])
            #expect(own.talk.hasPrefix("warning: apps has no app. "))
        }
        // Only a machine with an installation of its own has the default file.
        guard !FileManager.default.fileExists(atPath: "/etc/apus/apus.yaml") else { return }
        let none = try OperatorProgram.run(["config", "check"])
        #expect(none.code == 0)
        #expect(none.lines.first == "no file, environment and defaults only: valid for all services, no apps")
        #expect(none.lines.dropFirst().first?.hasPrefix("warning: no file was read") == true)
        let json = try OperatorProgram.run(["config", "check", "--json"]).json
        #expect(json?["file"] == .null && json?["apps"] == [])
        #expect(json?["warnings"]?.array?.compactMap { $0["key"]?.string } == ["", "apps"])
        let own = try OperatorProgram.run(["--check"], program: "apus-dispatcher")
        #expect(own.code == 0 && own.talk.contains("warning: no file was read"))
    }

    @Test func `The schema has every setting with its kind, its range and its default`() throws {
        let answer = try OperatorProgram.run(["config", "schema"])
        #expect(answer.code == 0)
        let schema = try JSONValue(parsing: answer.output, bytesMax: 1 << 20, depthMax: 32)
        #expect(schema["$schema"]?.string == "https://json-schema.org/draft/2020-12/schema")
        func at(_ path: String...) -> JSONValue? {
            path.reduce(schema) { $1 == "*" ? $0?["additionalProperties"] : $0?["properties"]?[$1] }
        }
        #expect(at("redis", "url")?["default"]?.string == "redis://127.0.0.1:6379")
        #expect(at("dispatcher", "redis", "url") == at("redis", "url"))
        #expect(at("event_loops")?["maximum"]?.int64 == 256 && at("event_loops")?["default"]?.int64 == 0)
        #expect(at("drain_timeout")?["default"]?.string == "25s")
        #expect(at("log", "format")?["enum"] == ["auto", "json", "text"])
        #expect(at("apps", "*", "fcm", "rate_per_minute")?["default"]?.int64 == 600_000)
        let share = at("apps", "*", "fcm", "rate_per_minute")?["description"]?.string
        #expect(share?.contains("share evenly") == true)
        #expect(at("apps", "*", "auth", "api_keys", "*", "role")?["enum"]?.array?.count == 3)
        #expect(at("feedback", "webhook", "attempts")?["default"]?.int64 == 1_000)
        #expect(at("registration", "tls", "key_file")?["type"]?.string == "string")
        #expect(at("apps", "*", "webpush", "hosts")?["default"]?.array == [])
        #expect(at("apps", "*", "webpush", "older_key_files")?["default"]?.array == [])
        #expect(at("apps", "*", "cors_origins")?["default"]?.array == [])
        #expect(schema["additionalProperties"] == false && at("redis")?["additionalProperties"] == false)
    }
}
