import ApusCore
import ApusInstallation
import ApusLab
import ApusTLS
import ApusTestKit
import Foundation
import Testing

/// Tests the examples of the articles in JavaScript, Java and Go: they are compiled, and run against a real service or real signatures.
///
/// `Scripts/setup` installs the three languages.
@Suite(.serialized) struct LanguageTests {
    enum Language: String, CaseIterable, Sendable {
        case javascript, java, go
    }

    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// Returns the only block of a language in an article.
    private static func example(_ language: Language, in article: String) throws -> String {
        let text = try String(contentsOf: Self.root.appending(path: "Sources/\(article)"), encoding: .utf8)
        let blocks = text.components(separatedBy: "```\(language.rawValue)\n").dropFirst()
        try #require(blocks.count == 1, "\(article) has \(blocks.count) blocks of \(language)")
        return blocks.first?.components(separatedBy: "\n```").first ?? ""
    }

    /// A program of an example and a main part, compiled.
    private struct Program {
        let language: Language
        let folder: TemporaryFolder

        /// Compiles the files, by their names.
        init(_ language: Language, _ files: [String: String]) throws {
            self.language = language
            self.folder = try TemporaryFolder()
            for (name, text) in files { _ = try self.folder.write(name, text) }
            switch language {
            case .javascript: break
            case .java: try self.run("javac -d classes *.java", [])
            case .go:
                try self.run("GO111MODULE=on GOFLAGS=-mod=mod GOPROXY=off GOCACHE=$PWD/cache go build -o program .", [])
            }
        }

        /// Returns what the program writes.
        func answer(_ arguments: [String]) throws -> String {
            switch self.language {
            case .javascript: try self.run("exec node main.mjs \"$@\"", arguments)
            case .java: try self.run("exec java -cp classes Main \"$@\"", arguments)
            case .go: try self.run("exec ./program \"$@\"", arguments)
            }
        }

        @discardableResult
        private func run(_ command: String, _ arguments: [String]) throws -> String {
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/timeout")
            process.arguments = ["240", "sh", "-c", command, "sh"] + arguments
            process.currentDirectoryURL = URL(filePath: self.folder.path)
            process.environment = ProcessInfo.processInfo.environment.filter {
                !$0.key.lowercased().hasSuffix("_proxy")
            }
            let output = Pipe()
            process.standardOutput = output
            process.standardError = output
            try process.run()
            let said = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            process.waitUntilExit()
            try #require(process.terminationStatus == 0, "\(self.language): \(said)")
            return said.trimmingCharacters(in: .whitespacesAndNewlines)
        }
    }

    // MARK: Webhooks

    /// The files of a program that prints whether a request is genuine. Its arguments: secret, id, timestamp, signatures, body.
    private static func verifier(_ language: Language) throws -> [String: String] {
        let example = try Self.example(language, in: "ApusPublisher/ApusPublisher.docc/Publishing.md")
        switch language {
        case .javascript:
            let main = """
                import { isGenuine } from "./example.mjs";
                const [secret, id, timestamp, signatures, body] = process.argv.slice(2);
                const headers = { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures };
                console.log(isGenuine(secret, headers, Buffer.from(body)));
                """
            return ["main.mjs": main, "example.mjs": example]
        case .java:
            let main = """
                final class Main {
                    public static void main(String[] a) throws Exception {
                        System.out.println(Webhook.isGenuine(a[0].getBytes(), a[1], a[2], a[3], a[4].getBytes()));
                    }
                }
                """
            return ["Main.java": main, "Webhook.java": example]
        case .go:
            let packages = [
                "crypto/hmac", "crypto/sha256", "encoding/base64", "net/http", "strconv", "strings", "time",
            ]
            let imports = packages.map { "\"\($0)\"" }.joined(separator: "\n")
            let main = """
                package main

                import (
                    "fmt"
                    "net/http"
                    "os"
                )

                func main() {
                    header := http.Header{}
                    for k, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
                        header.Set(name, os.Args[k+2])
                    }
                    fmt.Println(isGenuine([]byte(os.Args[1]), header, []byte(os.Args[5])))
                }
                """
            return [
                "main.go": main, "example.go": "package main\n\nimport (\n\(imports)\n)\n\n\(example)\n",
                "go.mod": "module example\n\ngo 1.19\n",
            ]
        }
    }

