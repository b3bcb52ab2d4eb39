extension HTTP2ClientSession {
    /// Hands a request in: the path that every notification takes.
    ///
    /// - Parameters:
    ///   - template: what does not change; kept as long as the request needs it.
    ///   - authorization: the header of that name; nil: none.
    ///   - token: raw bytes or text, as the template says; ignored by templates without a token.
    ///   - number: what stands where the template's body leaves a place for one.
    ///   - id: sent as `apns-id`; nil: no such header.
    ///   - tag: comes back with the request's one event.
    ///   - deadline: when to stop waiting for the answer.
    package mutating func submit(
        _ template: RequestTemplate,
        authorization: HeaderValue?,
        token: Span<UInt8>,
        number: UInt32 = 0,
        id: RequestID?,
        tag: UInt64,
        deadline: UInt64,
    ) -> HTTP2Submission {
        guard self.isOpen else { return .closed }
        guard self.inFlight < self.streamsMax else { return .full }
        guard template.accepts(token) else { return .invalidToken }
        guard let slot = unsafe self.state.pointee.takeSlot() else { return .full }
        unsafe slot.pointee.begin(tag: tag, deadline: deadline)

        let hasPath = template.pathForm != nil
        let pathBytes = hasPath ? unsafe template.pathPrefix.count + token.count * 2 : 0
        let middleBytes = template.bodyMiddleBytesMax + template.bodyTokens * token.count
        let room = pathBytes + RequestID.textBytes + middleBytes
        let start = unsafe slot.pointee.request.reserve(room)
        var cursor = unsafe start
        if let form = template.pathForm {
            let prefix = unsafe template.pathPrefix
            unsafe cursor.update(from: prefix.start, count: prefix.count)
            unsafe cursor += prefix.count
            switch form {
            case .hexadecimal: unsafe token.writeHexadecimal(to: &cursor)
            case .text: unsafe token.copy(to: &cursor)
            }
        }
        unsafe slot.pointee.pathCount = cursor - start
        if let id {
            unsafe id.write(to: cursor)
            unsafe cursor += RequestID.textBytes
            unsafe slot.pointee.hasID = true
        }
        unsafe slot.pointee.template = self.state.pointee.templates.lease(template)
        unsafe slot.pointee.templateSerial = template.serial
        if let authorization {
            unsafe slot.pointee.authorization = self.state.pointee.authorizations.lease(authorization)
            unsafe slot.pointee.authorizationSerial = authorization.serial
        }

        let prefix = unsafe template.bodyPrefix
        let suffix = unsafe template.bodySuffix
        let middle = unsafe cursor - start
        unsafe template.writeBodyMiddle(token: token, number: number, to: &cursor)
        unsafe slot.pointee.bodyMiddle = unsafe middle..<cursor - start
        unsafe slot.pointee.bodyPrefix = UnsafeBufferPointer(start: prefix.start, count: prefix.count)
        unsafe slot.pointee.bodySuffix = UnsafeBufferPointer(start: suffix.start, count: suffix.count)
        unsafe slot.pointee.bodyCount = prefix.count + slot.pointee.bodyMiddle.count + suffix.count
        let isTaken = unsafe self.wire.submit(slot, template, authorization)
        return unsafe self.submitted(slot, isTaken)
    }

    /// Hands a request in that fits no template; copies all of it.
    package mutating func submitPlain(_ request: PlainRequest, tag: UInt64, deadline: UInt64) -> HTTP2Submission {
        guard self.isOpen else { return .closed }
        guard self.inFlight < self.streamsMax else { return .full }
        guard let slot = unsafe self.state.pointee.takeSlot() else { return .full }
        unsafe slot.pointee.begin(tag: tag, deadline: deadline)
        let isTaken = unsafe self.wire.submitPlain(slot, request)
        return unsafe self.submitted(slot, isTaken)
    }

    @inline(__always)
    private mutating func submitted(_ slot: UnsafeMutablePointer<ClientSlot>, _ isTaken: Bool) -> HTTP2Submission {
        guard isTaken else {
            unsafe self.state.pointee.withdraw(slot)
            self.streamsExhausted()
            return .closed
        }
        unsafe self.state.pointee.opened(slot)
        return .submitted
    }
}
