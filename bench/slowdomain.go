package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// slowDomainGoal is the share of the plain rate while another client sends to a domain that is slow.
const slowDomainGoal = 0.95

// slowMessages is how many messages another client sends to the slow domain.
const slowMessages = 2000

// besideSlowDomain measures sends to everyone while another client's messages to a slow domain wait and are delivered,
// alternating with the same sends of a second server without them. The turn with the median ratio counts.
func (r *Report) besideSlowDomain(ctx context.Context, name, postgres string, users, rounds int) (err error) {
	var both []*mailing
	defer func() {
		for _, m := range both {
			err = errors.Join(err, m.stop())
		}
	}()
	for range 2 {
		m, err := r.startMailing(ctx, postgres)
		if err != nil {
			return err
		}
		both = append(both, m)
		if err := m.fill(ctx, users); err != nil {
			return err
		}
		if _, err := m.everyone(ctx); err != nil { // a warm-up
			return err
		}
	}
	without, with := both[0], both[1]
	if err := with.sendSlow(ctx); err != nil {
		return err
	}
	turns, err := alternating(ctx, rounds, without, with)
	if err != nil {
		return err
	}
	middle, low, high := medianTurn(turns)
	f := with.figure(fmt.Sprintf("%s: everyone, %d users, beside %d messages to a slow domain", name, users, slowMessages),
		middle.with, &Beside{"without them", middle.without.PerSecond}, ShareOf(slowDomainGoal))
	f.Detail += fmt.Sprintf("; without them %d us; each of them takes %s; %d were delivered meanwhile; the median of %d "+
		"turns, from %.1f %% to %.1f %%", middle.without.Server.Microseconds(), slowAnswer, with.sink.slow.Load(), rounds,
		100*low, 100*high)
	r.Add(f)
	return nil
}

// sendSlow sends to the slow domain, and waits for the first message.
func (m *mailing) sendSlow(ctx context.Context) error {
	recipients := make([]map[string]string, slowMessages)
	for i := range recipients {
		recipients[i] = map[string]string{"email": fmt.Sprintf("user-%d%s", i, slowDomain)}
	}
	body, err := json.Marshal(map[string]any{"kind_id": "news", "subject": "Slow", "text": "Hello",
		"recipients": recipients})
	if err != nil {
		return err
	}
	if _, err := m.notify(ctx, http.MethodPost, "/sends", m.tokens[1], string(body)); err != nil {
		return err
	}
	return m.sink.await(ctx, &m.sink.slow, 1)
}
