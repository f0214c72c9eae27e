package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ingot/internal/base/seal"
	"ingot/internal/broker"
)

func TestBrokerCheck(t *testing.T) {
	t.Parallel()
	run := func(args ...string) (code int, out, errs string) {
		var o, e bytes.Buffer
		p := &process{args: append([]string{"broker", "check"}, args...), getenv: env(), uid: 1000, out: &o, err: &e}
		return p.run(), o.String(), e.String()
	}
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	code, out, errs := run(broken.URL, "--username", "u", "--password", "hush")
	if code != exitFailure || !strings.Contains(out, "FAIL") || !strings.Contains(out, "does NOT conform") ||
		strings.Contains(out+errs, "hush") {
		t.Errorf("a broken broker: %d\n%s%s", code, out, errs)
	}
	code, out, _ = run(broken.URL, "--json")
	var report struct{ Failed int }
	if code != exitFailure || json.Unmarshal([]byte(out), &report) != nil || report.Failed == 0 {
		t.Errorf("as JSON: %d\n%s", code, out)
	}
	if code, _, errs := run("nonsense"); code != exitFailure || !strings.Contains(errs, "URL") {
		t.Errorf("no URL: %d, %s", code, errs)
	}
	if code, _, _ := run(); code != exitUsage {
		t.Errorf("without a URL: %d", code)
	}
	keys, err := seal.Parse(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.New(broker.Config{Dir: t.TempDir(), Keys: keys, Without: []string{broker.Postgres, broker.MySQL,
		broker.Redis}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer b.Stop()
	if code, out, errs := run(b.URL(), "--username", broker.Username, "--password", b.Password()); code != exitOK {
		t.Errorf("the bundled broker: %d\n%s%s", code, out, errs)
	}
}
