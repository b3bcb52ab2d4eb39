internal import ApusCore
internal import ApusMessages
internal import ApusStore
internal import HTTPTypes

/// Manages topics of a device: one, many, or all.
extension DeviceAPI {
    /// Answers `GET …/topics`.
    func topics(_ call: APICall) async throws -> APIResponse {
        guard let stored = try await self.visible(try call.device(), to: call) else { throw Self.missing }
        return Self.topicsAnswer(try await self.topicNames.names(call.app, stored.record.topics), of: stored)
    }

    /// Answers `PUT …/topics`, which replaces all topics.
    func replaceTopics(_ call: APICall) async throws -> APIResponse {
        _ = try call.request.contentType([.json])
        let change = try TopicChange(replacing: call.request.body)
        return try await self.changeTopics(call, change)
    }

    /// Answers `POST …/topics`, which enters some topics and leaves others, in one change.
    func changeTopics(_ call: APICall) async throws -> APIResponse {
        _ = try call.request.contentType([.json])
        let change = try TopicChange(changing: call.request.body)
        return try await self.changeTopics(call, change)
    }

    /// Answers `PUT …/topics/{topic}`.
    func subscribe(_ call: APICall) async throws -> APIResponse {
        let topic = try call.topic()
        guard try await self.change(call, TopicChange(entered: [topic.text])) != nil else { throw Self.missing }
        return .done
    }

    /// Answers `DELETE …/topics/{topic}`.
    func unsubscribe(_ call: APICall) async throws -> APIResponse {
        let topic = try call.topic()
        _ = try await self.change(call, TopicChange(left: [topic.text]))
        return .done
    }

    private func changeTopics(_ call: APICall, _ change: TopicChange) async throws -> APIResponse {
        guard let stored = try await self.change(call, change) else { throw Self.missing }
        return Self.topicsAnswer(try await self.topicNames.names(call.app, stored.record.topics), of: stored)
    }

    private func change(_ call: APICall, _ change: TopicChange) async throws -> StoredDevice? {
        let device = try call.device()
        let condition = try call.request.condition()
        let result = try await self.guarded(call, device, condition, topics: change.entered) {
            condition throws(StoreError) -> DeviceStore.ChangeResult in
            try await self.store.changeTopics(
                call.app,
                device,
                replacing: change.replacesAll,
                entered: change.entered,
                left: change.left,
                condition: condition,
                askedBy: call.caller.user,
            )
        }
        return self.counted(result)
    }

    private static func topicsAnswer(_ names: [String], of device: StoredDevice) -> APIResponse {
        let body: JSONObject = ["topics": .array(names.map { .string($0) })]
        return .json(.ok, body)
    }
}

/// Holds the change of a device's topics that a body requests. It is pure.
struct TopicChange: Hashable {
    /// True when the device leaves all other topics.
    var replacesAll = false
    var entered: [String] = []
    var left: [String] = []

    init(entered: [String] = [], left: [String] = []) {
        self.entered = entered
        self.left = left
    }

    /// Reads `{"topics": […]}`.
    init(replacing bytes: [UInt8]) throws(ProblemDetails) {
        var reader = MemberReader(try RegistrationBody.object(bytes))
        if !reader.has("topics") { reader.note("topics", "must be given") }
        self.replacesAll = true
        self.entered = Self.topics("topics", &reader)
        try reader.check()
    }

    /// Reads `{"subscribe": […], "unsubscribe": […]}`, either of which may be missing.
    init(changing bytes: [UInt8]) throws(ProblemDetails) {
        var reader = MemberReader(try RegistrationBody.object(bytes))
        if !reader.has("subscribe"), !reader.has("unsubscribe") {
            reader.note("subscribe", "or unsubscribe must be given")
        }
        self.entered = Self.topics("subscribe", &reader)
        self.left = Self.topics("unsubscribe", &reader)
        let entered = Set(self.entered)
        for (index, topic) in self.left.enumerated() where entered.contains(topic) {
            reader.note("unsubscribe/\(index)", "stands in subscribe, too")
        }
        try reader.check()
    }

    private static func topics(_ name: String, _ reader: inout MemberReader) -> [String] {
        let topics = reader.texts(name) ?? []
        guard topics.count <= Limits.topicsPerDeviceMax else {
            reader.note(name, "must have at most \(Limits.topicsPerDeviceMax) elements")
            return []
        }
        for (index, topic) in topics.enumerated() {
            if let breach = RegistrationRules.topic(topic) { reader.note("\(name)/\(index)", breach) }
        }
        return topics
    }
}
