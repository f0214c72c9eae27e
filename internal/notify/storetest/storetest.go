package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ingot/internal/base/testkit"
	"ingot/internal/notify"
)

// Options are what a store is opened with.
type Options struct {
	QueueLimit int
	Bounds     notify.Bounds
	Now        func() time.Time
}

// Open returns a store on one empty database. When it is called again, it
// returns another store on the same database, as a process that was started
// again would have. The earlier one is not used any more, unless it is shared.
type Open func(o Options) notify.Store

// Conformance runs the suite. fresh makes an empty database for one test.
func Conformance(t *testing.T, fresh func(t *testing.T) Open) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(k *kit)
	}{
		{"Register", testRegister},
		{"Kinds", testKinds},
		{"AssignTemplate", testAssignTemplate},
		{"Templates", testTemplates},
		{"SeedTemplate", testSeedTemplate},
		{"Variants", testVariants},
		{"Partials", testPartials},
		{"TemplateVersions", testTemplateVersions},
		{"DeleteTemplate", testDeleteTemplate},
		{"Preferences", testPreferences},
		{"Unsubscribed", testUnsubscribed},
		{"Wishes", testWishes},
		{"WishesTogether", testWishesTogether},
		{"QuietHours", testQuietHours},
		{"QuietLimit", testQuietLimit},
		{"QuietWake", testQuietWake},
		{"WaitEnds", testWaitEnds},
		{"PostponedLimit", testPostponedLimit},
		{"PostponedShare", testPostponedShare},
		{"ThrottleRule", testThrottleRule},
		{"RulesFit", testRulesFit},
		{"Admit", testAdmit},
		{"Permits", testPermits},
		{"AdmitTogether", testAdmitTogether},
		{"Throttled", testThrottled},
		{"Suppressions", testSuppressions},
		{"Topics", testTopics},
		{"TopicBounds", testTopicBounds},
		{"TopicsErased", testTopicsErased},
		{"TopicsTogether", testTopicsTogether},
		{"Senders", testSenders},
		{"CampaignTypes", testCampaignTypes},
		{"Texts", testTexts},

		{"Accept", testAccept},
		{"AcceptTogether", testAcceptTogether},
		{"AcceptCancelled", testAcceptCancelled},
		{"AcceptOneBad", testAcceptOneBad},
		{"Idempotency", testIdempotency},
		{"IdempotencyTogether", testIdempotencyTogether},
		{"QueueFull", testQueueFull},
		{"QueueFullTogether", testQueueFullTogether},
		{"Lists", testLists},
		{"Schemas", testSchemas},
		{"StoredSends", testStoredSends},
		{"StoredDefinitions", testStoredDefinitions},
		{"Extend", testExtend},
		{"ExtendDuplicates", testExtendDuplicates},
		{"ExtendAudiences", testExtendAudiences},
		{"ExtendTogether", testExtendTogether},
		{"ExtendReopened", testExtendReopened},
		{"ClaimExpansions", testClaimExpansions},
		{"Schedule", testSchedule},
		{"ScheduleList", testScheduleList},
		{"ScheduleLimit", testScheduleLimit},
		{"ScheduleOnce", testScheduleOnce},
		{"Recurring", testRecurring},
		{"RecurringChanged", testRecurringChanged},
		{"RecurringBounds", testRecurringBounds},
		{"RecurringOnce", testRecurringOnce},

		{"ListSends", testListSends},
		{"Volumes", testVolumes},
		{"Messages", testMessages},
		{"FindMessages", testFindMessages},

		{"Claim", testClaim},
		{"ClaimPriorities", testClaimPriorities},
		{"ClaimSmallLimits", testClaimSmallLimits},
		{"ClaimOnce", testClaimOnce},
		{"ClaimBesideFinish", testClaimBesideFinish},
		{"LeaseEnds", testLeaseEnds},
		{"Renew", testRenew},
		{"Release", testRelease},
		{"Crash", testCrash},
		{"Finish", testFinish},
		{"FinishTwice", testFinishTwice},
		{"FinishTogether", testFinishTogether},
		{"Retry", testRetry},
		{"Replay", testReplay},
		{"WaitsAgain", testWaitsAgain},
		{"Cancel", testCancel},
		{"CancelEarly", testCancelEarly},
		{"CancelTogether", testCancelTogether},
		{"NextDue", testNextDue},
		{"QueueModel", testQueueModel},

		{"IDKey", testIDKey},
		{"Purge", testPurge},
		{"PurgeCounts", testPurgeCounts},
		{"PurgeMany", testPurgeMany},
		{"Retention", testRetention},
		{"PurgeKept", testPurgeKept},
		{"Webhooks", testWebhooks},
		{"Callbacks", testCallbacks},
		{"Telling", testTelling},

		{"Channels", testChannels},
		{"Inbox", testInbox},
		{"InboxesRead", testInboxesRead},
		{"InboxPruned", testInboxPruned},
		{"InboxBounds", testInboxBounds},
		{"InboxTogether", testInboxTogether},
		{"Origins", testOrigins},
		{"Destinations", testDestinations},
		{"Push", testPush},
		{"PushBounds", testPushBounds},
		{"ChatOnce", testChatOnce},
		{"Providers", testProviders},
		{"Phones", testPhones},

		{"Workflow", testWorkflow},
		{"WorkflowDelays", testWorkflowDelays},
		{"WorkflowLimit", testWorkflowLimit},
		{"WorkflowFlood", testWorkflowFlood},
		{"WorkflowPurge", testWorkflowPurge},
		{"DigestRule", testDigestRule},
		{"DigestChoice", testDigestChoice},
		{"Tracking", testTracking},
		{"Consent", testConsent},
		{"Reactions", testReactions},
		{"OwnDigests", testOwnDigests},
		{"Digests", testDigests},
		{"DigestFull", testDigestFull},
		{"DigestLife", testDigestLife},
		{"DigestLimit", testDigestLimit},
		{"DigestList", testDigestList},
		{"DigestErase", testDigestErase},
		{"DigestTurns", testDigestTurns},
		{"DigestBytes", testDigestBytes},
		{"DigestsTogether", testDigestsTogether},
		{"Progress", testProgress},
		{"Timeline", testTimeline},
		{"Erase", testErase},
		{"EraseWaiting", testEraseWaiting},
		{"EraseThenSend", testEraseThenSend},
		{"EraseHolder", testEraseHolder},
		{"EraseTogether", testEraseTogether},

		{"Figures", testFigures},
		{"FiguresChanged", testFiguresChanged},
		{"FiguresBounds", testFiguresBounds},
		{"FiguresPurge", testFiguresPurge},
		{"FiguresTogether", testFiguresTogether},
		{"FiguresErased", testFiguresErased},
		{"FiguresDigested", testFiguresDigested},
		{"MailQuotas", testMailQuotas},
		{"Files", testFiles},
		{"FilesFull", testFilesFull},
		{"FilesTogether", testFilesTogether},
		{"FilesErased", testFilesErased},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			t.Cleanup(cancel)
			k := &kit{T: t, ctx: ctx, open: fresh(t), clock: testkit.NewClock(start)}
			part.run(k)
		})
	}
}

