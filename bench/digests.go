package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

var digestsSection = Section{
	Name: "digests",
	About: "events with data for each of many users, collected in a digest for each user, from the first request to the " +
		"last digest in a mail server on this machine; and the memory for it",
	Run: func(ctx context.Context, r *Report) error { return onBoth(ctx, r, measureDigests) },
}

// digestMemory is the maximum memory of the server meanwhile, in MB of a million bytes.
const digestMemory = 150

// digestSilence is how long no digest may come: all of them end together, after the last event.
const digestSilence = 20 * time.Minute

func measureDigests(ctx context.Context, r *Report, name, postgres string) (err error) {
	users, each := 10_000, 100
	if r.Short {
		users, each = 200, 5
	}
	m, err := r.startMailing(ctx, postgres)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.stop()) }()
	if err := m.fill(ctx, users); err != nil {
		return err
	}
	ids, err := m.userIDs(ctx)
	if err != nil {
		return err
	}
	rule := fmt.Sprintf(`{"window":"24h","max":%d}`, each)
	if _, err := m.notify(ctx, http.MethodPut, "/kinds/news/digest", m.tokens[0], rule); err != nil {
		return err
	}
	if err := forgetPeak(m.PID); err != nil {
		r.Note("the peak of memory is that since the start of the server: %s", err)
	}
	parts, stop := watchMemory(ctx, m.PID)
	var sent time.Duration
	got, err := m.profiled(ctx, r, "digests", func(ctx context.Context) (got Result, err error) {
		got, sent, err = m.events(ctx, ids, each)
		return got, err
	})
	stop()
	if err != nil {
		return err
	}
	peak, err := peakMemory(m.PID)
	if err != nil {
		return err
	}
	r.Add(Figure{Name: fmt.Sprintf("%s: peak memory for %d events digested to %d users, VmHWM", name, users*each, users),
		Value: peak, Unit: "MB", Beside: &Beside{"limit", digestMemory}, Goal: Below(digestMemory),
		Detail: fmt.Sprintf("of the whole server; about %.0f MB of it RssAnon, %.0f MB RssFile", parts.anonymous,
			parts.file)})
	f := m.figure(name+": its events", got, nil, Goal{})
	f.Detail += fmt.Sprintf("; all events were accepted after %.0f s", sent.Seconds())
	r.Add(f)
	return nil
}

// events sends events to all users until each of them has a digest. sent is when all events were accepted.
func (m *mailing) events(ctx context.Context, ids []string, each int) (got Result, sent time.Duration, err error) {
	server, own := processorTime(m.PID), processorTime(selfPID)
	before := m.sink.accepted.Load()
	began := time.Now()
	for i := range each {
		b := bytes.NewBufferString(fmt.Sprintf(`{"kind_id":"news","subject":"Comment %d","text":"Somebody has written the `+
			`comment %d.","data":{"thread":%d}}`+"\n", i, i, i%7))
		for n, id := range ids {
			fmt.Fprintf(b, `{"user":%q,"data":{"author":"Dora %d","place":%d}}`+"\n", id, n*i, n)
		}
		if err := m.sendList(ctx, m.tokens[0], b.Bytes()); err != nil {
			return Result{}, 0, err
		}
	}
	sent = time.Since(began)
	users := int64(len(ids))
	if err := m.sink.awaitFor(ctx, &m.sink.accepted, before+users, digestSilence); err != nil {
		return Result{}, 0, fmt.Errorf("%w\n%s", err, m.tail())
	}
	took := time.Since(began)
	if err := m.idle(ctx); err != nil {
		return Result{}, 0, err
	}
	if mails := m.sink.accepted.Load() - before; mails != users {
		return Result{}, 0, fmt.Errorf("%d users got %d digests", users, mails)
	}
	want := fmt.Appendf(nil, "%d notifications", each)
	if last := m.sink.last.Load(); last == nil || !bytes.Contains(*last, want) {
		return Result{}, 0, fmt.Errorf("a digest does not say %q", want)
	}
	events := time.Duration(users) * time.Duration(each)
	return Result{PerSecond: float64(events) / took.Seconds(), Server: (processorTime(m.PID) - server) / events,
		Load: (processorTime(selfPID) - own) / events}, sent, nil
}
