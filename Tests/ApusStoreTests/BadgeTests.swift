import ApusCore
import ApusMessages
import ApusRedis
import Testing

@testable import ApusStore

@Suite struct BadgeTests {
    /// Counts a send for devices, wherever they are.
    private func count(
        _ fixture: StoreFixture,
        _ devices: [StoredDevice],
        send: UInt64,
        by increment: UInt32 = 1,
        isRepeated: Bool = false,
    ) async throws -> [UInt32?] {
        var counts: [UInt32?] = Array(repeating: nil, count: devices.count)
        for (partition, indices) in Dictionary(grouping: devices.indices, by: { devices[$0].reference.partition }) {
            let places = indices.map { index in
                DeviceStore.CountedDevice(
                    ordinal: devices[index].reference.ordinal,
                    generation: devices[index].reference.generation,
                )
            }
            let counted = try await fixture.store.countBadges(
                fixture.route,
                Int(partition),
                places,
                send: send,
                increment: increment,
                isRepeated: isRepeated,
            )
            for (index, count) in zip(indices, counted) { counts[index] = count }
        }
        return counts
    }

    private static func digest(_ number: Int) -> UInt64 { UInt64(number) << 32 | 0xabcd }

    @Test func `A send counts once per device, however often it is asked for`() async throws {
        try await StoreFixture.with { fixture in
            var devices: [StoredDevice] = []
            for index in 0..<300 { devices.append(try await fixture.register("d\(index)").device) }
            #expect(try await self.count(fixture, devices, send: Self.digest(1)) == Array(repeating: 1, count: 300))
            // As after a crash between counting and sending.
            #expect(try await self.count(fixture, devices, send: Self.digest(1)) == Array(repeating: 1, count: 300))
            let some = Array(devices[100..<110])
            #expect(try await self.count(fixture, some, send: Self.digest(2), by: 5) == Array(repeating: 6, count: 10))
            // An earlier send that comes again shows what the badge is now.
            let again = try await self.count(fixture, devices, send: Self.digest(1))
            #expect(again.filter { $0 == 6 }.count == 10 && again.filter { $0 == 1 }.count == 290)
            #expect(try await fixture.expectClean().badges == 300)
        }
    }

    @Test func `A send is not counted again although many sends came between`() async throws {
        try await StoreFixture.with { fixture in
            let device = try await fixture.register("d").device
            for number in 1...20 {
                #expect(try await self.count(fixture, [device], send: Self.digest(number)) == [UInt32(number)])
            }
            #expect(try await self.count(fixture, [device], send: Self.digest(1), isRepeated: true) == [20])
            let remembered = 20 - StoreLimits.badgeSendsMax + 1
            #expect(try await self.count(fixture, [device], send: Self.digest(remembered)) == [20])
            #expect(try await self.count(fixture, [device], send: Self.digest(remembered - 1)) == [21])
            // A device without a count was not counted, whatever the caller believes.
            let other = try await fixture.register("other").device
            #expect(try await self.count(fixture, [other], send: Self.digest(1), isRepeated: true) == [1])
            try await fixture.expectClean()
        }
    }

    @Test func `The count stops at the largest number there is`() async throws {
        try await StoreFixture.with { fixture in
            let device = try await fixture.register("d").device
            #expect(try await self.count(fixture, [device], send: Self.digest(1), by: .max) == [Limits.badgeMax])
            #expect(try await self.count(fixture, [device], send: Self.digest(2), by: .max) == [Limits.badgeMax])
            #expect(try await fixture.store.badge(of: device) == Limits.badgeMax)
            try await fixture.expectClean()
        }
    }

    @Test func `The badge is removed with its device, and is not counted afterwards`() async throws {
        try await StoreFixture.with(partitions: 1) { fixture in
            let device = try await fixture.register("d").device
            let kept = try await fixture.register("kept").device
            _ = try await self.count(fixture, [device, kept], send: Self.digest(1), by: 3)
            _ = try await fixture.store.delete(fixture.app, try DeviceID("d"))
            #expect(try await fixture.expectClean().badges == 1)
            // A unit that was read before the removal.
            #expect(try await self.count(fixture, [device, kept], send: Self.digest(2)) == [nil, 4])
            let later = StoredDevicePlace(device, generation: device.reference.generation + 1)
            #expect(try await later.count(fixture, send: Self.digest(3)) == [nil])
            #expect(try await fixture.expectClean().badges == 1)
        }
    }

