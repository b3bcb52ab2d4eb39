import ApusProviders
import Testing

@testable import ApusDispatcher

@Suite struct FaultWatchTests {
    @Test func `A stopped route resumes when the provider accepts its credential, whatever was refused before`() {
        for isOther in [false, true] {
            #expect(FaultWatch.resumes(on: .taken, withOtherConfiguration: isOther))
            #expect(!FaultWatch.resumes(on: .refused("BadJwtToken"), withOtherConfiguration: isOther))
            #expect(!FaultWatch.resumes(on: .unanswered("no answer"), withOtherConfiguration: isOther))
        }
    }

    @Test func `A route whose provider cannot be asked resumes only with a configuration that was not refused`() {
        #expect(!FaultWatch.resumes(on: .unasked, withOtherConfiguration: false))
        #expect(FaultWatch.resumes(on: .unasked, withOtherConfiguration: true))
    }
}
