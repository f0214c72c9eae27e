package push_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/push"
)

// TestRoundTrip sends to a push service and a browser that another program is, with other cryptography.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	cmd := exec.CommandContext(t.Context(), node, "testdata/receiver.mjs")
	input, err := cmd.StdinPipe()
	testkit.Must(t, err)
	output, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Wait()
	})
	lines := json.NewDecoder(output)
	var at struct {
		Port         int
		P256dh, Auth string
	}
	testkit.Must(t, lines.Decode(&at))
	origin := fmt.Sprint("http://127.0.0.1:", at.Port)
	b := notify.PushSubscription{ID: "b", Owner: notify.Owner{ClientID: "client", UserID: "ann"},
		Endpoint: origin + "/s/1", P256dh: notify.DecodePushKey(at.P256dh), Auth: notify.DecodePushKey(at.Auth)}
	testkit.Must(t, b.Check())
	keys, err := push.NewKeys(bytes.Repeat([]byte{7}, 32), "ops@example.com", nil)
	testkit.Must(t, err)
	o := message(b)
	o.Body = &notify.Body{Subject: "Grüße 👋", Text: "a\nb"}
	if r := deliver(t, newChannel(t, push.Options{}), o); r.Verdict != notify.Accepted {
		t.Errorf("%+v", r)
	}
	var got struct {
		Payload map[string]any
		Claims  struct {
			Valid         bool
			Key, Aud, Sub string
		}
		TTL, Error string
	}
	testkit.Must(t, lines.Decode(&got))
	if got.Payload["title"] != "Grüße 👋" || got.Payload["body"] != "a\nb" || got.Payload["id"] != "m-1" {
		t.Errorf("the browser got %+v", got)
	}
	if c := got.Claims; !c.Valid || c.Key != keys.Public() || c.Aud != origin || c.Sub != "mailto:ops@example.com" {
		t.Errorf("the push service saw %+v", got)
	}
}
