internal import ApusCore
internal import CApusMessages

extension RegistrationCommand: Message, @unsafe PackedMessage {
    static var bytesMax: Int { Limits.messageBytesMax }
    static var initialize: (UnsafeMutablePointer<Apus__V1__RegistrationCommand>?) -> Void {
        unsafe apus__v1__registration_command__init
    }

    /// Decodes a message of at most `Limits.messageBytesMax` bytes.
    public static func decode(
        _ bytes: Span<UInt8>,
        in arena: inout MessageArena
    ) throws(MessageError) -> RegistrationCommand {
        try unsafe Self.unpack(bytes, arena)
    }

    /// Encodes the message.
    public func encode(in arena: inout MessageArena) throws(MessageError) -> [UInt8] { try unsafe self.pack(arena) }

    init(unpacking packed: UnsafePointer<Apus__V1__RegistrationCommand>) throws(MessageError) {
        let command = unsafe packed.pointee
        self.init(app: unsafe Unpack.text(command.app), action: try unsafe Action(unpacking: command))
        self.id = unsafe Unpack.text(command.id)
        self.asOf = unsafe Unpack.time(command.as_of_ms)
        self.replyTo = unsafe Unpack.text(command.reply_to)
        self.traceparent = unsafe Unpack.text(command.traceparent)
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__RegistrationCommand>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.id = try unsafe Pack.text(self.id, arena)
        unsafe packed.pointee.app = try unsafe Pack.text(self.app, arena)
        unsafe packed.pointee.as_of_ms = self.asOf?.value ?? 0
        try unsafe self.action.pack(into: packed, arena)
        unsafe packed.pointee.reply_to = try unsafe Pack.text(self.replyTo, arena)
        unsafe packed.pointee.traceparent = try unsafe Pack.text(self.traceparent, arena)
    }

    func check() throws(MessageError) {
        try Check.text(self.id, "id", bytesMax: Limits.nameBytesMax)
        try Check.requiredText(self.app, "app", bytesMax: Limits.appIDBytesMax)
        try Check.optionalTime(self.asOf, "as_of_ms")
        try self.action.check()
        try Check.text(self.replyTo, "reply_to", bytesMax: Limits.replyToBytesMax)
        try Check.text(self.traceparent, "traceparent", bytesMax: Limits.traceparentBytesMax)
    }
}

extension RegistrationCommand.Action {
    fileprivate init(unpacking command: Apus__V1__RegistrationCommand) throws(MessageError) {
        switch unsafe command.action_case {
        case APUS__V1__REGISTRATION_COMMAND__ACTION_REGISTER:
            self = .register(try unsafe Unpack.required(command.register_, "register"))
        case APUS__V1__REGISTRATION_COMMAND__ACTION_UNREGISTER:
            guard let part = unsafe command.unregister?.pointee else { throw Check.missing("unregister") }
            self = unsafe .unregister(device: Unpack.text(part.device))
        case APUS__V1__REGISTRATION_COMMAND__ACTION_SUBSCRIBE:
            guard let part = unsafe command.subscribe?.pointee else { throw Check.missing("subscribe") }
            self = unsafe .subscribe(
                device: Unpack.text(part.device),
                topics: Unpack.texts(part.topics, part.n_topics),
            )
        case APUS__V1__REGISTRATION_COMMAND__ACTION_UNSUBSCRIBE:
            guard let part = unsafe command.unsubscribe?.pointee else { throw Check.missing("unsubscribe") }
            self = unsafe .unsubscribe(
                device: Unpack.text(part.device),
                topics: Unpack.texts(part.topics, part.n_topics),
            )
        case APUS__V1__REGISTRATION_COMMAND__ACTION_BIND_USER:
            guard let part = unsafe command.bind_user?.pointee else { throw Check.missing("bind_user") }
            self = unsafe .bindUser(device: Unpack.text(part.device), user: Unpack.text(part.user))
        case APUS__V1__REGISTRATION_COMMAND__ACTION_UNBIND_USER:
            guard let part = unsafe command.unbind_user?.pointee else { throw Check.missing("unbind_user") }
            self = unsafe .unbindUser(device: Unpack.text(part.device))
        case APUS__V1__REGISTRATION_COMMAND__ACTION_SET_ATTRIBUTES:
            guard let part = unsafe command.set_attributes?.pointee else { throw Check.missing("set_attributes") }
            self = .setAttributes(
                device: unsafe Unpack.text(part.device),
                try unsafe within("set_attributes", Unpack.part(part.attributes, "attributes") ?? Attributes()),
            )
        case APUS__V1__REGISTRATION_COMMAND__ACTION_SET_BADGE:
            guard let part = unsafe command.set_badge?.pointee else { throw Check.missing("set_badge") }
            self = unsafe .setBadge(device: Unpack.text(part.device), part.badge)
        case APUS__V1__REGISTRATION_COMMAND__ACTION_DELETE_USER:
            guard let part = unsafe command.delete_user?.pointee else { throw Check.missing("delete_user") }
            self = unsafe .deleteUser(Unpack.text(part.user))
        default:
            throw MessageError(.missing, field: "action", "must be one that this version knows")
        }
    }

