public import ApusCore
internal import CApusMessages

extension Target: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__Target>?) -> Void {
        unsafe apus__v1__target__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__Target>) throws(MessageError) {
        let target = unsafe packed.pointee
        switch unsafe target.audience_case {
        case APUS__V1__TARGET__AUDIENCE_ADDRESSES:
            guard let list = unsafe target.addresses?.pointee else { throw Check.missing("addresses") }
            self = .addresses(
                try unsafe within("addresses", Unpack.parts(list.addresses, list.n_addresses, "addresses"))
            )
        case APUS__V1__TARGET__AUDIENCE_DEVICES:
            guard let list = unsafe target.devices?.pointee else { throw Check.missing("devices") }
            self = unsafe .devices(Unpack.texts(list.ids, list.n_ids))
        case APUS__V1__TARGET__AUDIENCE_USERS:
            guard let list = unsafe target.users?.pointee else { throw Check.missing("users") }
            self = unsafe .users(Unpack.texts(list.ids, list.n_ids))
        case APUS__V1__TARGET__AUDIENCE_TOPIC: self = unsafe .topic(Unpack.text(target.topic))
        case APUS__V1__TARGET__AUDIENCE_CONDITION: self = unsafe .condition(Unpack.text(target.condition))
        case APUS__V1__TARGET__AUDIENCE_EXPRESSION: self = unsafe .expression(Unpack.text(target.expression))
        case APUS__V1__TARGET__AUDIENCE_EVERYONE:
            guard let list = unsafe target.everyone?.pointee else { throw Check.missing("everyone") }
            var providers: [Provider] = []
            for (index, number) in unsafe Unpack.numbers(list.providers, list.n_providers).enumerated() {
                providers.append(
                    try within("everyone", within("providers", index: index, Unpack.requiredWord(number.rawValue, "")))
                )
            }
            self = .everyone(providers)
        case APUS__V1__TARGET__AUDIENCE_FCM_TOPIC: self = unsafe .fcmTopic(Unpack.text(target.fcm_topic))
        case APUS__V1__TARGET__AUDIENCE_FCM_CONDITION: self = unsafe .fcmCondition(Unpack.text(target.fcm_condition))
        case APUS__V1__TARGET__AUDIENCE_FCM_GROUP: self = unsafe .fcmGroup(Unpack.text(target.fcm_group))
        case APUS__V1__TARGET__AUDIENCE_APNS_CHANNEL:
            guard let channel = unsafe target.apns_channel?.pointee else { throw Check.missing("apns_channel") }
            self = .apnsChannel(
                id: unsafe Unpack.text(channel.channel_id),
                environment: try unsafe within(
                    "apns_channel",
                    Unpack.word(channel.environment.rawValue, "environment") ?? .production,
                ),
                storesLatest: unsafe channel.stores_latest != 0,
            )
        default:
            throw MessageError(.missing, "must name an audience that this version knows")
        }
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__Target>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        switch self {
        case .addresses(let addresses):
            let list = try unsafe arena.make(apus__v1__addresses__init)
            unsafe list.pointee.n_addresses = addresses.count
            unsafe list.pointee.addresses = try unsafe Pack.parts(addresses, arena)
            unsafe packed.pointee.addresses = list
            unsafe packed.pointee.audience_case = APUS__V1__TARGET__AUDIENCE_ADDRESSES
        case .devices(let devices):
            unsafe packed.pointee.devices = try Self.identifiers(devices, arena)
            unsafe packed.pointee.audience_case = APUS__V1__TARGET__AUDIENCE_DEVICES
        case .users(let users):
            unsafe packed.pointee.users = try Self.identifiers(users, arena)
            unsafe packed.pointee.audience_case = APUS__V1__TARGET__AUDIENCE_USERS
        case .topic(let topic):
            unsafe packed.pointee.topic = try unsafe Pack.text(topic, arena)
            unsafe packed.pointee.audience_case = APUS__V1__TARGET__AUDIENCE_TOPIC
        case .condition(let condition):
            unsafe packed.pointee.condition = try unsafe Pack.text(condition, arena)
            unsafe packed.pointee.audience_case = APUS__V1__TARGET__AUDIENCE_CONDITION
        case .expression(let expression):
            unsafe packed.pointee.expression = try unsafe Pack.text(expression, arena)
            unsafe packed.pointee.audience_case = APUS__V1__TARGET__AUDIENCE_EXPRESSION
        case .everyone(let providers):
            let list = try unsafe arena.make(apus__v1__everyone__init)
            unsafe list.pointee.n_providers = providers.count
            unsafe list.pointee.providers = try unsafe Pack.numbers(
                providers.map { Apus__V1__Provider(UInt32($0.rawValue)) },
                arena,
            )
            unsafe packed.pointee.everyone = list
            unsafe packed.pointee.audience_case = APUS__V1__TARGET__AUDIENCE_EVERYONE
        case .fcmTopic(let topic):
            unsafe packed.pointee.fcm_topic = try unsafe Pack.text(topic, arena)
            unsafe packed.pointee.audience_case = APUS__V1__TARGET__AUDIENCE_FCM_TOPIC
        case .fcmCondition(let condition):
            unsafe packed.pointee.fcm_condition = try unsafe Pack.text(condition, arena)
            unsafe packed.pointee.audience_case = APUS__V1__TARGET__AUDIENCE_FCM_CONDITION
        case .fcmGroup(let key):
            unsafe packed.pointee.fcm_group = try unsafe Pack.text(key, arena)
            unsafe packed.pointee.audience_case = APUS__V1__TARGET__AUDIENCE_FCM_GROUP
        case .apnsChannel(let id, let environment, let storesLatest):
            let channel = try unsafe arena.make(apus__v1__broadcast_channel__init)
            unsafe channel.pointee.channel_id = try unsafe Pack.text(id, arena)
            unsafe channel.pointee.environment = Apus__V1__Environment(UInt32(environment.rawValue))
            unsafe channel.pointee.stores_latest = storesLatest ? 1 : 0
            unsafe packed.pointee.apns_channel = channel
            unsafe packed.pointee.audience_case = APUS__V1__TARGET__AUDIENCE_APNS_CHANNEL
        }
    }

    private static func identifiers(
        _ ids: [String],
        _ arena: borrowing MessageArena,
    ) throws(MessageError) -> UnsafeMutablePointer<Apus__V1__Identifiers> {
        let list = try unsafe arena.make(apus__v1__identifiers__init)
        unsafe list.pointee.n_ids = ids.count
        unsafe list.pointee.ids = try unsafe Pack.texts(ids, arena)
        return unsafe list
    }

    func check() throws(MessageError) {
        switch self {
        case .addresses(let addresses):
            guard !addresses.isEmpty else { throw Check.missing("addresses") }
            try unsafe within("addresses", Check.parts(addresses, "addresses", countMax: Limits.recipientsMax))
        case .devices(let devices):
            guard !devices.isEmpty else { throw Check.missing("devices") }
            try within("devices", Check.identifiers(devices, bytesMax: Limits.deviceIDBytesMax))
        case .users(let users):
            guard !users.isEmpty else { throw Check.missing("users") }
            try within("users", Check.identifiers(users, bytesMax: Limits.userIDBytesMax))
        case .topic(let topic): try Check.requiredText(topic, "topic", bytesMax: Limits.topicTextBytesMax)
        case .condition(let condition):
            try Check.requiredText(condition, "condition", bytesMax: Limits.expressionBytesMax)
        case .expression(let expression):
            try Check.requiredText(expression, "expression", bytesMax: Limits.expressionBytesMax)
        case .everyone(let providers):
            try within("everyone", Check.count(providers.count, "providers", max: Provider.allCases.count))
        case .fcmTopic(let topic): try Check.requiredText(topic, "fcm_topic", bytesMax: Limits.topicTextBytesMax)
        case .fcmCondition(let condition):
            try Check.requiredText(condition, "fcm_condition", bytesMax: Limits.expressionBytesMax)
        case .fcmGroup(let key): try Check.requiredText(key, "fcm_group", bytesMax: Limits.tokenBytesMax)
        case .apnsChannel(let id, _, _):
            try within("apns_channel", Check.requiredText(id, "channel_id", bytesMax: Limits.nameBytesMax))
        }
    }
}

