internal import ApusCore
internal import ApusRegistration

/// Bodies of the HTTP API.
extension FuzzTarget {
    private static let registrationWords =
        Self.jsonWords + [
            "\"device\":", "\"provider\":\"apns\"", "\"provider\":\"webpush\"", "\"token\":\"00ff\"", "\"user\":",
            "\"topics\":[", "\"attributes\":",
            "\"locale\":\"de-AT\"", "\"time_zone\":", "\"tags\":", "\"badge\":", "\"subscription\":",
            "\"endpoint\":\"https://fcm.googleapis.com/fcm/send/x\"",
            "\"keys\":", "\"p256dh\":", "\"auth\":", "\"environment\":\"sandbox\"", "\"token_kind\":",
            "\"activities\":", "\"expires_at_ms\":",
        ]
    private static let sendWords =
        Self.jsonWords + [
            "\"target\":", "\"notification\":", "\"topic\":\"news\"", "\"users\":", "\"devices\":", "\"tokens\":",
            "\"title\":", "\"body\":", "\"data\":",
            "\"ttl_ms\":", "\"apns_json\":", "\"variants\":", "\"locale\":", "\"sound\":", "\"live_activity\":",
            "\"dry_run\":true", "\"not_before_ms\":",
            "\"expression\":", "\"condition\":", "\"everyone\":", "\"kind\":\"alert\"", "\"badge\":{\"set\":1}",
            "\"id\":",
        ]

    static let bodies = [
        Self.body(
            "body-registration",
            .registration,
            Self.registrationWords,
            [
                #"{"provider":"apns","token":"00fc13ad","user":"ada","topics":["news"],"attributes":{"locale":"de-AT","tags":["a"]},"badge":3}"#,
                #"{"provider":"webpush","subscription":{"endpoint":"https://fcm.googleapis.com/fcm/send/x","keys":{"p256dh":"BA","auth":"AA"}}}"#,
            ]
        ),
        Self.body(
            "body-patch",
            .patch,
            Self.registrationWords,
            [#"{"user":null,"badge":0,"attributes":{"locale":"en","tags":null}}"#, #"{"attributes":null}"#]
        ),
        Self.body(
            "body-send",
            .send,
            Self.sendWords,
            [
                #"{"target":{"topic":"news"},"notification":{"title":"a","body":"b","data":{"k":"v"}}}"#,
                #"{"target":{"users":["u"]},"notification":{"kind":"background","apns_json":{"aps":{"x":1}}},"id":"s","dry_run":true}"#,
            ]
        ),
        Self.body(
            "body-events",
            .events,
            Self.jsonWords + [
                "\"events\":[", "\"id\":", "\"send\":", "\"kind\":\"opened\"", "\"action\":", "\"at_ms\":",
            ],
            [#"{"events":[{"id":"1","send":"s","kind":"opened","at_ms":1700000000000}]}"#]
        ),
        Self.body(
            "body-gorush",
            .gorush,
            Self.jsonWords + [
                "\"notifications\":[", "\"tokens\":[", "\"platform\":1", "\"platform\":2", "\"message\":",
                "\"to\":\"/topics/x\"", "\"alert\":{", "\"badge\":",
                "\"expiration\":", "\"collapse_id\":", "\"push_type\":", "\"condition\":", "\"sound\":",
                "\"huawei_notification\":",
            ],
            [
                #"{"notifications":[{"tokens":["00ff"],"platform":1,"message":"Hi","badge":1,"alert":{"title":"t"},"expiration":1}]}"#,
                #"{"notifications":[{"to":"/topics/x","platform":2,"message":"Hi","data":{"a":1},"sound":{"name":"x"}}]}"#,
            ]
        ),
        Self.body(
            "body-matrix",
            .matrix,
            Self.jsonWords + [
                "\"notification\":{", "\"devices\":[{", "\"app_id\":", "\"pushkey\":", "\"counts\":{", "\"unread\":",
                "\"prio\":\"low\"", "\"content\":{",
                "\"event_id\":", "\"tweaks\":{", "\"data\":{", "\"default_payload\":{", "\"format\":\"event_id_only\"",
            ],
            [
                #"{"notification":{"event_id":"$1","room_id":"!r","type":"m.room.message","sender":"@a:b","content":{"body":"x"},"counts":{"unread":2},"devices":[{"app_id":"shop.ios","pushkey":"AP8","data":{"default_payload":{"aps":{}}},"tweaks":{"sound":"bing"}}]}}"#
            ]
        ),
        FuzzTarget(
            "import-lines",
            words: Self.registrationWords + ["\n", "\r\n"],
            seeds: [
                (#"{"device":"d","provider":"apns","token":"00fc"}"# + "\n\n"
                    + #"{"device":"e","provider":"fcm","token":"t"}"#).bytes
            ]
        ) { input in
            func lines(_ pieces: [ArraySlice<UInt8>], linesMax: Int = .max) -> [LineSplitter.Line] {
                var splitter = LineSplitter(lineBytesMax: 512)
                var lines: [LineSplitter.Line] = []
                for piece in pieces {
                    var rest = piece
                    repeat {
                        rest = splitter.append(rest, linesMax: linesMax)
                        lines += splitter.take()
                    } while !rest.isEmpty
                }
                splitter.finish()
                return lines + splitter.take()
            }
            let whole = lines([input[...]])
            try require(whole == lines(input.indices.map { input[$0...$0] }), "other lines in pieces")
            try require(whole == lines([input[...]], linesMax: 1), "other lines one by one")
            for line in whole {
                guard let bytes = line.bytes else { continue }
                try require(bytes.count <= 512 && !bytes.contains(0x0a), "a line of \(bytes.count) bytes")
                _ = try? DeviceLine(parsing: bytes, hosts: EndpointHosts())
            }
        },
    ]

    private static func body(
        _ name: String,
        _ kind: RequestBodyReading.Kind,
        _ words: [String],
        _ seeds: [String],
    ) -> FuzzTarget {
        FuzzTarget(name, words: words, seeds: seeds.map(\.bytes)) { input in
            if kind == .gorush, let answer = RequestBodyReading.gorushAnswer(to: input) {
                try require(answer.count <= 1_536 * 1_024, "\(answer.count) bytes of answer")
            }
            guard let refusal = RequestBodyReading.refusal(of: input, as: kind) else { return }
            try require((400...422).contains(refusal.status), "refused with \(refusal.status)")
            try require(refusal.body.count <= 64 * 1_024, "\(refusal.body.count) bytes of refusal")
            _ = try JSONValue(parsing: refusal.body, bytesMax: 64 * 1_024)
        }
    }
}
