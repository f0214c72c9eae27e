package httpext_test

import (
	"strings"
	"testing"
)

// TestInvitations sends invitations, and shows them; what is wrong is refused with the reason.
func TestInvitations(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	send := func(event string) string {
		return `{"kind_id":"news","subject":"Hi","text":"t","recipients":[{"user":"u-1"}],"event":{` + event + `}}`
	}
	for event, want := range map[string]string{
		`"uid":"1","start":"2026-12-24T18:00:00+01:00","duration":"45m"`:                                   `"start":"2026-12-24T17:00:00Z","end":"2026-12-24T17:45:00Z","summary":"Hi"`,
		`"uid":"1","start":"2026-12-24T18:00","zone":"Europe/Berlin","end":"2026-12-24T18:45:30"`:          `"start":"2026-12-24T17:00:00Z","end":"2026-12-24T17:45:30Z"`,
		`"uid":"1","start":"2026-12-24","summary":"x","sequence":2,"method":"CANCEL"`:                      `"method":"CANCEL","uid":"1","start":"2026-12-24T00:00:00Z","end":"2026-12-25T00:00:00Z","all_day":true,"sequence":2,"summary":"x"`,
		`"uid":"1","start":"2026-12-24","end":"2026-12-27"`:                                                `"end":"2026-12-27T00:00:00Z","all_day":true`,
		`"uid":"1","start":"2026-12-24","duration":"48h","description":"a\nb"`:                             `"end":"2026-12-26T00:00:00Z"`,
		`"uid":"1","start":"2026-12-24","organizer":{"name":"Ann","email":"a@example.com"},"location":"R"`: `"location":"R","organizer":{"name":"Ann","email":"a@example.com"}`,
	} {
		var made struct{ ID string }
		w.Expect(1, c, "POST", "/sends", send(event), 202, "").Into(&made)
		if a := w.Expect(1, c, "GET", "/sends/"+made.ID, "", 200, ""); !strings.Contains(a.Body, want) {
			t.Errorf("%s became %s, want %s", event, a.Body, want)
		}
	}
	const at = `"uid":"1","start":"2026-12-24T18:00:00Z"`
	for event, want := range map[string]string{
		``: `"event.start" must be a date`, `"uid":"1","start":"soon"`: `"event.start" must be a date`,
		`"start":"2026-12-24"`: `"event.uid" is required`,
		at:                     `"event.end" or "event.duration" is required`,
		at + `,"end":"2026-12-25T00:00:00Z","duration":"1h"`:                               `give either "event.end" or "event.duration"`,
		at + `,"end":"2026-12-25"`:                                                         `must both be dates`,
		at + `,"duration":"-1h"`:                                                           `"event.duration" must be`,
		at + `,"duration":"PT1H"`:                                                          `"event.duration" must be`,
		at + `,"duration":"9000h"`:                                                         `at most 366 days later`,
		at + `,"end":"2026-12-24T18:00:00Z"`:                                               `must end after its start`,
		at + `,"zone":"UTC","duration":"1h"`:                                               `without an offset`,
		`"uid":"1","start":"2026-12-24","duration":"25h"`:                                  `for dates 24h, 48h`,
		`"uid":"1","start":"1969-12-24"`:                                                   `between 1970 and 2199`,
		`"uid":"1","start":"2026-03-29T02:30","zone":"Europe/Berlin","duration":"1h"`:      `clocks skip it`,
		`"uid":"1","start":"2026-10-25T02:30","zone":"Europe/Berlin","duration":"1h"`:      `shown twice`,
		`"uid":"1","start":"2026-12-24T18:00","zone":"Mars","duration":"1h"`:               `"event.zone":`,
		`"uid":"1","start":"2026-12-24","method":"PUBLISH"`:                                `must be REQUEST or CANCEL`,
		`"uid":"1","start":"2026-12-24","sequence":-1`:                                     `"event.sequence" must be`,
		`"uid":"a\nb","start":"2026-12-24"`:                                                `"event.uid" must be text without control characters`,
		`"uid":"1","start":"2026-12-24","summary":"a\r\nX:y"`:                              `"event.summary" must be text`,
		`"uid":"1","start":"2026-12-24","description":"\u0000"`:                            `"event.description" must be text`,
		`"uid":"1","start":"2026-12-24","location":"` + strings.Repeat("x", 501) + `"`:     `"event.location" is 501 bytes long`,
		`"uid":"1","start":"2026-12-24","organizer":{"email":"nobody"}`:                    `"event.organizer.email" is not`,
		`"uid":"1","start":"2026-12-24","organizer":{"name":"Ann"}`:                        `"event.organizer" needs an "email"`,
		`"uid":"1","start":"2026-12-24","attach":"file:///etc/passwd"`:                     `attach`,
		`"uid":"1","start":"2026-12-24","description":"` + strings.Repeat("x", 9000) + `"`: `9000 bytes long`,
	} {
		if a := w.Call(1, c, "POST", "/sends", send(event)); a.Status != 422 || !strings.Contains(a.Body,
			strings.ReplaceAll(want, `"`, `\"`)) {
			t.Errorf("%.100s: %d %s, want %s", event, a.Status, a.Body, want)
		}
	}
}