// start has nanoseconds, which a store must keep.
var start = time.Date(2026, 3, 1, 12, 30, 45, 123456789, time.UTC)

// kit is what a part of the suite works with.
type kit struct {
	*testing.T
	ctx   context.Context
	open  Open
	clock *testkit.Clock
}

// store opens the database, for the first time or again.
func (k *kit) store() notify.Store { return k.open(Options{Now: k.clock.Now}) }

func (k *kit) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

func (k *kit) wantErr(err, want error) {
	k.Helper()
	if !errors.Is(err, want) {
		k.Errorf("error is %v, want %v", err, want)
	}
}

func (k *kit) equal(what string, got, want any, more ...cmp.Option) {
	k.Helper()
	if diff := cmp.Diff(want, got, append(more, cmpopts.EquateEmpty())...); diff != "" {
		k.Errorf("%s is not as wanted (-want +got):\n%s", what, diff)
	}
}

// anyOrder is for equal.
var anyOrder = cmpopts.SortSlices(func(a, b string) bool { return a < b })

// value is for calls that return a value and an error.
func value[T any](k *kit) func(v T, err error) T {
	return func(v T, err error) T {
		k.Helper()
		k.must(err)
		return v
	}
}

// sending is a send to some users, complete unless told otherwise.
func (k *kit) sending(client string, users ...string) notify.NewSend {
	n := notify.NewSend{Send: notify.Send{
		ClientID: client,
		KindID:   "kind",
		Audiences: []notify.Audience{{Type: notify.ToSpace, ID: "space-1", SpaceName: "dev", OrgID: "org-1",
			OrgName: "acme"}},
		Content:  notify.Content{Subject: "Hello", Text: "Grüße 🎉"},
		Received: k.clock.Now(),
		Expanded: true,
	}}
	n.Recipients = people(users...)
	return n
}

// people are recipients with a user id and an address.
func people(users ...string) []notify.Recipient {
	var list []notify.Recipient
	for _, u := range users {
		list = append(list, notify.Recipient{UserID: u, Email: u + "@example.com"})
	}
	return list
}

// names are n different users.
func names(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%06d", prefix, i)
	}
	return list
}

// accept stores a send and returns it.
func (k *kit) accept(s notify.Store, n notify.NewSend) notify.Send {
	k.Helper()
	send, replayed, err := s.Accept(k.ctx, n)
	k.must(err)
	if replayed {
		k.Errorf("send %d is a repetition", send.Number)
	}
	return send
}

// claim claims messages for a minute.
func (k *kit) claim(s notify.Store, owner string, limit int) []notify.Claimed {
	k.Helper()
	return value[[]notify.Claimed](k)(s.Claim(k.ctx, owner, limit, time.Minute))
}

func numbersOf(all []notify.Claimed) []int64 {
	var list []int64
	for _, c := range all {
		list = append(list, c.Number)
	}
	return list
}

// finish records the same outcome for messages.
func (k *kit) finish(s notify.Store, status notify.Status, numbers ...int64) []notify.Claimed {
	k.Helper()
	var outcomes []notify.Outcome
	for _, n := range numbers {
		o := notify.Outcome{Number: n, Status: status, Attempted: true, At: k.clock.Now()}
		if status == notify.Retry {
			o.Due = k.clock.Now().Add(time.Minute)
		}
		outcomes = append(outcomes, o)
	}
	return value[[]notify.Claimed](k)(s.Finish(k.ctx, outcomes, nil))
}

// counts of a send as they are stored.
func (k *kit) counts(s notify.Store, send int64) notify.Counts {
	k.Helper()
	return value[notify.Send](k)(s.Send(k.ctx, send)).Counts
}

func (k *kit) waits(s notify.Store, want int) {
	k.Helper()
	k.equal("number of waiting messages", value[int](k)(s.Waiting(k.ctx)), want)
}
