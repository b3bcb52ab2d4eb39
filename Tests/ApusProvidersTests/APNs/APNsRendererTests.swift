import ApusAPNs
import ApusCore
import ApusMessages
import ApusProviders
import Testing

@Suite("APNs: rendering")
struct APNsRendererTests {
    @Test("an alert, byte for byte")
    func alert() throws {
        let message = try renderAPNs(
            notification {
                $0.title = "Flight \"AB\""
                $0.subtitle = "Gate 4"
                $0.body = "Boards\nnow é"
                $0.sound = Notification.Sound()
                $0.badge = .set(3)
                $0.threadID = "flights"
                $0.category = "boarding"
                $0.interruptionLevel = .timeSensitive
                $0.relevanceScore = 0.5
                $0.data = ["z": "1", "a": "2"]
            }
        )
        #expect(
            message.body.text
                == #"{"aps":{"alert":{"title":"Flight \"AB\"","subtitle":"Gate 4","body":"Boards\nnow é"},"#
                + #""badge":3,"sound":"default","thread-id":"flights","category":"boarding","#
                + #""interruption-level":"time-sensitive","relevance-score":0.5},"a":"2","z":"1","#
                + #""apus.send":"send-1"}"#
        )
        #expect(
            message.headers.map { "\($0.name): \($0.value)" } == [
                "apns-topic: com.example.app", "apns-push-type: alert", "apns-priority: 10",
                "apns-collapse-id: send-1",
            ]
        )
        #expect(message.body.segments == [.bytes(message.body.bytes())])
    }

    @Test("localised texts, critical sound and the remaining members")
    func remainingMembers() throws {
        let message = try renderAPNs(
            notification {
                $0.body = ""
                $0.titleLocKey = "T"
                $0.titleLocArgs = ["a", "b"]
                $0.subtitleLocKey = "S"
                $0.bodyLocKey = "B"
                $0.launchImage = "L"
                $0.image = "https://example.com/i.png"
                $0.sound = Notification.Sound(name: "siren", critical: true, volume: 1)
                $0.contentAvailable = true
                $0.targetContentID = "W"
                $0.filterCriteria = "F"
            }
        )
        #expect(
            message.body.text
                == #"{"aps":{"alert":{"title-loc-key":"T","title-loc-args":["a","b"],"subtitle-loc-key":"S","#
                + #""loc-key":"B","launch-image":"L"},"sound":{"critical":1,"name":"siren","volume":1},"#
                + #""content-available":1,"mutable-content":1,"target-content-id":"W","filter-criteria":"F"},"#
                + #""image":"https://example.com/i.png","apus.send":"send-1"}"#
        )
    }

    @Test("D23 4,096 bytes of an alert and 5,120 of a call are sent, one more is refused")
    func sizes() throws {
        // The send's id counts too: "apus.send" is there in all of them.
        let alertFrame = #"{"aps":{"alert":"x"},"k":"","apus.send":"send-1"}"#.utf8.count
        let callFrame = #"{"aps":{},"k":"","l":"","apus.send":"send-1"}"#.utf8.count
        func alert(bytes: Int) -> Notification {
            notification {
                $0.apnsJSON = #"{"aps":{"alert":"x"}}"#
                $0.data = ["k": String(repeating: "a", count: bytes - alertFrame)]
            }
        }
        func call(bytes: Int) -> Notification {
            notification(.voip) {
                $0.data = [
                    "k": String(repeating: "a", count: 4_000),
                    "l": String(repeating: "a", count: bytes - 4_000 - callFrame),
                ]
            }
        }
        #expect(try renderAPNs(alert(bytes: 4_096)).body.bytesMax == 4_096)
        #expect(refusal { _ = try renderAPNs(alert(bytes: 4_097)) } == "payload_too_large notification")
        #expect(try renderAPNs(call(bytes: 5_120)).body.bytesMax == 5_120)
        #expect(refusal { _ = try renderAPNs(call(bytes: 5_121)) } == "payload_too_large notification")
    }

    @Test("D24 the limit counts bytes, not characters")
    func multiByteSizes() throws {
        let frame = #"{"aps":{"alert":{"body":""}},"apus.send":"send-1"}"#.utf8.count
        func alert(characters: Int) -> Notification {
            notification { $0.body = String(repeating: "é", count: characters) }
        }
        let fitting = (4_096 - frame) / 2
        #expect(try renderAPNs(alert(characters: fitting)).body.bytesMax == frame + 2 * fitting)
        #expect(refusal { _ = try renderAPNs(alert(characters: fitting + 1)) } == "payload_too_large notification")
    }

    @Test("a variant that is too large is named")
    func variantSize() {
        let large = notification {
            var variant = Notification.LocaleVariant(locale: "fr")
            variant.title = String(repeating: "t", count: 4_096)
            $0.variants = [variant]
        }
        #expect(refusal { _ = try renderAPNs(large) } == "payload_too_large notification.variants[0]")
    }

    @Test("D36 a background push has priority 5 by itself; any other is refused")
    func backgroundPriority() throws {
        let message = try renderAPNs(notification(.background))
        #expect(message.header("apns-priority") == "5")
        #expect(message.header("apns-push-type") == "background")
        #expect(message.header("apns-collapse-id") == nil)
        #expect(message.body.text == #"{"aps":{"content-available":1},"apus.send":"send-1"}"#)
        #expect(try renderAPNs(notification(.background) { $0.priority = .normal }).priority.rawValue == 5)
        for priority in [Notification.Priority.high, .low] {
            let refused = notification(.background) { $0.priority = priority }
            #expect(refusal { _ = try renderAPNs(refused) } == "contradiction notification.priority")
        }
    }

    @Test("a background push shows nothing")
    func backgroundPayload() {
        let changes: [(field: String, change: (inout Notification) -> Void)] = [
            ("title", { $0.title = "x" }), ("body", { $0.body = "x" }), ("badge_set", { $0.badge = .set(1) }),
            ("sound", { $0.sound = Notification.Sound() }), ("mutable_content", { $0.mutableContent = true }),
            ("body_loc_key", { $0.bodyLocKey = "x" }), ("image", { $0.image = "https://example.com/" }),
            ("apns_json", { $0.apnsJSON = #"{"aps":{"alert":"x"}}"# }),
            ("apns_json", { $0.apnsJSON = #"{"aps":{"content-available":0}}"# }),
        ]
        for (field, change) in changes {
            let refused = notification(.background, change)
            #expect(refusal { _ = try renderAPNs(refused) } == "contradiction notification.\(field)")
        }
    }

    @Test(
        "D37 every push type's suffix is added exactly once",
        arguments: [
            (.alert, ""), (.background, ""), (.voip, ".voip"), (.complication, ".complication"),
            (.fileProvider, ".pushkit.fileprovider"), (.mdm, ""), (.location, ".location-query"),
            (.liveActivity, ".push-type.liveactivity"), (.pushToTalk, ".voip-ptt"), (.widgets, ".push-type.widgets"),
            (.controls, ".push-type.controls"),
        ] as [(Notification.Kind, String)]
    )
    func topics(kind: Notification.Kind, suffix: String) throws {
        let example = notification(kind) {
            if kind == .mdm { $0.data = ["mdm": "magic"] }
            if kind == .liveActivity {
                $0.liveActivity = Notification.LiveActivity(event: .end)
            }
        }
        #expect(try renderAPNs(example).topic == "com.example.app" + suffix)
        // An app may be called as a suffix is: its topic has it twice.
        #expect(try renderAPNs(example, bundleID: "com.example" + suffix).topic == "com.example" + suffix + suffix)
    }

    @Test("what each push type asks for by itself")
    func defaults() throws {
        let widgets = #"{"aps":{"content-changed":true},"apus.send":"send-1"}"#
        #expect(try renderAPNs(notification(.widgets)).body.text == widgets)
        #expect(try renderAPNs(notification(.widgets)).header("apns-priority") == "5")
        #expect(try renderAPNs(notification(.mdm) { $0.data = ["mdm": "magic"] }).body.text == #"{"mdm":"magic"}"#)
        #expect(refusal { _ = try renderAPNs(notification(.mdm)) } == "missing_value notification.data[mdm]")
        let talk = try renderAPNs(notification(.pushToTalk))
        #expect(talk.header("apns-priority") == "10")
        #expect(talk.header("apns-expiration") == "0")
        let low = notification(.pushToTalk) { $0.priority = .low }
        #expect(refusal { _ = try renderAPNs(low) } == "contradiction notification.priority")
        let empty = notification { $0.body = "" }
        #expect(refusal { _ = try renderAPNs(empty) } == "missing_value notification.title")
        #expect(try renderAPNs(notification { $0.priority = .low }).header("apns-priority") == "1")
    }

    @Test("D38 a collapse id of 64 bytes is sent; 65 bytes and 33 two-byte characters are refused")
    func collapseID() throws {
        func collapsing(_ key: String) -> Notification { notification { $0.collapseKey = key } }
        let longest = String(repeating: "k", count: 64)
        #expect(try renderAPNs(collapsing(longest)).header("apns-collapse-id") == longest)
        #expect(refusal { _ = try renderAPNs(collapsing(longest + "k")) } == "too_long notification.collapse_key")
        let accents = String(repeating: "é", count: 33)
        #expect(refusal { _ = try renderAPNs(collapsing(accents)) } == "too_long notification.collapse_key")
        for hostile in ["a\r\nb: c", "a\u{0}", "a\u{7f}", " a", "a ", "é"] {
            #expect(refusal { _ = try renderAPNs(collapsing(hostile)) } == "invalid_value notification.collapse_key")
        }
    }

    @Test("D39 no expiry: no header, or 0 for a call; a time to live of 0: the header 0")
    func expiration() throws {
        #expect(try renderAPNs(notification()).header("apns-expiration") == nil)
        #expect(try renderAPNs(notification(.voip)).header("apns-expiration") == "0")
        let kept = notification(.voip) { $0.expiry = .ttl(milliseconds: 30_000) }
        #expect(try renderAPNs(kept).header("apns-expiration") == "1700000030")
        let expiries: [(Notification.Expiry, String)] = [
            (.ttl(milliseconds: 0), "0"), (.ttl(milliseconds: 60_000), "1700000060"),
            (.ttl(milliseconds: 1), "1700000001"), (.at(UnixMilliseconds(1_800_000_000_001)), "1800000001"),
        ]
        for (expiry, header) in expiries {
            #expect(try renderAPNs(notification { $0.expiry = expiry }).header("apns-expiration") == header)
        }
        let negative = notification { $0.expiry = .ttl(milliseconds: -1) }
        #expect(refusal { _ = try renderAPNs(negative) } == "invalid_value notification.ttl_ms")
    }

    @Test("D40 a Live Activity starts only with attributes and an alert")
    func liveActivityStart() throws {
        func start(_ change: (inout Notification.LiveActivity) -> Void, title: String = "Game") -> Notification {
            notification(.liveActivity) {
                var activity = Notification.LiveActivity(event: .start)
                activity.attributesType = "Game"
                activity.attributesJSON = #"{"teams":["A","B"]}"#
                activity.contentStateJSON = #"{"score":0}"#
                change(&activity)
                $0.liveActivity = activity
                $0.title = title
                $0.body = title
                $0.sound = Notification.Sound()
            }
        }
        let message = try renderAPNs(start { $0.inputPushToken = true })
        #expect(
            message.body.text == #"{"aps":{"timestamp":1700000000,"event":"start","content-state":{"score":0},"#
                + #""attributes-type":"Game","attributes":{"teams":["A","B"]},"input-push-token":1,"#
                + #""alert":{"title":"Game","body":"Game","sound":"default"}},"apus.send":"send-1"}"#
        )
        #expect(message.header("apns-priority") == "10")
        let field = "notification.live_activity"
        #expect(
            refusal { _ = try renderAPNs(start { $0.attributesJSON = "" }) } == "missing_value \(field).attributes_json"
        )
        #expect(
            refusal { _ = try renderAPNs(start { $0.attributesType = "" }) } == "missing_value \(field).attributes_type"
        )
        #expect(refusal { _ = try renderAPNs(start({ _ in }, title: "")) } == "missing_value notification.title")
        #expect(
            refusal { _ = try renderAPNs(start { $0.contentStateJSON = "[1]" }) }
                == "malformed_json \(field).content_state_json"
        )
        #expect(refusal { _ = try renderAPNs(notification(.liveActivity)) } == "missing_value \(field)")
    }

    @Test("a Live Activity's change is dated when it was to go out, however late it is written")
    func liveActivityDate() throws {
        func timestamp(notBefore: Int64?, renderedAfter seconds: Int64, own: Int64? = nil) throws -> JSONValue? {
            let change = notification(.liveActivity) {
                var activity = Notification.LiveActivity(event: .update)
                activity.contentStateJSON = "{}"
                activity.timestamp = own.map { UnixMilliseconds(seconds: $0) }
                $0.liveActivity = activity
            }
            let context = RenderContext(
                send: try SendID("s"),
                publishedAt: UnixMilliseconds(seconds: 1_700_000_000),
                notBefore: notBefore.map { UnixMilliseconds(seconds: $0) },
                now: UnixMilliseconds(seconds: 1_700_000_000 + seconds),
            )
            let rendered = try APNsRenderer(bundleID: "a.b").render(change, context: context).base
            return try rendered.body.json()["aps"]?["timestamp"]
        }
        #expect(try timestamp(notBefore: nil, renderedAfter: 0) == 1_700_000_000)
        #expect(try timestamp(notBefore: nil, renderedAfter: 3_600) == 1_700_000_000)
        #expect(try timestamp(notBefore: 1_700_000_600, renderedAfter: 3_600) == 1_700_000_600)
        #expect(try timestamp(notBefore: 1_600_000_000, renderedAfter: 3_600) == 1_700_000_000)
        #expect(try timestamp(notBefore: nil, renderedAfter: 3_600, own: 1_700_000_007) == 1_700_000_007)
    }

    @Test("what belongs to another event of a Live Activity is refused")
    func liveActivityEvents() throws {
        func change(
            _ event: Notification.LiveActivity.Event,
            _ set: (inout Notification.LiveActivity) -> Void
        ) -> String {
            refusal {
                _ = try renderAPNs(
                    notification(.liveActivity) {
                        var activity = Notification.LiveActivity(event: event)
                        activity.contentStateJSON = "{}"
                        set(&activity)
                        $0.liveActivity = activity
                    }
                )
            }
        }
        let field = "notification.live_activity"
        #expect(change(.update) { _ in } == "sent")
        #expect(change(.update) { $0.contentStateJSON = "" } == "missing_value \(field).content_state_json")
        #expect(change(.update) { $0.attributesJSON = "{}" } == "contradiction \(field).attributes_json")
        #expect(change(.update) { $0.inputPushChannel = "c" } == "contradiction \(field).input_push_channel")
        #expect(change(.update) { $0.dismissAt = UnixMilliseconds(1) } == "contradiction \(field).dismiss_at_ms")
        #expect(change(.end) { $0.dismissAt = UnixMilliseconds(1) } == "sent")
        let low = notification(.liveActivity) {
            $0.liveActivity = Notification.LiveActivity(event: .end)
            $0.priority = .low
        }
        #expect(refusal { _ = try renderAPNs(low) } == "contradiction notification.priority")
    }

    @Test("the publisher's JSON is merged last, member by member")
    func override() throws {
        let message = try renderAPNs(
            notification {
                $0.title = "T"
                $0.data = ["a": "1"]
                $0.apnsJSON = #"{"aps":{"alert":{"title":null,"action":"Go"},"x":[1]},"a":{"b":2}}"#
            }
        )
        #expect(
            message.body.text
                == #"{"aps":{"alert":{"body":"Hello","action":"Go"},"x":[1]},"a":{"b":2},"apus.send":"send-1"}"#
        )
        for text in ["[]", "{", "1", #"{"a":1,"a":2}"#] {
            #expect(
                refusal { _ = try renderAPNs(notification { $0.apnsJSON = text }) }
                    == "malformed_json notification.apns_json"
            )
        }
        let removed = notification { $0.apnsJSON = #"{"aps":null}"# }
        #expect(refusal { _ = try renderAPNs(removed) } == "contradiction notification.apns_json")
        let longest = #"{"k":""# + String(repeating: "a", count: Limits.jsonOverrideBytesMax) + #""}"#
        #expect(
            refusal { _ = try renderAPNs(notification { $0.apnsJSON = longest }) }
                == "malformed_json notification.apns_json"
        )
    }

    @Test("a badge that counts leaves its place open, and its longest number is counted")
    func badgeIncrement() throws {
        let body = try renderAPNs(notification { $0.badge = .increment(1) }).body
        #expect(body.needsBadge)
        #expect(body.text == #"{"aps":{"alert":{"body":"Hello"},"badge":7},"apus.send":"send-1"}"#)
        #expect(body.bytesMax == body.text.utf8.count - 1 + 10)
        #expect(String(Limits.badgeMax).utf8.count == RenderedBody.badgeDigitsMax)
        let overridden = notification {
            $0.badge = .increment(1)
            $0.apnsJSON = #"{"aps":{"badge":5}}"#
        }
        #expect(try renderAPNs(overridden).body.text.contains(#""badge":5"#))
    }

    @Test(
        "a bundle id that could end a header is refused",
        arguments: ["", "a b", "a\r\n", "é", String(repeating: "a", count: 156)]
    )
    func bundleID(text: String) {
        #expect(refusal { _ = try APNsRenderer(bundleID: text) } == "invalid_value bundle_id")
    }

    @Test("a hostile text stays a text")
    func injection() throws {
        let hostile = "\"},\"aps\":{\"badge\":1}},\u{0}\u{2028}"
        let message = try renderAPNs(
            notification {
                $0.body = hostile
                $0.data = [hostile: hostile]
            }
        )
        let json = try message.body.json()
        #expect(json["aps"]?["alert"]?["body"]?.string == hostile)
        #expect(json[hostile]?.string == hostile)
        #expect(json.object?.count == 3)
    }

    @Test(
        "every payload carries the send's id, whatever the publisher writes there; device management's alone does not"
    )
    func sendID() throws {
        let overridden = notification { $0.apnsJSON = #"{"apus.send":null,"apus_send":"x"}"# }
        #expect(try renderAPNs(overridden).body.json()["apus.send"] == "send-1")
        for kind in [Notification.Kind.background, .voip, .location, .controls, .pushToTalk] {
            #expect(try renderAPNs(notification(kind)).body.json()["apus.send"] == "send-1")
        }
        let management = try renderAPNs(notification(.mdm) { $0.data = ["mdm": "magic"] })
        #expect(try management.body.json()["apus.send"] == nil)
        for key in ["apus.send", "apus_send"] {
            let refused = notification { $0.data = [key: "mine"] }
            #expect(refusal { _ = try renderAPNs(refused) } == "reserved_name notification.data[\(key)]")
        }
    }
}
