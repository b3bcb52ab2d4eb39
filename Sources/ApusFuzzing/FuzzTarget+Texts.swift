internal import ApusCore
internal import ApusProviders
internal import ApusStore
internal import ApusYAML

/// Formats of text.
extension FuzzTarget {
    static let jsonWords = [
        "{", "}", "[", "]", ":", ",", "\"", "null", "true", "false", "1e308", "-0", "\\u0000", "\\ud83d\\ude00",
        "\\ud800", "1.5",
        "18446744073709551616",
    ]

    static let texts = [
        FuzzTarget(
            "json",
            words: Self.jsonWords,
            seeds: [
                #"{"a":[1,-2.5e3,"x\u00e9\n",true,false,null],"b":{"c":{}}}"#.bytes, #"[[[[]]]]"#.bytes,
                #""é🦅\ud83e\udd85""#.bytes,
                "-0.0".bytes,
            ]
        ) { input in
            guard let value = try? JSONValue(parsing: input, bytesMax: 65_536) else { return }
            var written: [UInt8] = []
            JSONWriter.append(value, to: &written)
            let again = try JSONValue(parsing: written, bytesMax: 1_000_000)
            try require(again == value, "changed by writing: \(String(decoding: written, as: UTF8.self))")
        },
        FuzzTarget(
            "audience",
            words: [
                "platform == 'ios'", " && ", " || ", "!", "(", ")", " in topics", "'news'", "locale", "country",
                "app_version", "tag", "seen",
                " >= ", " < ", " != ", " in ", "[", "]", ",", "'1.2.3'", "now", "-30d", "true",
            ],
            seeds: [
                "platform == 'ios' && locale in ['en', 'fr']".bytes, "'news' in topics && !('sport' in topics)".bytes,
                "app_version >= '1.2.3' || country == 'DE'".bytes,
            ]
        ) { input in
            guard let text = input.validText else { return }
            let expression: AudienceExpression
            do throws(AudienceError) {
                expression = try AudienceExpression(parsing: text)
            } catch {
                return try require(error.offset <= input.count, "an error at byte \(error.offset) of \(input.count)")
            }
            _ = expression.topics
            let again = try AudienceExpression(parsing: expression.text)
            try require(again == expression, "changed by writing: \(expression.text)")
        },
        FuzzTarget(
            "condition",
            words: ["'news' in topics", " && ", " || ", "!", "(", ")"],
            seeds: ["'a' in topics && ('b' in topics || !('c' in topics))".bytes]
        ) { input in
            guard let text = input.validText, let condition = try? TopicCondition(parsing: text) else { return }
            // Each evaluation must end, whatever a device subscribes to.
            _ = condition.matches { _ in true }
            _ = condition.matches { _ in false }
        },
        FuzzTarget(
            "yaml",
            words: [
                ": ", "- ", "\n  ", "{", "}", "[", "]", "&a", "*a", "!!str", "|", ">", "---", "...", "'", "\"", "#",
                "<<: *a", "? ",
            ],
            seeds: [
                "redis: {url: \"redis://127.0.0.1:6379\"}\napps:\n  demo:\n    apns: {team_id: A, key_file: /x}\n"
                    .bytes,
                "a: &x [1, 2]\nb: *x\n".bytes, "a: |\n  text\n  more\nb: 'c'\n".bytes,
            ]
        ) { input in
            guard let text = input.validText else { return }
            _ = try? YAMLNode.parse(text)
        },
        FuzzTarget(
            "retry-after",
            words: [
                "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "GMT",
                "Feb", "60",
            ],
            seeds: [
                "120".bytes, "Sun, 06 Nov 2034 08:49:37 GMT".bytes, "Sunday, 06-Nov-94 08:49:37 GMT".bytes,
                "Sun Nov  6 08:49:37 1994".bytes,
            ]
        ) { input in
            guard let text = input.validText else { return }
            let now = UnixMilliseconds(seconds: 1_700_000_000)
            guard let wait = RetryAfter.milliseconds(text, now: now) else { return }
            try require((0...RetryAfter.millisecondsMax).contains(wait), "a wait of \(wait) ms")
        },
        FuzzTarget(
            "web-address",
            words: ["https://", "http://", "@", ":443", "[::1]", "/", "?", "#", "%2f"],
            seeds: ["https://fcm.googleapis.com/fcm/send/abc".bytes, "https://[::1]:8443/x".bytes]
        ) { input in
            guard let text = input.validText, let address = WebAddress(text) else { return }
            try require(!address.host.isEmpty, "an address without a host")
            try require(
                !address.host.utf8.contains { $0 <= 0x20 || $0 == 0x40 || $0 == 0x2f },
                "the host \(address.host)"
            )
        },
        FuzzTarget(
            "trace-context",
            words: ["00-", "-01", "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"],
            seeds: ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".bytes]
        ) { input in
            guard let text = input.validText, let context = TraceContext(traceparent: text) else { return }
            try require(
                TraceContext(traceparent: context.traceparent) == context,
                "changed by writing: \(context.traceparent)"
            )
        },
    ]
}
