import ApusCore
import ApusLab
import ApusSimulator
import Testing

@Suite struct DemoPopulationTests {
    private let population = DemoPopulation(count: 4_000, seed: 7, dead: DeadShare(0.02, seed: 7))

    @Test func `The same seed gives the same devices, another seed others`() {
        let again = DemoPopulation(count: 4_000, seed: 7, dead: DeadShare(0.02, seed: 7))
        #expect(again.devices == self.population.devices)
        #expect(
            DemoPopulation(count: 10, seed: 8, dead: DeadShare(0, seed: 7)).devices[0].token != again.devices[0].token
        )
    }

    @Test func `Ids and tokens are unique, and half of the devices are iOS, a twentieth browsers`() {
        #expect(Set(self.population.devices.map(\.id)).count == 4_000)
        #expect(Set(self.population.devices.map(\.token)).count == 4_000)
        #expect(self.population.devices.count { $0.provider == .apns } == 2_000)
        #expect(self.population.devices.count { $0.provider == .webpush } == 200)
        let phones = DemoPopulation(count: 4_000, seed: 7, dead: DeadShare(0.02, seed: 7), hasBrowsers: false)
        #expect(phones.devices.count { $0.provider == .fcm } == 2_000)
    }

    @Test func `Tokens have the form of their provider's`() throws {
        let apple = try #require(Hexadecimal.decode(self.population.devices[0].token))
        #expect(apple.count == 32)
        #expect(self.population.devices[1].token.count == 152)
        #expect(self.population.devices[1].token.contains(":APA91b"))
        #expect(WebAddress(https: self.population.devices[19].token) != nil)
        let browser = try JSONValue(parsing: self.population.devices[19].registration, bytesMax: 10_000)
        #expect(browser["subscription"]?["endpoint"]?.string == self.population.devices[19].token)
        #expect(browser["token"] == nil)
    }

    @Test func `Topics have about their shares`() {
        for topic in DemoPopulation.topics {
            let share = Double(self.population.subscribers(of: topic.name).count) / 4_000
            #expect(abs(share - topic.share) < 0.03, "\(topic.name)")
        }
        #expect(!self.population.subscribers(of: "chess").isEmpty)
    }

    @Test func `The dead tokens are those that the simulator draws`() {
        let share = DeadShare(0.02, seed: 7)
        let dead = self.population.devices.indices.filter {
            share.contains(self.population.devices[$0].token, provider: self.population.devices[$0].provider)
        }
        #expect(self.population.dead == dead)
        #expect((40...120).contains(dead.count))
    }

    @Test func `A living user has two living devices`() throws {
        let user = try #require(self.population.livingUser)
        #expect(user.devices.count == 2)
        for index in user.devices {
            #expect(self.population.devices[index].user == user.name)
            #expect(!self.population.devices[index].isDead)
        }
        #expect(DemoPopulation(count: 10, seed: 7, dead: DeadShare(1, seed: 7)).livingUser == nil)
    }

    @Test func `A registration is JSON as the API takes it`() throws {
        let value = try JSONValue(parsing: self.population.devices[1].registration, bytesMax: 4_096)
        #expect(value["provider"]?.string == "fcm")
        #expect(value["token"]?.string == self.population.devices[1].token)
        #expect(value["user"]?.string == "user-0")
        #expect(value["topics"]?.array?.compactMap(\.string) == self.population.devices[1].topics)
    }
}
