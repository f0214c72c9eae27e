package logs

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ingot/internal/platform"
)

// A stream gets heartbeats when it gets nothing else: on a quiet app, and on a busy one whose
// lines it does not want.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		busy, log bool
		want      int
	}{
		"quiet": {false, true, 2}, "quiet, without log": {false, false, 2}, "busy": {true, true, 0},
		"busy, without log": {true, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var readers Readers
				hose := readers.Hose([]string{"app"}, "")
				defer hose.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 2*beatEvery+beatEvery/2)
				defer cancel()
				w := httptest.NewRecorder()
				a := &api{access: unknown{}}
				p := &envelopeWriter{api: a, w: w, control: http.NewResponseController(w),
					want: streamOptions{apps: []string{"app"}, log: tc.log}, abouts: map[string]*About{}}
				done := make(chan struct{})
				go func() {
					defer close(done)
					a.sendEnvelopes(ctx, p, hose)
				}()
				line := time.NewTicker(time.Second)
				defer line.Stop()
				for running := true; running; {
					select {
					case <-done:
						running = false
					case <-line.C:
						if tc.busy {
							readers.Offer([]platform.LogLine{{App: "app", Time: time.Now(), Text: []byte("x")}})
						}
					}
				}
				if got := strings.Count(w.Body.String(), "event: heartbeat"); got != tc.want {
					t.Errorf("%d heartbeats, want %d", got, tc.want)
				}
			})
		})
	}
}

// unknown is an Access that knows no app.
type unknown struct{ Access }

func (unknown) About(context.Context, string) *About { return &About{} }