    @Test(.timeLimit(.minutes(10)), arguments: Language.allCases)
    func `A receiver knows a genuine request, whichever secret signed, and refuses others`(_ language: Language) throws
    {
        let program = try Program(language, Self.verifier(language))
        let (secret, old) = (String(repeating: "s3cret-", count: 6), String(repeating: "former-", count: 6))
        let body = #"{"receipts":[]}"#
        func signature(_ secret: String, _ seconds: Int) -> String {
            let code = HMACSHA256.authenticate(
                Array("0/1-0/1.\(seconds).".utf8),
                Array(body.utf8),
                key: Array(secret.utf8)
            )
            return "v1," + Data(code).base64EncodedString()
        }
        func verdict(_ secret: String, _ seconds: Int, _ signatures: String, _ body: String) throws -> String {
            try program.answer([secret, "0/1-0/1", "\(seconds)", signatures, body])
        }
        let now = Int(Date().timeIntervalSince1970)
        let both = "\(signature(secret, now)) \(signature(old, now))"
        #expect(try verdict(old, now, both, body) == "true")
        #expect(try verdict(secret, now, signature(old, now), body) == "false")
        #expect(try verdict(secret, now, both, body + " ") == "false")
        #expect(try verdict(secret, now - 3_600, signature(secret, now - 3_600), body) == "false")
    }

    // MARK: Publishing

    /// The files of a program that publishes. Its arguments: address, app, key, command, idempotency key.
    private static func publisher(_ language: Language) throws -> [String: String] {
        let example = try Self.example(language, in: "ApusRegistration/ApusRegistration.docc/HTTPAPI.md")
        switch language {
        case .javascript:
            let main = """
                import { send } from "./example.mjs";
                const [url, app, key, command, idempotencyKey] = process.argv.slice(2);
                try {
                    console.log(await send(url, app, key, JSON.parse(command), idempotencyKey));
                } catch (error) {
                    console.log(error.message);
                }
                """
            return ["main.mjs": main, "example.mjs": example]
        case .java:
            let main = """
                final class Main {
                    public static void main(String[] a) throws Exception {
                        try {
                            System.out.println(Apus.send(a[0], a[1], a[2], a[3], a[4]));
                        } catch (java.io.IOException e) {
                            System.out.println(e.getMessage());
                        }
                    }
                }
                """
            return ["Main.java": main, "Apus.java": example]
        case .go:
            let main = """
                package main

                import (
                    "context"
                    "fmt"
                    "os"
                )

                func main() {
                    a := os.Args
                    answer, err := Send(context.Background(), a[1], a[2], a[3], a[4], a[5])
                    if err != nil {
                        answer = err.Error()
                    }
                    fmt.Println(answer)
                }
                """
            return [
                "main.go": main, "example.go": example.replacing("package apus\n", with: "package main\n"),
                "go.mod": "module example\n\ngo 1.19\n",
            ]
        }
    }

    @Test(.timeLimit(.minutes(10)))
    func `A program in each language publishes, repeats without a second send, and tells what is wrong`() async throws {
        try await Fleet.with { fleet in
            let now = SystemClock().now()
            let keys = APIKeys(fleet.installation.client)
            let key = try await keys.create(AppID(Fleet.app), name: "examples", role: .publish, now: now)
            let (registration, port) = try await fleet.startRegistration()
            for language in Language.allCases {
                let program = try Program(language, Self.publisher(language))
                func send(_ command: String) throws -> String {
                    let address = "http://127.0.0.1:\(port)"
                    return try program.answer([address, Fleet.app, key, command, "order-of-\(language)"])
                }
                let command = #"{"target": {"users": ["ada"]}, "notification": {"title": "Your order is on its way"}}"#
                let first = try send(command)
                let again = try send(command)
                func id(_ answer: String) -> String {
                    let json = try? JSONValue(parsing: Array(answer.utf8), bytesMax: 1 << 20)
                    return json?["send"]?.string ?? answer
                }
                #expect(id(first) == id(again) && id(first).utf8.count >= 8, "\(language): \(first), \(again)")
                let refused = try send(#"{"target": {"usrs": ["ada"]}, "notification": {}}"#)
                #expect(refused.contains("did you mean users?"), "\(language): \(refused)")
            }
            try await registration.terminate()
        }
    }
}
