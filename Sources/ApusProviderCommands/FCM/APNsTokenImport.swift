internal import ApusAPNs
internal import ApusCore
internal import ApusFCM
internal import ApusHTTP2
internal import ApusProviders
internal import ApusTerminal

/// Turns registrations of Apple's tokens into registrations at FCM: for apps that receive notifications by Firebase from now on.
///
/// A line is an object as the import of a store reads it. Lines of other providers stay as they are.
package struct APNsTokenImport {
    /// A line that gets no registration token.
    package struct Refusal: Hashable, Sendable {
        /// The number of the line, from 1.
        package let line: Int
        /// The reason.
        package let word: String
    }

    private let access: ProviderAccess
    private let bundleID: String
    /// The number of lines that were read.
    package private(set) var lines = 0
    /// The number of tokens that were exchanged.
    package private(set) var exchanged = 0
    /// The lines without a registration token.
    package private(set) var refusals: [Refusal] = []

    /// Creates an import.
    ///
    /// - Parameter bundleID: the bundle id of the tokens' app; nil for `apns.topic` of the configuration.
    /// - Throws: `CommandFailure` when neither is known.
    package init(_ access: ProviderAccess, bundleID: String?) throws {
        guard let bundleID = bundleID ?? access.settings.apns?.topic else {
            throw CommandFailure("the app has no apns.topic in the configuration: name the bundle id with --bundle-id")
        }
        self.access = access
        self.bundleID = bundleID
    }

    /// A line with its number, from 1.
    package typealias NumberedLine = (number: Int, bytes: [UInt8])

    /// Exchanges the tokens of all lines, and gives the lines to `body`: changed ones as their tokens are known, others as they are.
    package mutating func run(
        _ next: () -> [UInt8]?,
        _ body: (_ lines: [NumberedLine], _ areExchanged: Bool) async throws -> Void,
    ) async throws {
        try await self.access.withFCM(isInstanceID: true) { client in
            var batches: [Bool: [Line]] = [:]
            while let bytes = next() {
                self.lines += 1
                guard !bytes.isEmpty else { continue }
                guard let line = Line(bytes, number: self.lines) else {
                    try await body([(self.lines, bytes)], false)
                    continue
                }
                batches[line.isSandbox, default: []].append(line)
                guard batches[line.isSandbox]?.count == TokenImport.tokensMax else { continue }
                try await body(try await self.exchange(batches.removeValue(forKey: line.isSandbox) ?? [], client), true)
            }
            for batch in batches.values { try await body(try await self.exchange(batch, client), true) }
        }
    }

    /// A line with a token of Apple.
    private struct Line {
        let number: Int
        let object: JSONObject
        let token: String
        let isSandbox: Bool

        /// Reads a line; nil for one of another provider, and for one that the store will refuse.
        init?(_ bytes: [UInt8], number: Int) {
            guard case .object(let object)? = try? JSONValue(parsing: bytes, bytesMax: Limits.sendCommandBytesMax),
                object["provider"]?.string == Provider.apns.name, let token = object["token"]?.string,
                ["", "device"].contains(object["token_kind"]?.string ?? "")
            else { return nil }
            self.number = number
            self.object = object
            self.token = token
            self.isSandbox = object["environment"]?.string == ProviderEnvironment.sandbox.name
        }

        func registered(with token: String) -> [UInt8] {
            var object = self.object
            object["provider"] = .string(Provider.fcm.name)
            object["token"] = .string(token)
            for name in ["environment", "token_kind", "activities"] { object[name] = nil }
            return JSONValue.object(object).bytes
        }
    }

    private mutating func exchange(_ lines: [Line], _ client: ProviderAccess.FCMClient) async throws -> [NumberedLine] {
        guard let first = lines.first else { return [] }
        let request = try TokenImport.request(
            lines.map(\.token),
            bundleID: self.bundleID,
            isSandbox: first.isSandbox,
            authority: client.address.authority,
            authorization: try await client.authorization(),
        )
        let answer = await client.connection()?.send(request)
        let results = TokenImport.results(status: answer?.status ?? 503, body: answer?.body ?? [], count: lines.count)
        var registered: [NumberedLine] = []
        for (line, result) in zip(lines, results) {
            switch result {
            case .token(let token):
                self.exchanged += 1
                registered.append((line.number, line.registered(with: token)))
            case .later: self.refusals.append(Refusal(line: line.number, word: "no answer for now; import it again"))
            case .refused(let word): self.refusals.append(Refusal(line: line.number, word: "FCM: \(word)"))
            }
        }
        return registered
    }
}
