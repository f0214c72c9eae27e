package succession

import (
	"context"
	"io"
	"net/http"
	"time"

	"ingot/internal/base/background"
)

// watch tells systemd that the server is alive, as often as the unit's WatchdogSec= requires, as
// long as it answers a readiness check: a hung server, whose locks are never released, does not,
// and systemd restarts it. Any response will do, since a restart does not bring back an unreachable
// database; a busy server has half of the time for it. The operator's listener is asked,
// because connections to the others are limited, and clients may use them all.
func (s *Succession[S]) watch(ctx context.Context) {
	limit := s.options.Manager.Watchdog() / 2
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range background.Ticks(ctx, limit/2, nil) {
		s.mu.Lock()
		current, replaced := s.current, s.current.Left()
		s.mu.Unlock()
		if replaced {
			return // systemd listens to the successor
		}
		// A server that is starting, in a handover, may migrate a database for a long time.
		if s.yielding.Load() {
			s.notify(s.options.Manager.Alive())
			continue
		}
		err := answers(ctx, client, current.HealthURL(), limit)
		if err == nil || s.yielding.Load() {
			s.notify(s.options.Manager.Alive())
		} else if ctx.Err() == nil {
			s.options.Log.Error("the server does not answer its own health check; systemd restarts it if that lasts and the "+
				"unit has WatchdogSec=", "error", err)
		}
	}
}

// answers returns nil when there is an answer of any status in time.
func answers(ctx context.Context, client *http.Client, url string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close() // it was read
	return err
}