    @Test func `A change of the record leaves the badge, and a change of Apple's environment moves it`() async throws {
        try await StoreFixture.with { fixture in
            let device = try await fixture.register("d").device
            _ = try await self.count(fixture, [device], send: Self.digest(1), by: 4)
            let rotated = try await fixture.register("d", token: "another", user: "anna", topics: ["news"]).device
            #expect(rotated.reference == device.reference)
            #expect(try await fixture.store.badge(of: rotated) == 4)
            let moved = try await fixture.register("d", token: "third", environment: .sandbox).device
            #expect(moved.realm != device.realm)
            #expect(try await fixture.store.badge(of: moved) == 4)
            #expect(try await fixture.store.badge(of: device) == 0)
            #expect(try await fixture.expectClean().badges == 1)
        }
    }

    @Test func `The app sets its badge, and sends count on from there`() async throws {
        try await StoreFixture.with { fixture in
            let device = try await fixture.register("d").device
            let id = try DeviceID("d")
            _ = try await self.count(fixture, [device], send: Self.digest(1), by: 7)
            #expect(try await fixture.store.setBadge(fixture.app, id, to: 0) == .changed(device))
            // Earlier counts stay.
            #expect(try await self.count(fixture, [device], send: Self.digest(1), by: 7) == [0])
            #expect(try await self.count(fixture, [device], send: Self.digest(2)) == [1])
            #expect(try await fixture.store.setBadge(fixture.app, id, to: 40) == .changed(device))
            #expect(try await self.count(fixture, [device], send: Self.digest(3)) == [41])
            let before = device.registeredAt.advanced(byMilliseconds: -1)
            #expect(try await fixture.store.setBadge(fixture.app, id, to: 0, asOf: before) == .ignored(device))
            #expect(try await fixture.store.setBadge(fixture.app, try DeviceID("nobody"), to: 1) == .missing)
            await #expect(throws: StoreError.self) {
                try await fixture.store.setBadge(fixture.app, id, to: Limits.badgeMax + 1)
            }
            #expect(try await fixture.store.badge(of: device) == 41)
            // Nothing to remember is nothing to keep.
            let other = try await fixture.register("other").device
            _ = try await fixture.store.setBadge(fixture.app, try DeviceID("other"), to: 2)
            #expect(try await fixture.store.badge(of: other) == 2)
            _ = try await fixture.store.setBadge(fixture.app, try DeviceID("other"), to: 0)
            #expect(try await fixture.expectClean().badges == 1)
        }
    }

    @Test func `A badge that was set later stays, and one that is set again takes back no send since`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app, id) = (fixture.store, fixture.app, try DeviceID("d"))
            let past = UnixMilliseconds(1_700_000_000_000)
            func set(_ count: UInt32, _ milliseconds: Int64) async throws -> DeviceStore.ChangeResult {
                try await store.setBadge(app, id, to: count, asOf: past.advanced(byMilliseconds: milliseconds))
            }
            // The time of a registration is that of the badge that comes with it.
            let device = try await fixture.register("d", asOf: past).device
            #expect(try await set(9, -1) == .ignored(device))
            #expect(try await set(2, 0) == .changed(device))
            #expect(try await self.count(fixture, [device], send: Self.digest(1)) == [3])
            #expect(try await set(2, 0) == .ignored(device))
            #expect(try await store.badge(of: device) == 3)

            #expect(try await set(0, 5) == .changed(device))
            for (count, late) in [(7, 3), (2, 0)] as [(UInt32, Int64)] {
                #expect(try await set(count, late) == .ignored(device))
            }
            #expect(try await store.badge(of: device) == 0)
            #expect(try await self.count(fixture, [device], send: Self.digest(2)) == [1])
            #expect(try await set(0, 5) == .ignored(device))
            #expect(try await store.badge(of: device) == 1)
            // One without a time is of the present, and leaves the time.
            #expect(try await store.setBadge(app, id, to: 8) == .changed(device))
            #expect(try await set(7, 4) == .ignored(device))
            #expect(try await set(9, 6) == .changed(device))
            #expect(try await store.badge(of: device) == 9)
            #expect(try await store.setBadge(app, DeviceID("nobody"), to: 1, asOf: past) == .missing)
            #expect(try await fixture.expectClean().badges == 1)
        }
    }

    @Test func `A badge keeps out nothing else that is older`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app, id) = (fixture.store, fixture.app, try DeviceID("d"))
            let past = UnixMilliseconds(1_700_000_000_000)
            func time(_ milliseconds: Int64) -> UnixMilliseconds { past.advanced(byMilliseconds: milliseconds) }
            let device = try await fixture.register("d", user: "ann", asOf: past).device
            #expect(try await store.setBadge(app, id, to: 4, asOf: time(9)) == .changed(device))
            guard case .changed(let left) = try await store.unbindUser(app, id, asOf: time(3)) else {
                throw Unexpected()
            }
            #expect(left.record.user.isEmpty && left.changedAt == time(3))
            let renewed = try await fixture.register("d", token: "another", user: "bob", asOf: time(5))
            #expect(renewed.change == .tokenReplaced && renewed.device.registeredAt == time(5))
            #expect(try await store.badge(of: renewed.device) == 4)
            // From before the device was the user's.
            #expect(try await store.setBadge(app, id, to: 7, asOf: time(4)) == .ignored(renewed.device))
            #expect(try await store.delete(app, id, asOf: time(6)) == .deleted(renewed.device))
            #expect(try await fixture.expectClean().badges == 0)
        }
    }

    @Test func `A badge of a time to come is one of the present, and one of 0 keeps its time`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app, id) = (fixture.store, fixture.app, try DeviceID("d"))
            let device = try await fixture.register("d", asOf: UnixMilliseconds(1_700_000_000_000)).device
            let before = try await fixture.redisNow()
            let future = before.advanced(byMilliseconds: 3_600_000)
            #expect(try await store.setBadge(app, id, to: 0, asOf: future) == .changed(device))
            #expect(try await fixture.expectClean().badges == 1)
            let late = before.advanced(byMilliseconds: -1)
            #expect(try await store.setBadge(app, id, to: 5, asOf: late) == .ignored(device))
            let after = try await fixture.redisNow()
            var later = after
            while later <= after { later = try await fixture.redisNow() }
            #expect(try await store.setBadge(app, id, to: 6, asOf: later) == .changed(device))
            #expect(try await store.badge(of: device) == 6)
        }
    }

    @Test func `Malformed arguments change nothing`() async throws {
        try await StoreFixture.with(partitions: 1) { fixture in
            let device = try await fixture.register("d").device
            let meta = fixture.store.keys.meta(fixture.app, device.realm, 0)
            let send = Array(repeating: UInt8(1), count: 5)
            let many = [UInt8](repeating: 0, count: (StoreLimits.badgesPerCallMax + 1) * 8)
            func call(_ send: [UInt8], _ increment: Int, _ devices: [UInt8]) -> CountBadgesCall {
                CountBadgesCall(keys: [meta], send: send, increment: increment, isRepeated: false, devices: devices)
            }
            for call in [call([1], 1, []), call(send, -1, []), call(send, 1, [1, 2, 3]), call(send, 1, many)] {
                await #expect(throws: RedisError.self) {
                    try await fixture.client.call(call, on: fixture.store.keys.tag(0))
                }
            }
            #expect(try await fixture.expectClean().badges == 0)
        }
    }

    /// A place and another holder of it.
    private struct StoredDevicePlace {
        let partition: Int
        let counted: DeviceStore.CountedDevice

        init(_ device: StoredDevice, generation: UInt32) {
            self.partition = Int(device.reference.partition)
            self.counted = DeviceStore.CountedDevice(ordinal: device.reference.ordinal, generation: generation)
        }

        func count(_ fixture: StoreFixture, send: UInt64) async throws -> [UInt32?] {
            try await fixture.store.countBadges(fixture.route, self.partition, [self.counted], send: send, increment: 1)
        }
    }
}
