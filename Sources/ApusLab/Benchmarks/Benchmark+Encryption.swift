internal import ApusCore
internal import ApusSimulator
internal import ApusTLS
internal import ApusTestKit
internal import ApusWebPush
internal import CEncryptionLimit
internal import FoundationEssentials
internal import Glibc

extension Benchmark {
    private static let contentBytes = 200
    private static let messages = 5_000
    private static let recordBytes = 120
    private static let slabRecords = 64
    private static let records = 64_000
    /// The messages of the Python library, which takes much longer.
    private static let pythonMessages = 500

    static let encryption = Benchmark(
        "encryption",
        "The processor time to encrypt a message for a browser, against that of OpenSSL alone.",
        figure: "over_openssl",
        bar: 1.25,
    ) { _ in
        // The limit before and after: the clock rate of the processor may change.
        let before = try Self.limitSeconds()
        let own = try Self.ownSeconds()
        let limit = (before + (try Self.limitSeconds())) / 2
        let perMessage = 1e6 / Double(Self.messages)
        var figures = [
            "over_openssl": own / limit, "openssl_us": limit * perMessage, "apus_us": own * perMessage,
            "record_us": try Self.recordSeconds() * 1e6 / Double(Self.records),
        ]
        if let python = try await Self.pythonSeconds() {
            figures["pywebpush_us"] = python * 1e6 / Double(Self.pythonMessages)
        }
        return figures
    }

    private static func limitSeconds() throws -> Double {
        let seconds = encryption_limit_seconds(UInt32(Self.messages), UInt32(Self.contentBytes))
        guard seconds > 0 else { throw LocalClusterError("OpenSSL failed a step of the limit") }
        return seconds
    }

    /// Each message goes to another browser, whose keys are read from the form in which a device's record has them.
    private static func ownSeconds() throws -> Double {
        let keys = try (0..<1_000).map { index in
            let browser = SimulatedBrowser(endpoint: SimulatedBrowser.Service.mozilla.endpoint("bench-\(index)"))
            guard let point = Base64URL.decode(browser.p256dh), let secret = Base64URL.decode(browser.auth),
                let keys = WebPushKeys(publicKey: point, secret: secret)
            else { throw LocalClusterError("a simulated browser has no keys") }
            return keys
        }
        let content = [UInt8](repeating: 0x61, count: Self.contentBytes)
        let start = Self.threadSeconds
        var bytes = 0
        for index in 0..<Self.messages {
            bytes += try WebPushEncryption.encrypt(content, to: keys[index % keys.count]).count
        }
        let seconds = Self.threadSeconds - start
        guard bytes > Self.messages * Self.contentBytes else { throw LocalClusterError("the messages are empty") }
        return seconds
    }

    /// The time to decrypt records as a unit of a send has them: those of a slab, one after the other.
    private static func recordSeconds() throws -> Double {
        let key = [UInt8](repeating: 7, count: XAES256GCM.keyBytes)
        var cipher = XAES256GCM(key: key)
        let record = [UInt8](repeating: 0x61, count: Self.recordBytes)
        let sealed = (0..<Self.slabRecords).map { number in
            let nonce = [UInt8](repeating: UInt8(number), count: XAES256GCM.nonceBytes)
            return (nonce: nonce, record: cipher.seal(record, nonce: nonce, context: [1]))
        }
        var opened: [UInt8] = []
        let start = Self.threadSeconds
        for _ in 0..<Self.records / Self.slabRecords {
            var cipher = XAES256GCM(key: key)
            for (nonce, record) in sealed {
                opened.removeAll(keepingCapacity: true)
                guard cipher.open(record.span, nonce: nonce.span, context: [1], appendingTo: &opened) else {
                    throw LocalClusterError("a record could not be decrypted")
                }
            }
        }
        return Self.threadSeconds - start
    }

    private static var threadSeconds: Double {
        var now = timespec()
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
        return Double(now.tv_sec) + Double(now.tv_nsec) / 1e9
    }

    /// The processor seconds of pywebpush; nil where `APUS_PYTHON` names no interpreter that has it.
    private static func pythonSeconds() async throws -> Double? {
        guard let python = ProcessInfo.processInfo.environment["APUS_PYTHON"] else { return nil }
        let browser = SimulatedBrowser(endpoint: SimulatedBrowser.Service.mozilla.endpoint("bench"))
        let script = """
            import json, sys, time, pywebpush
            pusher = pywebpush.WebPusher(json.loads(sys.argv[1]))
            content = b"a" * int(sys.argv[2])
            start = time.process_time()
            for _ in range(int(sys.argv[3])): pusher.encode(content, "aes128gcm")
            print(time.process_time() - start)
            """
        let folder = try TemporaryFolder()
        let process = try await WatchedProcess(
            [
                python, "-c", script, browser.subscription.text, "\(Self.contentBytes)", "\(Self.pythonMessages)",
            ],
            directory: folder.path,
        )
        let deadline = ContinuousClock.now + .seconds(120)
        while process.isRunning, ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(50)) }
        await process.end(keepingDirectory: true)
        let output = (try? String(contentsOfFile: "\(folder.path)/log", encoding: .utf8)) ?? ""
        guard let seconds = output.split(separator: "\n").first.flatMap({ Double($0) }) else {
            throw LocalClusterError("pywebpush failed: \(output)")
        }
        return seconds
    }
}
