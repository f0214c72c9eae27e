package console

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"ingot/internal/console/pagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLogoutEndsStreams deletes the session of a live page.
func TestLogoutEndsStreams(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	w.API.HandleFunc("GET /v3/ingot/system",
		func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, `{"version":"1.2.3"}`) })
	resp := w.Open("/console/live/system")
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), "1.2.3") {
	}
	w.Logout()
	for lines.Scan() { // until the end of the stream
	}
	if lines.Err() != nil {
		t.Error(lines.Err())
	}
}
