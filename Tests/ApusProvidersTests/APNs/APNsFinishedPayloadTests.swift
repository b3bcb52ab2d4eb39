import ApusAPNs
import ApusCore
import ApusFCM
import ApusMessages
import ApusProviders
import Testing

@Suite("APNs: the rules hold of what goes out, whatever raw JSON did to it")
struct APNsFinishedPayloadTests {
    private static let field = "notification.apns_json"

    private func activity(
        _ event: Notification.LiveActivity.Event,
        _ change: (inout Notification) -> Void = { _ in },
    ) -> Notification {
        notification(.liveActivity) {
            var activity = Notification.LiveActivity(event: event)
            activity.contentStateJSON = #"{"score":1}"#
            if event == .start {
                activity.attributesType = "Game"
                activity.attributesJSON = "{}"
                $0.title = "Game"
            }
            $0.liveActivity = activity
            change(&$0)
        }
    }

    private func refused(_ event: Notification.LiveActivity.Event, _ change: (inout Notification) -> Void) -> String {
        refusal { _ = try renderAPNs(self.activity(event, change)) }
    }

    private func broadcast(_ json: String) -> String {
        refusal {
            _ = try APNsRenderer(bundleID: "com.example.app").render(
                self.activity(.update) { $0.apnsJSON = json },
                channel: APNsChannelID("YQ=="),
                storage: .none,
                context: context(),
            )
        }
    }

