package notifydb

import (
	"testing"

	"ingot/internal/notify"
)

// TestWithoutRecipient: an address may be written in any case, and in the reason too; calls about others stay.
func TestWithoutRecipient(t *testing.T) {
	t.Parallel()
	e := &erasure{Erasure: notify.Erasure{Person: notify.Person{UserID: "u-1", Email: "ann@example.com"}}}
	for payload, want := range map[string]string{
		`{"recipient":"Ann@Example.com","reason":"550 <Ann@example.com> unknown","status":"failed"}`: `{"recipient":"","status":"failed"}`,
		`{"recipient":"u-1","status":"delivered"}`:                                                   `{"recipient":"","status":"delivered"}`,
		`{"recipient":"eve@example.com","reason":"ann@example.com?"}`:                                "",
		`{"recipient":"U-1"}`: "",
		`{"status":"x"}`:      "",
		`not JSON`:            "",
	} {
		if got, about := e.withoutRecipient(payload); got != want || about != (want != "") {
			t.Errorf("%s: %q %v, want %q", payload, got, about, want)
		}
	}
}