extension Check {
    fileprivate static func identifiers(_ ids: [String], bytesMax: Int) throws(MessageError) {
        try Self.requiredTexts(ids, "ids", countMax: Limits.recipientsMax, bytesMax: bytesMax)
    }
}

extension Address: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__Address>?) -> Void {
        unsafe apus__v1__address__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__Address>) throws(MessageError) {
        let address = unsafe packed.pointee
        self.init(
            provider: try unsafe Unpack.requiredWord(address.provider.rawValue, "provider"),
            token: unsafe Unpack.text(address.token),
        )
        self.environment = try unsafe Unpack.word(address.environment.rawValue, "environment") ?? .production
        self.kind = try unsafe Unpack.word(address.kind.rawValue, "kind") ?? .device
        self.webpushP256DH = unsafe Unpack.bytes(address.webpush_p256dh)
        self.webpushAuth = unsafe Unpack.bytes(address.webpush_auth)
        self.applicationServerKey = unsafe Unpack.bytes(address.application_server_key)
        self.locale = unsafe Unpack.text(address.locale)
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__Address>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.provider = Apus__V1__Provider(UInt32(self.provider.rawValue))
        unsafe packed.pointee.token = try unsafe Pack.text(self.token, arena)
        unsafe packed.pointee.environment = Apus__V1__Environment(UInt32(self.environment.rawValue))
        unsafe packed.pointee.kind = Apus__V1__TokenKind(UInt32(self.kind.rawValue))
        unsafe packed.pointee.webpush_p256dh = try unsafe Pack.bytes(self.webpushP256DH, arena)
        unsafe packed.pointee.webpush_auth = try unsafe Pack.bytes(self.webpushAuth, arena)
        unsafe packed.pointee.application_server_key = try unsafe Pack.bytes(self.applicationServerKey, arena)
        unsafe packed.pointee.locale = try unsafe Pack.text(self.locale, arena)
    }

    func check() throws(MessageError) {
        try Check.requiredText(self.token, "token", bytesMax: Limits.tokenBytesMax)
        try Check.bytes(self.webpushP256DH, "webpush_p256dh", exactly: Limits.webpushP256DHBytes)
        try Check.bytes(self.webpushAuth, "webpush_auth", exactly: Limits.webpushAuthBytes)
        try Check.bytes(self.applicationServerKey, "application_server_key", exactly: Limits.webpushP256DHBytes)
        try Check.text(self.locale, "locale", bytesMax: Limits.localeBytesMax)
    }
}

extension Target {
    /// The provider that holds the audience, if one does: then the send is one request to it, with the audience as the only recipient.
    public var holder: Provider? {
        switch self {
        case .fcmTopic, .fcmCondition, .fcmGroup: .fcm
        case .apnsChannel: .apns
        case .addresses, .devices, .users, .topic, .condition, .expression, .everyone: nil
        }
    }

    /// The environment in which a provider holds the audience; nil when the provider has only one, or holds none.
    public var holderEnvironment: ProviderEnvironment? {
        if case .apnsChannel(_, let environment, _) = self { environment } else { nil }
    }

    /// The broadcast channel of the target, and its storage policy; nil for other targets.
    public var channel: (id: String, storesLatest: Bool)? {
        if case .apnsChannel(let id, _, let storesLatest) = self { (id, storesLatest) } else { nil }
    }

    /// True for a target of registered devices, whose tokens are in the store.
    public var isOfDevices: Bool {
        switch self {
        case .devices, .users, .topic, .condition, .expression, .everyone: true
        case .addresses, .fcmTopic, .fcmCondition, .fcmGroup, .apnsChannel: false
        }
    }
}