    @Test("D40 a Live Activity starts with a title or a body: a second line or a sound alone is no alert")
    func startsWithWords() throws {
        #expect(self.refused(.start) { _ in } == "sent")
        #expect(
            self.refused(.start) {
                $0.title = ""
                $0.sound = Notification.Sound()
            } == "missing_value notification.title"
        )
        #expect(
            self.refused(.start) {
                $0.title = ""
                $0.subtitle = "Half time"
            } == "contradiction notification.subtitle"
        )
        #expect(self.refused(.start) { $0.subtitleLocKey = "HALF" } == "contradiction notification.subtitle_loc_key")
        #expect(self.refused(.update) { $0.sound = Notification.Sound() } == "missing_value notification.title")
        #expect(
            self.refused(.update) {
                $0.body = "Goal"
                $0.sound = Notification.Sound(name: "siren", critical: true, volume: 1)
            } == "contradiction notification.sound.critical"
        )
        let localised = self.activity(.start) {
            $0.title = ""
            $0.bodyLocKey = "KICK_OFF"
        }
        #expect(
            try renderAPNs(localised).body.json()["aps"]?["alert"]
                == ["body": ["loc-key": "KICK_OFF", "loc-args": []]]
        )
    }

    @Test(
        "D40 raw JSON cannot take from a start what it needs",
        arguments: [
            #"{"aps":{"alert":null}}"#, #"{"aps":{"alert":{}}}"#, #"{"aps":{"alert":{"title":null}}}"#,
            #"{"aps":{"alert":{"title":""}}}"#, #"{"aps":{"alert":""}}"#, #"{"aps":{"attributes":null}}"#,
            #"{"aps":{"attributes":[]}}"#, #"{"aps":{"attributes-type":null}}"#, #"{"aps":{"attributes-type":""}}"#,
            #"{"aps":{"content-state":null}}"#, #"{"aps":{"timestamp":null}}"#, #"{"aps":{"timestamp":"now"}}"#,
            #"{"aps":{"event":null}}"#, #"{"aps":{"event":"begin"}}"#, #"{"aps":{"event":"update"}}"#,
            #"{"aps":{"dismissal-date":1,"event":"update"}}"#,
            #"{"aps":{"input-push-token":1,"input-push-channel":"YQ=="}}"#,
        ]
    )
    func start(json: String) {
        let emptied = json.contains(#"{"alert":{}"#)
        let answer = self.refused(.start) { $0.apnsJSON = json }
        // An empty object merged into the alert changes nothing of it.
        #expect(answer == (emptied ? "sent" : "contradiction \(Self.field)"))
    }

    @Test("D40 a start's channel is base64, wherever it is said")
    func inputPushChannel() {
        let field = "notification.live_activity.input_push_channel"
        #expect(self.refused(.start) { $0.liveActivity?.inputPushChannel = "dHN0LXNyY2gtY2hubA==" } == "sent")
        for channel in ["two words", "===", "a\nb", String(repeating: "a", count: 2_000)] {
            #expect(self.refused(.start) { $0.liveActivity?.inputPushChannel = channel } == "invalid_value \(field)")
        }
        let raw = "\(Self.field).aps.input-push-channel"
        #expect(self.refused(.start) { $0.apnsJSON = #"{"aps":{"input-push-channel":"YQ=="}}"# } == "sent")
        for json in [#"{"aps":{"input-push-channel":"two words"}}"#, #"{"aps":{"input-push-channel":1}}"#] {
            #expect(self.refused(.start) { $0.apnsJSON = json } == "invalid_value \(raw)")
        }
    }

    @Test("raw JSON cannot make an update what it is not")
    func update() {
        for json in [
            #"{"aps":{"event":"start"}}"#, #"{"aps":{"attributes":{}}}"#, #"{"aps":{"input-push-token":1}}"#,
            #"{"aps":{"dismissal-date":1700000000}}"#, #"{"aps":{"alert":{"subtitle":"x"}}}"#,
            #"{"aps":{"content-state":1}}"#, #"{"aps":[]}"#,
        ] {
            #expect(self.refused(.update) { $0.apnsJSON = json } == "contradiction \(Self.field)", "\(json)")
        }
        for json in [
            #"{"aps":{"alert":{"body":"Goal","sound":"default"}}}"#, #"{"aps":{"alert":"Goal"}}"#,
            #"{"aps":{"alert":{"title":{"loc-key":"GOAL"}}}}"#, #"{"aps":{"stale-date":1700000000}}"#,
            #"{"aps":{"event":"end","dismissal-date":1700000000,"content-state":null}}"#,
        ] {
            #expect(self.refused(.update) { $0.apnsJSON = json } == "sent", "\(json)")
        }
    }

    @Test("D41 raw JSON cannot start a Live Activity on a channel")
    func broadcasts() {
        let start =
            #"{"aps":{"event":"start","attributes-type":"Game","attributes":{},"alert":{"title":"Game"}}}"#
        #expect(self.broadcast(start) == "contradiction \(Self.field)")
        #expect(self.broadcast(#"{"aps":{"event":"start"}}"#) == "contradiction \(Self.field)")
        #expect(self.broadcast(#"{"aps":{"event":"end"}}"#) == "sent")
    }

    @Test("a background push has content-available and nothing else in aps, over Apple and over FCM")
    func background() throws {
        for json in [
            #"{"aps":{"alert":"x"}}"#, #"{"aps":{"content-available":0}}"#, #"{"aps":{"content-available":null}}"#,
            #"{"aps":{"thread-id":"x"}}"#, #"{"aps":{"mutable-content":1}}"#, #"{"aps":{"own":1}}"#, #"{"aps":null}"#,
        ] {
            let silent = notification(.background) { $0.apnsJSON = json }
            #expect(refusal { _ = try renderAPNs(silent) } == "contradiction \(Self.field)", "\(json)")
            #expect(refusal { _ = try renderFCM(silent) } == "contradiction \(Self.field)", "\(json)")
        }
        let beside = notification(.background) { $0.apnsJSON = #"{"own":{"a":[1]}}"# }
        #expect(
            try renderAPNs(beside).body.text
                == #"{"aps":{"content-available":1},"own":{"a":[1]},"apus.send":"send-1"}"#
        )
        #expect(refusal { _ = try renderFCM(beside) } == "sent")
        let handed = notification {
            $0.fcmAPNsStyle = .data
            $0.apnsJSON = #"{"aps":{"alert":"x"},"own":1}"#
        }
        #expect(try renderFCM(handed).body.text.contains(#""payload":{"aps":{"content-available":1},"#))
        #expect(try renderFCM(handed).body.text.contains(#""own":1"#))
    }

    @Test("device management takes mdm and nothing else")
    func management() throws {
        func refused(_ change: (inout Notification) -> Void) -> String {
            refusal {
                _ = try renderAPNs(
                    notification(.mdm) {
                        $0.data = ["mdm": "magic"]
                        change(&$0)
                    }
                )
            }
        }
        #expect(refused { _ in } == "sent")
        #expect(refused { $0.data["own"] = "1" } == "contradiction notification.data[own]")
        #expect(refused { $0.apnsJSON = #"{"own":1}"# } == "contradiction \(Self.field)")
        #expect(refused { $0.apnsJSON = #"{"aps":{"alert":"x"}}"# } == "contradiction \(Self.field)")
        #expect(refused { $0.apnsJSON = #"{"mdm":1}"# } == "missing_value notification.data[mdm]")
        #expect(refused { $0.title = "x" } == "contradiction notification.title")
        #expect(refused { $0.badge = .set(1) } == "contradiction notification.badge_set")
    }
}
