import ApusCore
import ApusMessages
import ApusProviders
import ApusWebPush
import Testing

@Suite("Web Push: rendering")
struct WebPushRendererTests {
    private let now = UnixMilliseconds(seconds: 1_700_000_000)

    private func context() throws -> RenderContext {
        RenderContext(send: try SendID("s1"), publishedAt: self.now, now: self.now)
    }

    private func alert(_ change: (inout Notification) -> Void = { _ in }) -> Notification {
        var notification = Notification()
        notification.title = "Tea"
        change(&notification)
        return notification
    }

    private func render(_ notification: Notification, declarative: Bool = false) throws -> RenderedWebPushMessage {
        try WebPushRenderer(isDeclarative: declarative).render(notification, context: try self.context()).base
    }

    private func text(_ message: RenderedWebPushMessage, badge: UInt32 = 0) -> String {
        String(decoding: message.body.bytes(badge: badge), as: UTF8.self)
    }

    private func header(_ name: String, _ message: RenderedWebPushMessage, at host: String = "a.example") -> String? {
        message.headers(for: Origin(host: host)).first { $0.name == name }?.value
    }

    @Test("The content is what a service worker shows and what the app gets")
    func content() throws {
        let message = try self.render(
            self.alert {
                $0.body = "is ready"
                $0.clickAction = "https://shop.example/tea"
                $0.data = ["b": "2", "a": "1"]
                $0.badge = .set(3)
            }
        )
        #expect(
            self.text(message)
                == #"{"notification":{"title":"Tea","body":"is ready","tag":"s1","navigate":"https://shop.example/tea"},"#
                + #""data":{"a":"1","b":"2","apus_send":"s1"},"app_badge":3}"#
        )
        var silent = Notification()
        silent.kind = .background
        silent.data = ["a": "1"]
        #expect(self.text(try self.render(silent)) == #"{"data":{"a":"1","apus_send":"s1"}}"#)
    }

    @Test("A declarative message has its mark, its link and the badge in both places")
    func declarative() throws {
        let message = try self.render(
            self.alert {
                $0.clickAction = "https://shop.example/tea"
                $0.badge = .increment(1)
            },
            declarative: true,
        )
        #expect(
            self.text(message, badge: 7)
                == #"{"web_push":8030,"notification":{"title":"Tea","tag":"s1","navigate":"https://shop.example/tea","#
                + #""app_badge":7},"data":{"apus_send":"s1"},"app_badge":7}"#
        )
        #expect(message.body.needsBadge)
    }

    @Test("A message without the links of a declarative one is left to the service worker, unless it has the mark")
    func notDeclarative() throws {
        let unlinked = self.alert { $0.badge = .set(3) }
        #expect(self.text(try self.render(unlinked, declarative: true)) == self.text(try self.render(unlinked)))
        func actions(_ more: String = "") -> Notification {
            self.alert {
                $0.clickAction = "https://shop.example/tea"
                $0.webpushJSON = #"{"notification":{"actions":[{"action":"a","title":"A"}]}\#(more)}"#
            }
        }
        #expect(self.text(try self.render(actions(), declarative: true)) == self.text(try self.render(actions())))
        for isDeclarative in [false, true] {
            let refused = #expect(throws: Problem.self) {
                try self.render(self.alert { $0.webpushJSON = #"{"web_push":8030}"# }, declarative: isDeclarative)
            }
            #expect(refused?.field == "notification.click_action")
            let action = #expect(throws: Problem.self) {
                try self.render(actions(#","web_push":8030"#), declarative: isDeclarative)
            }
            #expect(action?.field == "notification.webpush_json.notification.actions[0].navigate")
        }
    }

    @Test("The publisher's own JSON comes last, but for what is another provider's and for the send's id")
    func override() throws {
        let message = try self.render(
            self.alert {
                $0.webpushJSON =
                    #"{"headers":{"TTL":"1"},"fcm_options":{},"notification":{"title":"Tea!","silent":true},"data":{"apus_send":"x","n":1}}"#
            }
        )
        #expect(
            self.text(message)
                == #"{"notification":{"title":"Tea!","tag":"s1","silent":true},"data":{"apus_send":"s1","n":1}}"#
        )
        for (json, field) in [
            (#"{"notification":1}"#, "notification.webpush_json.notification"),
            (#"{"notification":{"title":null}}"#, "notification.webpush_json.notification.title"),
            (#"{"data":[]}"#, "notification.webpush_json.data"),
            (#"{"app_badge":-1}"#, "notification.webpush_json.app_badge"),
            ("[]", "notification.webpush_json"),
        ] {
            let problem = #expect(throws: Problem.self) { try self.render(self.alert { $0.webpushJSON = json }) }
            #expect(problem?.field == field, "\(json)")
        }
    }

    @Test("D86 the content is at most 3,993 bytes, badges counted at their longest")
    func size() throws {
        let room = 3_993 - self.text(try self.render(self.alert { $0.badge = .set(1) })).utf8.count
        func filled(_ count: Int, _ badge: Notification.Badge) -> Notification {
            self.alert {
                $0.badge = badge
                $0.data = ["k": String(repeating: "x", count: count)]
            }
        }
        let overhead = #""k":"","#.utf8.count
        let exact = filled(room - overhead, .set(1))
        #expect(try self.render(exact).body.bytesMax == 3_993)
        let long = #expect(throws: Problem.self) { try self.render(filled(room - overhead + 1, .set(1))) }
        #expect(long?.code == RuleBreach.payloadTooLarge.rawValue)
        #expect(throws: Problem.self) { try self.render(filled(room - overhead, .increment(1))) }
        #expect(throws: Never.self) { try self.render(filled(room - overhead - 9, .increment(1))) }
    }

    @Test("D94 a time to live is always given; it is rounded up and at most four weeks")
    func timeToLive() throws {
        func seconds(_ expiry: Notification.Expiry?) throws -> String? {
            self.header("ttl", try self.render(self.alert { $0.expiry = expiry }))
        }
        #expect(try seconds(nil) == "2419200")
        #expect(try seconds(.ttl(milliseconds: 0)) == "0")
        #expect(try seconds(.ttl(milliseconds: 1)) == "1")
        #expect(try seconds(.ttl(milliseconds: 2_419_200_000)) == "2419200")
        #expect(try seconds(.at(self.now.advanced(byMilliseconds: -5))) == "0")
        #expect(throws: Problem.self) { try seconds(.ttl(milliseconds: 2_419_200_001)) }
    }

    @Test("D95 one service is told whether to store: not with a time to live of 0")
    func cachePolicy() throws {
        let host = "wns2-par02p.notify.windows.com"
        let stored = try self.render(self.alert { $0.expiry = .ttl(milliseconds: 60_000) })
        let once = try self.render(self.alert { $0.expiry = .ttl(milliseconds: 0) })
        #expect(self.header("x-wns-cache-policy", stored, at: host) == "cache")
        #expect(self.header("x-wns-cache-policy", once, at: host) == "no-cache")
        #expect(self.header("x-wns-cache-policy", once) == nil)
    }

    @Test("D111 Apple's service gets a second instead of a time to live of 0, and the others get 0")
    func appleTimeToLive() throws {
        let once = try self.render(self.alert { $0.expiry = .ttl(milliseconds: 0) })
        let stored = try self.render(self.alert { $0.expiry = .ttl(milliseconds: 60_000) })
        for host in ["web.push.apple.com", "api.push.apple.com"] {
            #expect(self.header("ttl", once, at: host) == "1")
            #expect(self.header("ttl", stored, at: host) == "60")
        }
        for host in ["fcm.googleapis.com", "updates.push.services.mozilla.com", "evilpush.apple.com"] {
            #expect(self.header("ttl", once, at: host) == "0")
        }
        #expect(once.headers(for: Origin(host: "web.push.apple.com")).count { $0.name == "ttl" } == 1)
    }

    @Test("D96 a topic is always 32 characters of base64url, whatever the collapse key")
    func topic() throws {
        for key in ["a", "a.b", "a b/c", String(repeating: "k", count: 64)] {
            let topic = try #require(self.header("topic", try self.render(self.alert { $0.collapseKey = key })))
            #expect(topic.utf8.count == 32 && Base64URL.decode(topic) != nil)
        }
        #expect(self.header("topic", try self.render(self.alert())) == nil)
    }

    @Test("Urgency is the priority's")
    func urgency() throws {
        func urgency(_ priority: Notification.Priority?) throws -> String? {
            self.header("urgency", try self.render(self.alert { $0.priority = priority }))
        }
        #expect(try urgency(nil) == "high")
        #expect(try urgency(.high) == "high")
        #expect(try urgency(.normal) == "normal")
        #expect(try urgency(.low) == "low")
        var silent = Notification()
        silent.kind = .background
        #expect(self.header("urgency", try self.render(silent)) == "normal")
    }

    @Test("Kinds for other devices and alerts without a title are for other providers")
    func unsupported() throws {
        var call = Notification()
        call.kind = .voip
        var untitled = Notification()
        untitled.body = "x"
        for (notification, field) in [(call, "notification.kind"), (untitled, "notification.title")] {
            let problem = #expect(throws: Problem.self) { try self.render(notification) }
            #expect(problem?.field == field)
            #expect(problem?.code == RuleBreach.unsupported.rawValue)
        }
    }

    @Test("What shows nothing is kept from the service that revokes subscriptions for it")
    func silent() throws {
        var silent = Notification()
        silent.kind = .background
        let message = try self.render(silent)
        #expect(message.breach(at: Origin(host: "web.push.apple.com")) != nil)
        #expect(message.breach(at: Origin(host: "fcm.googleapis.com")) == nil)
        #expect(try self.render(self.alert()).breach(at: Origin(host: "web.push.apple.com")) == nil)
    }

    @Test("Every language has its own texts")
    func variants() throws {
        let notification = self.alert {
            var french = Notification.LocaleVariant(locale: "fr")
            french.title = "Thé"
            $0.variants = [french]
        }
        let rendered = try WebPushRenderer(isDeclarative: false).render(notification, context: try self.context())
        #expect(self.text(rendered[locale: "fr-CA"]).contains("Thé"))
        #expect(self.text(rendered[locale: "de"]).contains("Tea"))
    }
}
