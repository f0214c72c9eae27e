package cli_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/cli"
	"ingot/internal/cli/core"
)

// TestTopLive: on a terminal the table is drawn again until the user interrupts it.
func TestTopLive(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calls atomic.Int64
	w.api.instead["GET /v3/processes/app-guid/stats"] = func(*http.Request) (int, any) {
		if calls.Add(1) == 3 {
			cancel()
		}
		return 200, list(object{"index": 0, "state": "RUNNING", "mem_quota": 64 << 20,
			"usage": object{"cpu": float64(calls.Load()) / 100, "mem": 1 << 20}})
	}
	var out, errs bytes.Buffer
	code := cli.Run(ctx, &core.Env{
		Program: "ingot", Args: []string{"top", "shop", "--interval", "1"},
		Getenv: func(name string) string { return w.env[name] }, Dir: w.dir, In: strings.NewReader(""),
		Out: &out, Err: &errs, OutTerminal: true, Now: time.Now,
	})
	pages := strings.Split(out.String(), "\x1b[H\x1b[2J")
	if code != 0 || errs.Len() > 0 || len(pages) != 3 || pages[0] != "" || !strings.Contains(pages[1], "1.0%") ||
		!strings.Contains(pages[2], "2.0%") {
		t.Errorf("exit code %d, pages %q, errors %q, want two pages", code, pages, errs.String())
	}
}