    fileprivate func pack(
        into packed: UnsafeMutablePointer<Apus__V1__RegistrationCommand>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        switch self {
        case .register(let registration):
            unsafe packed.pointee.register_ = try registration.packed(arena)
            unsafe packed.pointee.action_case = APUS__V1__REGISTRATION_COMMAND__ACTION_REGISTER
        case .unregister(let device):
            unsafe packed.pointee.unregister = try Self.reference(device, arena)
            unsafe packed.pointee.action_case = APUS__V1__REGISTRATION_COMMAND__ACTION_UNREGISTER
        case .subscribe(let device, let topics):
            unsafe packed.pointee.subscribe = try Self.change(device, topics, arena)
            unsafe packed.pointee.action_case = APUS__V1__REGISTRATION_COMMAND__ACTION_SUBSCRIBE
        case .unsubscribe(let device, let topics):
            unsafe packed.pointee.unsubscribe = try Self.change(device, topics, arena)
            unsafe packed.pointee.action_case = APUS__V1__REGISTRATION_COMMAND__ACTION_UNSUBSCRIBE
        case .bindUser(let device, let user):
            let part = try unsafe arena.make(apus__v1__user_binding__init)
            unsafe part.pointee.device = try unsafe Pack.text(device, arena)
            unsafe part.pointee.user = try unsafe Pack.text(user, arena)
            unsafe packed.pointee.bind_user = part
            unsafe packed.pointee.action_case = APUS__V1__REGISTRATION_COMMAND__ACTION_BIND_USER
        case .unbindUser(let device):
            unsafe packed.pointee.unbind_user = try Self.reference(device, arena)
            unsafe packed.pointee.action_case = APUS__V1__REGISTRATION_COMMAND__ACTION_UNBIND_USER
        case .setAttributes(let device, let attributes):
            let part = try unsafe arena.make(apus__v1__attribute_change__init)
            unsafe part.pointee.device = try unsafe Pack.text(device, arena)
            if attributes != Attributes() { unsafe part.pointee.attributes = try attributes.packed(arena) }
            unsafe packed.pointee.set_attributes = part
            unsafe packed.pointee.action_case = APUS__V1__REGISTRATION_COMMAND__ACTION_SET_ATTRIBUTES
        case .setBadge(let device, let badge):
            let part = try unsafe arena.make(apus__v1__badge_change__init)
            unsafe part.pointee.device = try unsafe Pack.text(device, arena)
            unsafe part.pointee.badge = badge
            unsafe packed.pointee.set_badge = part
            unsafe packed.pointee.action_case = APUS__V1__REGISTRATION_COMMAND__ACTION_SET_BADGE
        case .deleteUser(let user):
            let part = try unsafe arena.make(apus__v1__user_reference__init)
            unsafe part.pointee.user = try unsafe Pack.text(user, arena)
            unsafe packed.pointee.delete_user = part
            unsafe packed.pointee.action_case = APUS__V1__REGISTRATION_COMMAND__ACTION_DELETE_USER
        }
    }

    private static func reference(
        _ device: String,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) -> UnsafeMutablePointer<Apus__V1__DeviceReference> {
        let part = try unsafe arena.make(apus__v1__device_reference__init)
        unsafe part.pointee.device = try unsafe Pack.text(device, arena)
        return unsafe part
    }

    private static func change(
        _ device: String,
        _ topics: [String],
        _ arena: borrowing MessageArena,
    ) throws(MessageError) -> UnsafeMutablePointer<Apus__V1__TopicChange> {
        let part = try unsafe arena.make(apus__v1__topic_change__init)
        unsafe part.pointee.device = try unsafe Pack.text(device, arena)
        unsafe part.pointee.n_topics = topics.count
        unsafe part.pointee.topics = try unsafe Pack.texts(topics, arena)
        return unsafe part
    }

    fileprivate func check() throws(MessageError) {
        switch self {
        case .register(let registration): try within("register", registration.check())
        case .unregister(let device): try within("unregister", Check.device(device))
        case .subscribe(let device, let topics):
            try within("subscribe", Check.device(device))
            try within("subscribe", Check.someTopics(topics))
        case .unsubscribe(let device, let topics):
            try within("unsubscribe", Check.device(device))
            try within("unsubscribe", Check.someTopics(topics))
        case .bindUser(let device, let user):
            try within("bind_user", Check.device(device))
            try within("bind_user", Check.requiredText(user, "user", bytesMax: Limits.userIDBytesMax))
        case .unbindUser(let device): try within("unbind_user", Check.device(device))
        case .setAttributes(let device, let attributes):
            try within("set_attributes", Check.device(device))
            try within("set_attributes", within("attributes", attributes.check()))
        case .setBadge(let device, _): try within("set_badge", Check.device(device))
        case .deleteUser(let user):
            try within("delete_user", Check.requiredText(user, "user", bytesMax: Limits.userIDBytesMax))
        }
    }
}

extension Check {
    fileprivate static func device(_ device: String) throws(MessageError) {
        try Self.requiredText(device, "device", bytesMax: Limits.deviceIDBytesMax)
    }

    fileprivate static func someTopics(_ topics: [String]) throws(MessageError) {
        guard !topics.isEmpty else { throw Self.missing("topics") }
        try Self.topics(topics)
    }
}
