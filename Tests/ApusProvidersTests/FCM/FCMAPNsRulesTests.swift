import ApusAPNs
import ApusCore
import ApusFCM
import ApusMessages
import ApusProviders
import Testing

@Suite("FCM: its apns block") struct FCMAPNsRulesTests {
    private static func outcome(_ json: String, _ change: (inout Notification) -> Void = { _ in }) -> String {
        refusal {
            _ = try renderFCM(
                notification {
                    $0.fcmAPNsJSON = json
                    change(&$0)
                }
            )
        }
    }

    private static let field = "notification.fcm_apns_json"

    @Test("every member of the block can be said, and what is said wins")
    func golden() throws {
        let message = try renderFCM(
            notification {
                $0.apnsJSON = #"{"aps":{"badge":1,"sound":"a"},"x":1}"#
                $0.fcmAPNsJSON = #"""
                    {"headers":{"apns-priority":"5","apns-expiration":"0","apns-collapse-id":"c","apns-id":"i"},
                    "payload":{"aps":{"badge":2,"sound":null}},
                    "fcm_options":{"analytics_label":"spring","image":"https://example.com/i.png"}}
                    """#
            }
        )
        #expect(
            message.body.text
                == #"{"message":{"token":"TOKEN","data":{"apus_send":"send-1"},"notification":{"body":"Hello"},"#
                + #""android":{"priority":"HIGH","notification":{"tag":"send-1"}},"#
                + #""apns":{"headers":{"apns-push-type":"alert","apns-priority":"5","apns-collapse-id":"c","#
                + #""apns-expiration":"0","apns-id":"i"},"#
                + #""payload":{"aps":{"alert":{"body":"Hello"},"badge":2},"x":1},"#
                + #""fcm_options":{"analytics_label":"spring","image":"https://example.com/i.png"}},"#
                + #""webpush":{"headers":{"Urgency":"high"},"notification":{"tag":"send-1"}}}}"#
        )
    }

    @Test("with a Live Activity's token the headers are a Live Activity's")
    func liveActivity() throws {
        let text = #"{"live_activity_token":"ab12","payload":{"aps":{"event":"update","content-state":{"n":1}}}}"#
        let json = try renderFCM(
            notification {
                $0.fcmAPNsJSON = text
                $0.fcmAPNsStyle = .data
            }
        ).body.json()["message"]?["apns"]
        #expect(json?["live_activity_token"] == "ab12")
        #expect(json?["headers"] == ["apns-push-type": "liveactivity", "apns-priority": "10"])
        #expect(json?["payload"]?["aps"]?["event"] == "update")
        #expect(Self.outcome(#"{"live_activity_token":null}"#) == "sent")
        for (json, place) in [
            (#"{"live_activity_token":"","payload":{"aps":{"event":"end"}}}"#, "live_activity_token"),
            (#"{"live_activity_token":5,"payload":{"aps":{"event":"end"}}}"#, "live_activity_token"),
            (#"{"live_activity_token":"a b","payload":{"aps":{"event":"end"}}}"#, "live_activity_token"),
        ] {
            #expect(Self.outcome(json) == "invalid_value \(Self.field).\(place)", "\(json)")
        }
        #expect(Self.outcome(#"{"live_activity_token":"ab"}"#) == "missing_value \(Self.field).payload.aps.event")
        let alert =
            #"{"live_activity_token":"ab","headers":{"apns-push-type":"alert"},"payload":{"aps":{"event":"end"}}}"#
        #expect(Self.outcome(alert) == "contradiction \(Self.field).headers[apns-push-type]")
    }

    @Test("a Live Activity's token goes to one device alone")
    func recipients() throws {
        func outcome(_ target: Target, _ json: String) -> String {
            refusal {
                try FCMAPNsRules.checkRecipients(notification { $0.fcmAPNsJSON = json }, of: target)
            }
        }
        let token = #"{"live_activity_token":"ab"}"#
        let one = Address(provider: .fcm, token: "a")
        let two = Address(provider: .fcm, token: "b")
        for target in [
            Target.addresses([one]), .addresses([one, Address(provider: .apns, token: "c")]), .addresses([one, one]),
            .devices(["d"]),
        ] { #expect(outcome(target, token) == "sent", "\(target)") }
        for target in [
            Target.addresses([one, two]), .devices(["d", "e"]), .users(["u"]), .topic("t"), .condition("'t' in topics"),
            .expression("locale == 'en'"), .everyone([]), .fcmTopic("t"), .fcmCondition("'t' in topics"),
            .fcmGroup("k"),
        ] {
            #expect(outcome(target, token) == "contradiction \(Self.field).live_activity_token", "\(target)")
            #expect(outcome(target, #"{"live_activity_token":null,"headers":{}}"#) == "sent")
            #expect(outcome(target, "") == "sent")
        }
    }

    static let broken: [(json: String, place: String)] = [
        (#"{"header":{}}"#, "[header]"), (#"{"fcmOptions":{}}"#, "[fcmOptions]"), (#"{"aps":null}"#, "[aps]"),
        (#"{"headers":5}"#, ".headers"), (#"{"payload":[]}"#, ".payload"), (#"{"fcm_options":"x"}"#, ".fcm_options"),
        (#"{"headers":{"apns-priority":10}}"#, ".headers[apns-priority]"),
        (#"{"headers":{"apns-priority":"7"}}"#, ".headers[apns-priority]"),
        (#"{"headers":{"apns-push-type":"loud"}}"#, ".headers[apns-push-type]"),
        (#"{"headers":{"apns-expiration":"soon"}}"#, ".headers[apns-expiration]"),
        (#"{"headers":{"apns-expiration":"-1"}}"#, ".headers[apns-expiration]"),
        (#"{"headers":{"apns-collapse-id":""}}"#, ".headers[apns-collapse-id]"),
        (#"{"headers":{"authorization":"x"}}"#, ".headers[authorization]"),
        (#"{"headers":{"apns-":"x"}}"#, ".headers[apns-]"),
        (#"{"headers":{"APNs-Priority":"5"}}"#, ".headers[APNs-Priority]"),
        (#"{"headers":{"apns-x":"a\u0007"}}"#, ".headers[apns-x]"),
        (#"{"fcm_options":{"link":"https://x.example"}}"#, ".fcm_options[link]"),
        (#"{"fcm_options":{"image":"http://x.example/i"}}"#, ".fcm_options.image"),
        (#"{"fcm_options":{"analytics_label":"a b"}}"#, ".fcm_options.analytics_label"),
        (#"{"fcm_options":{"analytics_label":""}}"#, ".fcm_options.analytics_label"),
        (#"{"fcm_options":{"analytics_label":1}}"#, ".fcm_options.analytics_label"),
    ]

    @Test("what Apple or FCM would refuse is refused, with its place", arguments: Self.broken)
    func rules(json: String, place: String) { #expect(Self.outcome(json) == "invalid_value \(Self.field)\(place)") }

    @Test("D38 a collapse id of 64 bytes goes through FCM, one of 65 does not")
    func collapseID() {
        func json(_ count: Int) -> String {
            "{\"headers\":{\"apns-collapse-id\":\"\(String(repeating: "c", count: count))\"}}"
        }
        #expect(Self.outcome(json(64)) == "sent")
        #expect(Self.outcome(json(65)) == "too_long \(Self.field).headers[apns-collapse-id]")
    }

    @Test("D36 a background push through FCM has priority 5 and shows nothing")
    func background() {
        func silent(_ json: String) -> String { Self.outcome(json) { $0.fcmAPNsStyle = .data } }
        let priority = "contradiction \(Self.field).headers[apns-priority]"
        #expect(silent(#"{"headers":{"apns-priority":"10"}}"#) == priority)
        #expect(silent(#"{"headers":{"apns-priority":null}}"#) == priority)
        #expect(silent(#"{"headers":null}"#) == priority)
        #expect(silent(#"{"headers":{"apns-priority":"5"}}"#) == "sent")
        #expect(Self.outcome(#"{"headers":{"apns-push-type":"background"}}"#) == priority)
        #expect(
            silent(#"{"payload":{"aps":{"sound":"default"}}}"#) == "contradiction \(Self.field).payload.aps.sound"
        )
        let own = #"{"headers":{"apns-push-type":"alert","apns-priority":"10"},"payload":{"aps":{"alert":"x"}}}"#
        #expect(silent(own) == "sent")
    }

    @Test("the finished block is weighed, calls have none, and the text is a JSON object")
    func sizesAndForm() {
        func payload(_ count: Int) -> String { "{\"payload\":{\"k\":\"\(String(repeating: "a", count: count))\"}}" }
        // {"aps":{"alert":{"body":"Hello"}},"k":"…","apus_send":"send-1"} has 62 bytes beside the value.
        #expect(Self.outcome(payload(4_096 - 62)) == "sent")
        #expect(Self.outcome(payload(4_096 - 61)) == "payload_too_large notification")
        #expect(
            refusal { _ = try renderFCM(notification(.voip) { $0.fcmAPNsJSON = "{}" }) }
                == "contradiction \(Self.field)"
        )
        for text in ["[]", "{", "5", #"{"headers":{},"headers":{}}"#] {
            #expect(Self.outcome(text) == "malformed_json \(Self.field)", "\(text)")
        }
    }

    @Test("direct APNs knows nothing of it; a badge that is said there is not counted")
    func apart() throws {
        let text = #"{"headers":{"apns-priority":"5"},"payload":{"aps":{"badge":3}}}"#
        let apple = try renderAPNs(notification { $0.fcmAPNsJSON = text })
        #expect(apple.header("apns-priority") == "10")
        #expect(try apple.body.json()["aps"]?["badge"] == nil)
        let counting = try renderFCM(
            notification {
                $0.fcmAPNsJSON = text
                $0.badge = .increment(1)
            }
        )
        #expect(counting.body.segments.filter { $0 == .badge }.count == 1)
        #expect(try counting.body.json()["message"]?["apns"]?["payload"]?["aps"]?["badge"] == 3)
    }
}
