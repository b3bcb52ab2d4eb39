import ApusAPNs
import ApusCore
import ApusFCM
import ApusMessages
import ApusProviders
import Testing

@Suite("FCM: rendering")
struct FCMRendererTests {
    @Test("an alert that FCM shows everywhere has its words once")
    func alert() throws {
        let message = try renderFCM(
            notification {
                $0.title = "T"
                $0.data = ["k": "v"]
                $0.sound = Notification.Sound()
                $0.channelID = "news"
                $0.color = "#a1B2c3"
                $0.clickAction = "https://example.com/x"
                $0.analyticsLabel = "spring"
            }
        )
        #expect(
            message.body.text
                == #"{"message":{"token":"TOKEN","data":{"k":"v","apus_send":"send-1"},"#
                + #""notification":{"title":"T","body":"Hello"},"#
                + ##""android":{"priority":"HIGH","notification":{"color":"#a1B2c3","sound":"default","tag":"send-1","##
                + #""channel_id":"news"}},"apns":{"headers":{"apns-push-type":"alert","apns-priority":"10","#
                + #""apns-collapse-id":"send-1"},"payload":{"aps":{"sound":"default"}}},"#
                + #""webpush":{"headers":{"Urgency":"high"},"notification":{"tag":"send-1"},"#
                + #""fcm_options":{"link":"https://example.com/x"}},"fcm_options":{"analytics_label":"spring"}}}"#
        )
        #expect(message.body.segments.count == 3)
        #expect(message.body.segments.first == .bytes(Array(#"{"message":{"token":""#.utf8)))
        #expect(message.body.segments[1] == .token)
    }

    @Test("in data style the same words travel as data, and the publisher's own data wins")
    func dataStyle() throws {
        let json = try renderFCM(
            notification {
                $0.title = "T"
                $0.image = "https://example.com/i.png"
                $0.clickAction = "OPEN"
                $0.badge = .set(2)
                $0.bodyLocKey = "B"
                $0.bodyLocArgs = ["1"]
                $0.data = ["title": "mine", "k": "v"]
                $0.androidStyle = .data
            }
        ).body.json()["message"]
        #expect(json?["notification"] == nil)
        let android: JSONValue = [
            "title": "mine", "body": "Hello", "image": "https://example.com/i.png", "body_loc_key": "B",
            "body_loc_args": "[\"1\"]", "tag": "send-1", "click_action": "OPEN", "badge": "2", "k": "v",
            "apus_send": "send-1",
        ]
        #expect(json?["android"]?["data"] == android)
        #expect(json?["android"]?["notification"] == nil)
        #expect(json?["apns"]?["payload"]?["aps"]?["alert"]?["title"] == "T")
        #expect(json?["apns"]?["fcm_options"]?["image"] == "https://example.com/i.png")
        #expect(json?["webpush"]?["notification"]?["body"] == "Hello")
    }

    @Test("in data style iOS is woken silently, with priority 5")
    func dataStyleAPNs() throws {
        let json = try renderFCM(
            notification {
                $0.fcmAPNsStyle = .data
                $0.fcmWebpushStyle = .data
            }
        ).body.json()["message"]
        #expect(json?["apns"]?["headers"] == ["apns-push-type": "background", "apns-priority": "5"])
        let data: JSONValue = ["body": "Hello", "tag": "send-1", "apus_send": "send-1"]
        let payload: JSONValue = [
            "aps": ["content-available": 1], "body": "Hello", "tag": "send-1", "apus_send": "send-1",
        ]
        #expect(json?["apns"]?["payload"] == payload)
        #expect(json?["webpush"]?["data"] == data)
        #expect(json?["android"]?["notification"]?["body"] == "Hello")
    }

    @Test("a background message is data only, everywhere with normal priority")
    func background() throws {
        let message = try renderFCM(notification(.background) { $0.data = ["k": "v"] })
        #expect(
            message.body.text
                == #"{"message":{"token":"TOKEN","data":{"k":"v","apus_send":"send-1"},"android":{"priority":"NORMAL"},"#
                + #""apns":{"headers":{"apns-push-type":"background","apns-priority":"5"},"#
                + #""payload":{"aps":{"content-available":1}}},"webpush":{"headers":{"Urgency":"normal"}}}}"#
        )
    }

    @Test("without words nothing is shown: a badge alone makes no empty box on Android or in browsers")
    func withoutWords() throws {
        let json = try renderFCM(
            notification {
                $0.body = ""
                $0.badge = .set(0)
            }
        ).body.json()["message"]
        #expect(json?["android"] == ["priority": "HIGH"])
        #expect(json?["webpush"]?["notification"] == nil)
        #expect(json?["apns"]?["payload"] == ["aps": ["badge": 0]])
    }

    @Test("with data alone iOS is woken silently, with priority 5, unless the publisher's own JSON shows something")
    func dataAlone() throws {
        func apns(_ change: (inout Notification) -> Void = { _ in }) throws -> JSONValue? {
            let alone = notification {
                $0.body = ""
                $0.data = ["k": "v"]
                change(&$0)
            }
            return try renderFCM(alone).body.json()["message"]?["apns"]
        }
        let silent: JSONValue = [
            "headers": ["apns-push-type": "background", "apns-priority": "5"],
            "payload": ["aps": ["content-available": 1]],
        ]
        #expect(try apns() == silent)
        #expect(try apns { $0.priority = .high } == silent)
        let sound = try apns { $0.sound = Notification.Sound() }
        #expect(sound?["headers"]?["apns-push-type"] == "alert")
        let own = try apns { $0.apnsJSON = #"{"aps":{"alert":"x"}}"# }
        #expect(own?["headers"]?["apns-push-type"] == "alert" && own?["payload"]?["aps"]?["alert"] == "x")
        let block = try apns { $0.fcmAPNsJSON = #"{"payload":{"aps":{"alert":"x"}}}"# }
        #expect(block?["headers"]?["apns-push-type"] == "alert")
    }

    @Test("a call reaches Android as urgent data; what only Apple has is refused")
    func kinds() throws {
        let json = try renderFCM(notification(.voip) { $0.title = "Ann" }).body.json()["message"]
        #expect(
            json?["android"] == ["priority": "HIGH", "ttl": "0s", "data": ["title": "Ann", "apus_send": "send-1"]]
        )
        #expect(json?["apns"] == nil)
        for kind in [Notification.Kind.complication, .fileProvider, .mdm, .location, .pushToTalk, .widgets, .controls] {
            #expect(refusal { _ = try renderFCM(notification(kind)) } == "unsupported_by_provider notification.kind")
        }
    }

    @Test("the publisher's collapse key and tag replace the derived ones")
    func collapse() throws {
        func message(key: String, tag: String) throws -> JSONValue? {
            try renderFCM(
                notification {
                    $0.collapseKey = key
                    $0.tag = tag
                }
            ).body.json()["message"]
        }
        let keyed = try message(key: "score", tag: "")
        #expect(keyed?["android"]?["collapse_key"] == "score")
        #expect(keyed?["android"]?["notification"]?["tag"] == "score")
        #expect(keyed?["apns"]?["headers"]?["apns-collapse-id"] == "score")
        let tagged = try message(key: "", tag: "t")
        #expect(tagged?["android"]?["collapse_key"] == nil)
        #expect(tagged?["android"]?["notification"]?["tag"] == "t")
        #expect(tagged?["apns"]?["headers"]?["apns-collapse-id"] == "send-1")
    }

    @Test("overrides are merged last into their platform")
    func overrides() throws {
        let json = try renderFCM(
            notification {
                $0.androidJSON = #"{"priority":"normal","notification":{"tag":null,"icon":"i"},"direct_boot_ok":true}"#
                $0.apnsJSON = #"{"aps":{"alert":{"subtitle":"S"}},"x":1}"#
                $0.webpushJSON = #"{"headers":{"Urgency":"low"}}"#
            }
        ).body.json()["message"]
        #expect(json?["android"] == ["priority": "normal", "notification": ["icon": "i"], "direct_boot_ok": true])
        #expect(json?["apns"]?["payload"] == ["aps": ["alert": ["body": "Hello", "subtitle": "S"]], "x": 1])
        #expect(json?["webpush"]?["headers"] == ["Urgency": "low"])
    }

    @Test func `What is for browsers without FCM is kept from FCM, which would refuse the message`() throws {
        let json = try renderFCM(
            notification {
                $0.webpushJSON =
                    #"{"app_badge":3,"web_push":8030,"data":{"k":"v"},"fcm_options":{"link":"https://a.b"}}"#
            }
        ).body.json()["message"]?["webpush"]
        #expect(json?["app_badge"] == nil && json?["web_push"] == nil)
        #expect(json?["data"]?["k"] == "v" && json?["fcm_options"]?["link"] == "https://a.b")
    }

    @Test("D68 a data value that is not a string is refused")
    func dataValues() {
        let android = notification { $0.androidJSON = #"{"data":{"k":5}}"# }
        #expect(refusal { _ = try renderFCM(android) } == "invalid_value notification.android_json.data[k]")
        let webpush = notification { $0.webpushJSON = #"{"data":{"k":null,"l":[]}}"# }
        #expect(refusal { _ = try renderFCM(webpush) } == "invalid_value notification.webpush_json.data[l]")
    }

    @Test("a Web Push header that is not a string is refused")
    func webpushHeaders() {
        let wrong = notification { $0.webpushJSON = #"{"headers":{"TTL":60}}"# }
        #expect(refusal { _ = try renderFCM(wrong) } == "invalid_value notification.webpush_json.headers[TTL]")
        let right = notification { $0.webpushJSON = #"{"headers":{"TTL":"60"}}"# }
        #expect(refusal { _ = try renderFCM(right) } == "sent")
    }

    @Test(
        "D69 reserved data keys are refused",
        arguments: ["from", "google.x", "gcm.notification.y", "message_type", "gcm", "googlex"]
    )
    func reservedKeys(key: String) {
        let refused = notification { $0.data = [key: "v"] }
        #expect(refusal { _ = try renderFCM(refused) } == "reserved_name notification.data[\(key)]")
        let merged = notification { $0.androidJSON = "{\"data\":{\"\(key)\":\"v\"}}" }
        #expect(refusal { _ = try renderFCM(merged) } == "reserved_name notification.android_json.data[\(key)]")
    }

    @Test("D69 keys that only look alike are sent; aps is Apple's")
    func otherKeys() {
        for key in ["collapse_key", "fromage", "message", "a.google"] {
            #expect(refusal { _ = try renderFCM(notification { $0.data = [key: "v"] }) } == "sent")
        }
        let aps = notification { $0.data = ["aps": "v"] }
        #expect(refusal { _ = try renderFCM(aps) } == "reserved_name notification.data[aps]")
    }

    @Test("D70 data of 4,096 bytes goes to a token and 2,048 to a topic; one more is refused")
    func sizes() throws {
        let sendBytes = "apus_send".utf8.count + "send-1".utf8.count
        func data(bytes: Int) -> Notification {
            notification(.background) {
                $0.data = [
                    "k": String(repeating: "é", count: 1_000),
                    "l": String(repeating: "a", count: bytes - 2_002 - sendBytes),
                ]
            }
        }
        let topic = FCMTarget.topic(try TopicName("news"))
        #expect(try renderFCM(data(bytes: 4_096)).payloadBytes == 4_096)
        #expect(refusal { _ = try renderFCM(data(bytes: 4_097)) } == "payload_too_large notification")
        #expect(try renderFCM(data(bytes: 2_048), target: topic).payloadBytes == 2_048)
        #expect(refusal { _ = try renderFCM(data(bytes: 2_049), target: topic) } == "payload_too_large notification")
    }

    @Test("every message carries the send's id, also where the publisher's JSON brings data of its own")
    func sendID() throws {
        let plain = try renderFCM(notification()).body.json()["message"]
        #expect(plain?["data"] == ["apus_send": "send-1"])
        let own = notification {
            $0.androidJSON = #"{"data":{"k":"v"}}"#
            $0.webpushJSON = #"{"data":{"apus_send":null,"k":"v"}}"#
        }
        let json = try renderFCM(own).body.json()["message"]
        #expect(json?["android"]?["data"] == ["k": "v", "apus_send": "send-1"])
        #expect(json?["webpush"]?["data"] == ["k": "v", "apus_send": "send-1"])
        let topic = FCMTarget.topic(try TopicName("news"))
        #expect(try renderFCM(notification(), target: topic).body.json()["message"]?["data"] == ["apus_send": "send-1"])
    }

    @Test("what is shown counts too, and iOS has a limit of its own")
    func shownSizes() throws {
        let shown = notification { $0.data = ["k": String(repeating: "a", count: 4_080)] }
        #expect(refusal { _ = try renderFCM(shown) } == "payload_too_large notification")
        let apple = notification { $0.apnsJSON = #"{"k":""# + String(repeating: "a", count: 4_096) + #""}"# }
        #expect(refusal { _ = try renderFCM(apple) } == "payload_too_large notification")
    }

    @Test("D71 four weeks to live are sent, a second more and less than none are refused")
    func timeToLive() throws {
        func living(_ milliseconds: Int64) -> Notification {
            notification { $0.expiry = .ttl(milliseconds: milliseconds) }
        }
        let longest = try renderFCM(living(2_419_200_000)).body.json()["message"]
        #expect(longest?["android"]?["ttl"] == "2419199.500s")
        #expect(longest?["webpush"]?["headers"]?["TTL"] == "2419200")
        #expect(longest?["apns"]?["headers"]?["apns-expiration"] == "1702419200")
        #expect(refusal { _ = try renderFCM(living(2_419_201_000)) } == "invalid_value notification.ttl_ms")
        #expect(refusal { _ = try renderFCM(living(-1_000)) } == "invalid_value notification.ttl_ms")
        let now = try renderFCM(living(0)).body.json()["message"]
        #expect(now?["android"]?["ttl"] == "0s")
        #expect(now?["apns"]?["headers"]?["apns-expiration"] == "0")
        for (text, answer) in [
            ("2419200s", "sent"), ("3.5s", "sent"), ("0s", "sent"), ("2419201s", "refused"), ("-1s", "refused"),
            ("2419200.1s", "refused"), ("3", "refused"), ("s", "refused"), ("1.s", "refused"),
        ] {
            let outcome = refusal { _ = try renderFCM(notification { $0.androidJSON = "{\"ttl\":\"\(text)\"}" }) }
            #expect(outcome == (answer == "sent" ? "sent" : "invalid_value notification.android_json.ttl"), "\(text)")
        }
    }

    @Test("D72 a message has exactly one target", arguments: ["token", "fid", "topic", "condition"])
    func targets(name: String) throws {
        let target: FCMTarget =
            switch name {
            case "token": .token
            case "fid": .installation
            case "topic": try .topic(parsing: "news")
            default: try .condition(parsing: "'a' in topics")
            }
        let message = try renderFCM(notification(), target: target)
        let json = try message.body.json()["message"]
        let named = ["token", "fid", "topic", "condition"].filter { json?[$0] != nil }
        #expect(named == [name])
        #expect(message.body.segments.count == (target.isAudience ? 1 : 3))
    }

    @Test("D73 topic names follow FCM's grammar")
    func topics() throws {
        #expect(refusal { _ = try FCMTarget.topic(parsing: "news!") } == "invalid_value target.fcm_topic")
        #expect(try FCMTarget.topic(parsing: "/topics/news") == .topic(TopicName("news")))
        #expect(refusal { _ = try FCMTarget.topic(parsing: String(repeating: "a", count: 900)) } == "sent")
        let long = String(repeating: "a", count: 901)
        #expect(refusal { _ = try FCMTarget.topic(parsing: long) } == "invalid_value target.fcm_topic")
    }

    @Test("D74 conditions follow FCM's grammar, with at most five topics")
    func conditions() throws {
        let five = (1...5).map { "'t\($0)' in topics" }.joined(separator: " && ")
        #expect(refusal { _ = try FCMTarget.condition(parsing: five) } == "sent")
        #expect(
            refusal { _ = try FCMTarget.condition(parsing: five + " && 't6' in topics") }
                == "invalid_value target.fcm_condition"
        )
        #expect(
            refusal { _ = try FCMTarget.condition(parsing: "('a' in topics") } == "invalid_value target.fcm_condition"
        )
        let text = "'a' in topics && ('b' in topics || 'c' in topics)"
        let body = try renderFCM(notification(), target: .condition(parsing: text)).body
        #expect(try body.json()["message"]?["condition"]?.string == text)
    }

    @Test("labels, colors and links follow their grammar")
    func grammar() {
        func field(_ change: (inout Notification) -> Void) -> String {
            refusal { _ = try renderFCM(notification(.alert, change)) }
        }
        #expect(field { $0.analyticsLabel = "a b" } == "invalid_value notification.analytics_label")
        #expect(
            field { $0.analyticsLabel = String(repeating: "a", count: 51) }
                == "invalid_value notification.analytics_label"
        )
        for color in ["a1b2c3", "#a1b2c", "#a1b2cg", "#a1b2c3d4", "red"] {
            #expect(field { $0.color = color } == "invalid_value notification.color")
            #expect(
                field { $0.androidJSON = "{\"notification\":{\"color\":\"\(color)\"}}" }
                    == "invalid_value notification.android_json.notification.color"
            )
        }
        let labels = ["", "a b", String(repeating: "a", count: 51)]
        for label in labels {
            let options = "{\"fcm_options\":{\"analytics_label\":\"\(label)\"}}"
            #expect(
                field { $0.androidJSON = options }
                    == "invalid_value notification.android_json.fcm_options.analytics_label"
            )
            #expect(
                field { $0.webpushJSON = options }
                    == "invalid_value notification.webpush_json.fcm_options.analytics_label"
            )
        }
        let longest = "{\"fcm_options\":{\"analytics_label\":\"\(String(repeating: "~", count: 50))\"}}"
        #expect(field { $0.androidJSON = longest } == "sent")
        #expect(field { $0.webpushJSON = longest } == "sent")
        #expect(field { $0.image = "http://example.com/" } == "invalid_value notification.image")
        #expect(
            field { $0.webpushJSON = #"{"fcm_options":{"link":"http://example.com"}}"# }
                == "invalid_value notification.webpush_json.fcm_options.link"
        )
        #expect(field { $0.bodyLocArgs = ["x"] } == "missing_value notification.body_loc_key")
        #expect(field { $0.relevanceScore = 1.5 } == "invalid_value notification.relevance_score")
        #expect(field { $0.relevanceScore = .nan } == "invalid_value notification.relevance_score")
        #expect(field { $0.sound = Notification.Sound(name: "") } == "missing_value notification.sound.name")
        #expect(
            field { $0.sound = Notification.Sound(critical: true, volume: 1.1) }
                == "invalid_value notification.sound.volume"
        )
    }

    @Test("in data style a counted badge travels as text, and the publisher's own badge stays")
    func countedBadgeAsData() throws {
        func counting(_ change: (inout Notification) -> Void = { _ in }) throws -> RenderedFCMMessage {
            try renderFCM(
                notification {
                    $0.badge = .increment(1)
                    $0.androidStyle = .data
                    $0.fcmWebpushStyle = .data
                    $0.fcmAPNsStyle = .data
                    change(&$0)
                }
            )
        }
        let body = try counting().body
        #expect(body.segments.filter { $0 == .badge }.count == 3)
        let json = try JSONValue(parsing: body.bytes(token: "t", badge: 12), bytesMax: 10_000)["message"]
        #expect(json?["android"]?["data"]?["badge"] == "12" && json?["webpush"]?["data"]?["badge"] == "12")
        #expect(json?["apns"]?["payload"]?["badge"] == "12")
        #expect(try counting { $0.data["badge"] = "mine" }.body.segments.filter { $0 == .badge }.isEmpty)
        let own = try counting {
            $0.androidJSON = #"{"data":{"badge":"a"}}"#
            $0.fcmAPNsJSON = #"{"payload":{"badge":"b"}}"#
        }
        #expect(own.body.segments.filter { $0 == .badge }.count == 1)
        // Only Android draws by itself: Apple's badge is a number.
        let mixed = try counting {
            $0.fcmAPNsStyle = .notification
            $0.fcmWebpushStyle = .notification
        }
        let text = String(decoding: mixed.body.bytes(token: "t", badge: 3), as: UTF8.self)
        #expect(text.contains(#""badge":"3""#) && text.contains(#""badge":3"#))
    }

    @Test("a badge of 0 is Apple's alone: FCM takes a count of 0 for none, and adds one")
    func badgeOfZero() throws {
        let json = try renderFCM(notification { $0.badge = .set(0) }).body.json()["message"]
        #expect(json?["android"]?["notification"]?["notification_count"] == nil)
        #expect(json?["apns"]?["payload"]?["aps"]?["badge"] == 0)
        let one = try renderFCM(notification { $0.badge = .set(1) }).body.json()["message"]
        #expect(one?["android"]?["notification"]?["notification_count"] == 1)
    }

    @Test("a call that names no expiry is delivered at once or never")
    func callExpiry() throws {
        #expect(try renderFCM(notification(.voip)).body.json()["message"]?["android"]?["ttl"] == "0s")
        let kept = notification(.voip) { $0.expiry = .ttl(milliseconds: 30_000) }
        #expect(try renderFCM(kept).body.json()["message"]?["android"]?["ttl"] != "0s")
        #expect(try renderFCM(notification()).body.json()["message"]?["android"]?["ttl"] == nil)
    }

    @Test("what FCM makes for Apple of texts and data is held to Apple's limit")
    func applePayload() throws {
        func sized(_ bytes: Int, _ change: (inout Notification) -> Void = { _ in }) -> Notification {
            notification {
                $0.title = "T"
                $0.data = ["k": String(repeating: "a", count: bytes)]
                change(&$0)
            }
        }
        let around = #"{"aps":{"alert":{"title":"T","body":"Hello"}},"k":"","apus_send":"send-1"}"#.utf8.count
        _ = try renderFCM(sized(4_096 - around))
        #expect(refusal { _ = try renderFCM(sized(4_097 - around)) } == "payload_too_large notification")
        // Texts that stand in the payload count once.
        let own = sized(4_096 - around) { $0.apnsJSON = #"{"k":"short"}"# }
        _ = try renderFCM(own)
        // For Android alone FCM's own limit counts, which knows no quotes and brackets.
        _ = try renderFCM(notification(.voip) { $0.data = ["k": String(repeating: "a", count: 4_000)] })
    }

    @Test("a badge that counts leaves both places open; an audience of FCM's cannot count")
    func badgeIncrement() throws {
        let counting = notification { $0.badge = .increment(1) }
        let body = try renderFCM(counting).body
        #expect(body.segments.filter { $0 == .badge }.count == 2)
        // FCM counts keys and values: the longest number, where a fixed one has a digit.
        let fixed = try renderFCM(notification { $0.badge = .set(7) })
        #expect(try renderFCM(counting).payloadBytes == fixed.payloadBytes - 1 + RenderedBody.badgeDigitsMax)
        let json = try body.json()["message"]
        #expect(json?["apns"]?["payload"]?["aps"]?["badge"] == 7)
        #expect(json?["android"]?["notification"]?["notification_count"] == 7)
        let topic = FCMTarget.topic(try TopicName("news"))
        #expect(
            refusal { _ = try renderFCM(counting, target: topic) }
                == "unsupported_by_provider notification.badge_increment"
        )
    }

    @Test("validate_only stands beside the message")
    func validateOnly() throws {
        let message = try FCMRenderer.render(notification(), target: .token, context: context(), validateOnly: true)
            .base
        #expect(try message.body.json()["validate_only"] == true)
    }
}
