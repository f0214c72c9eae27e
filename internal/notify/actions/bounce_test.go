package actions

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"ingot/internal/notify"
)

// bounceStore is a store with one message.
type bounceStore struct {
	notify.Store
	message    notify.Message
	suppressed []notify.Suppression
}

func (s *bounceStore) Message(_ context.Context, number int64) (notify.Message, string, error) {
	if number != s.message.Number {
		return notify.Message{}, "", notify.ErrNotFound
	}
	return s.message, "shop", nil
}

func (s *bounceStore) Suppress(_ context.Context, all ...notify.Suppression) error {
	s.suppressed = append(s.suppressed, all...)
	return nil
}

// Only a permanent bounce of a message that was sent to the address counts,
// because anyone can send a report.
func TestBounced(t *testing.T) {
	t.Parallel()
	ids, err := notify.NewIDs(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when the clock of a bubble begins
	sent := notify.MessageNumber(7, 0)
	bounce := func(change func(*Bounce)) Bounce {
		b := Bounce{MessageID: ids.Message(sent), Recipient: "Ann@example.com", Status: "5.1.1", Diagnostic: "user unknown",
			Permanent: true}
		change(&b)
		return b
	}
	for name, test := range map[string]struct {
		bounce Bounce
		want   []notify.Suppression
	}{
		"permanent": {bounce(func(*Bounce) {}), []notify.Suppression{{Email: "Ann@example.com", Reason: "5.1.1 user unknown",
			Source: "bounce", Created: now}}},
		"no diagnostic": {bounce(func(b *Bounce) { b.Diagnostic = "" }),
			[]notify.Suppression{{Email: "Ann@example.com", Reason: "5.1.1", Source: "bounce", Created: now}}},
		"temporary":     {bounce(func(b *Bounce) { b.Permanent = false }), nil},
		"other address": {bounce(func(b *Bounce) { b.Recipient = "bob@example.com" }), nil},
		"other message": {bounce(func(b *Bounce) { b.MessageID = ids.Message(sent + 1) }), nil},
		"no valid id":   {bounce(func(b *Bounce) { b.MessageID = "guessed" }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &bounceStore{message: notify.Message{Number: sent, Recipient: notify.Recipient{Email: "ann@example.com"}}}
				s := New(Options{Store: store, IDs: ids})
				counts, err := s.Bounced(t.Context(), test.bounce)
				same := func(a, b notify.Suppression) bool {
					at := a.Created
					a.Created, b.Created = time.Time{}, time.Time{}
					return a == b && at.Equal(now)
				}
				if err != nil || counts != (test.want != nil) || !slices.EqualFunc(store.suppressed, test.want, same) {
					t.Errorf("suppressed %+v, %v, want %+v", store.suppressed, err, test.want)
				}
			})
		})
	}
}

// TestComplained: a complaint about a message that was sent suppresses its address, whatever else the report says.
func TestComplained(t *testing.T) {
	t.Parallel()
	ids, err := notify.NewIDs(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	other, err := notify.NewIDs(bytes.Repeat([]byte{2}, 32))
	if err != nil {
		t.Fatal(err)
	}
	sent := notify.MessageNumber(7, 0)
	for name, test := range map[string]struct {
		complaint Complaint
		email     string
		want      string // the reason; empty: nothing is suppressed
	}{
		"abuse": {Complaint{MessageID: ids.Message(sent), Type: "abuse", Reporter: "Provider/1"}, "ann@example.com",
			"abuse Provider/1"},
		"fraud":         {Complaint{MessageID: ids.Message(sent), Type: "fraud"}, "ann@example.com", "fraud"},
		"opt-out":       {Complaint{MessageID: ids.Message(sent), Type: "opt-out"}, "ann@example.com", "opt-out"},
		"not spam":      {Complaint{MessageID: ids.Message(sent), Type: "not-spam"}, "ann@example.com", ""},
		"other":         {Complaint{MessageID: ids.Message(sent), Type: "other"}, "ann@example.com", ""},
		"no type":       {Complaint{MessageID: ids.Message(sent)}, "ann@example.com", ""},
		"other message": {Complaint{MessageID: ids.Message(sent + 1), Type: "abuse"}, "ann@example.com", ""},
		"forged id":     {Complaint{MessageID: other.Message(sent), Type: "abuse"}, "ann@example.com", ""},
		"no valid id":   {Complaint{MessageID: "guessed", Type: "abuse"}, "ann@example.com", ""},
		"no address":    {Complaint{MessageID: ids.Message(sent), Type: "abuse"}, "", ""},
	} {
		store := &bounceStore{message: notify.Message{Number: sent, Recipient: notify.Recipient{Email: test.email}}}
		counts, err := New(Options{Store: store, IDs: ids}).Complained(t.Context(), test.complaint)
		if err != nil || counts != (test.want != "") || counts != (len(store.suppressed) == 1) {
			t.Errorf("%s: counts is %v, %v, suppressed %+v", name, counts, err, store.suppressed)
		}
		for _, got := range store.suppressed {
			if got.Email != test.email || got.Reason != test.want || got.Source != "complaint" || got.Created.IsZero() {
				t.Errorf("%s: suppressed %+v, want %q", name, got, test.want)
			}
		}
	}
}
