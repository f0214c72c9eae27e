package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

var scheduleSection = Section{
	Name: "schedule",
	About: "a server on which many sends wait for their time, and one without: idle processor time, memory, and the " +
		"rate of other sends, both in turns",
	Run: func(ctx context.Context, r *Report) error { return onBoth(ctx, r, measureSchedule) },
}

// The goals: by how much the schedule may raise the idle processor time, in milliseconds in a second, and the memory,
// in MB of a million bytes; and the share of the rate of other sends.
const (
	scheduleIdle   = 1
	scheduleMemory = 5
	scheduleGoal   = 0.95
)

// scheduledByAPI is how many sends are scheduled by requests. The others are copies of these in the database, as that
// many requests would take longer than the measurement.
const scheduledByAPI = 10_000

func measureSchedule(ctx context.Context, r *Report, name, postgres string) (err error) {
	scheduled, users, rounds, idle, d := 1_000_000, 20_000, 5, 2*time.Minute, 5*time.Second
	if r.Short {
		scheduled, users, rounds, idle, d = 2000, 1000, 1, 2*time.Second, time.Second
	}
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
	}
	without, with := both[0], both[1]
	rate, err := with.schedule(ctx, min(scheduled, scheduledByAPI))
	if err != nil {
		return err
	}
	// What a server keeps of requests and of the work of its first minute is not what the schedule costs.
	for _, m := range both {
		between := func() error { return nil }
		if m == with {
			between = func() error { return with.multiply(ctx, scheduled) }
		}
		if err := m.restart(ctx, r, between); err != nil {
			return err
		}
		if _, err := m.everyone(ctx); err != nil { // a warm-up
			return err
		}
	}
	if err := addIdle(ctx, r, name, scheduled, idle, without, with); err != nil {
		return err
	}
	turns, err := alternating(ctx, rounds, without, with)
	if err != nil {
		return err
	}
	middle, low, high := medianTurn(turns)
	f := with.figure(fmt.Sprintf("%s: everyone, %d users, beside the schedule", name, users), middle.with,
		&Beside{"without it", middle.without.PerSecond}, ShareOf(scheduleGoal))
	f.Detail += fmt.Sprintf("; without it %d us; the median of %d turns, from %.1f %% to %.1f %%",
		middle.without.Server.Microseconds(), rounds, 100*low, 100*high)
	r.Add(f)
	if err := addAccepted(ctx, r, name, d, rounds, without, with); err != nil {
		return err
	}
	r.Add(with.figure(fmt.Sprintf("%s: sends scheduled, %d connections", name, acceptConns), rate, nil, Goal{}))
	return nil
}

// schedule schedules sends to single users, in a day up to a year from now.
func (m *mailing) schedule(ctx context.Context, n int) (Result, error) {
	ids, err := m.userIDs(ctx)
	if err != nil {
		return Result{}, err
	}
	var requests [][]byte
	for i := range n {
		body := fmt.Sprintf(`{"kind_id":"news","subject":"Reminder %d","text":"Hello, this is the reminder.",`+
			`"data":{"number":%d},"audience":{"type":"user","id":%q},"delay":"%dm"}`, i, i, ids[i%len(ids)], 24*60+i*40)
		requests = append(requests, postJSON(m.Notifications, "/sends", body, "Authorization: Bearer "+
			m.tokens[i%len(m.tokens)]))
	}
	load := Load{Addr: m.Notifications, Requests: requests, Connections: acceptConns, Want: http.StatusAccepted}
	server, own := processorTime(m.PID), processorTime(selfPID)
	began := time.Now()
	if err := load.Exactly(ctx); err != nil {
		return Result{}, err
	}
	each := time.Duration(n)
	return Result{PerSecond: float64(n) / time.Since(began).Seconds(), Server: (processorTime(m.PID) - server) / each,
		Load: (processorTime(selfPID) - own) / each}, nil
}

// multiply copies the scheduled sends of a stopped server until there are n.
func (m *mailing) multiply(ctx context.Context, n int) error {
	var have, next int
	if err := m.notifySQL.QueryRowContext(ctx, "SELECT COUNT(*) FROM notify_scheduled").Scan(&have); err != nil {
		return err
	}
	const number = "SELECT next FROM notify_numbers WHERE name = 'send'"
	if err := m.notifySQL.QueryRowContext(ctx, number).Scan(&next); err != nil {
		return err
	}
	times := n / have
	if times < 2 {
		return nil
	}
	series := "WITH RECURSIVE g(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM g WHERE i+1 < %d)"
	if m.postgres {
		series = "WITH g(i) AS (SELECT generate_series(1::bigint, %d - 1))"
	}
	for _, statement := range []string{
		fmt.Sprintf(series+" INSERT INTO notify_scheduled (number, client_id, kind_id, received, data, recipients, due) "+
			"SELECT number + i * %d, client_id, kind_id, received, data, recipients, due + i * 1000000007 "+
			"FROM notify_scheduled, g", times, next),
		fmt.Sprintf("UPDATE notify_numbers SET next = next * %d WHERE name = 'send'", times+1),
		fmt.Sprintf("UPDATE notify_schedules SET messages = messages * %d", times),
		"ANALYZE notify_scheduled",
	} {
		if _, err := m.notifySQL.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("copy scheduled sends: %w", err)
		}
	}
	return nil
}

// addIdle compares two servers that have nothing to do.
func addIdle(ctx context.Context, r *Report, name string, scheduled int, d time.Duration, without,
	with *mailing) error {
	for _, m := range []*mailing{without, with} {
		if err := m.idle(ctx); err != nil {
			return err
		}
	}
	if err := pause(ctx, d/4); err != nil { // the warm-up is collected as garbage
		return err
	}
	began := time.Now()
	one, other := processorTime(without.PID), processorTime(with.PID)
	if err := pause(ctx, d); err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()
	plain, busy := millis(processorTime(without.PID)-one)/seconds, millis(processorTime(with.PID)-other)/seconds
	r.Add(Figure{Name: fmt.Sprintf("%s: %d scheduled sends, idle processor time that is more", name, scheduled),
		Value: max(busy-plain, 0), Unit: "ms/s", Goal: Below(scheduleIdle),
		Detail: fmt.Sprintf("%.2f ms in a second, without them %.2f ms", busy, plain)})
	small, err := residentMemory(without.PID)
	if err != nil {
		return err
	}
	large, err := residentMemory(with.PID)
	if err != nil {
		return err
	}
	r.Add(Figure{Name: name + ": memory that is more, VmRSS", Value: max(large.total-small.total, 0), Unit: "MB",
		Goal: Below(scheduleMemory), Detail: fmt.Sprintf("%.1f MB, without them %.1f MB; of these RssAnon %.1f and %.1f MB",
			large.total, small.total, large.anonymous, small.anonymous)})
	return nil
}

// addAccepted compares how many sends to single users two servers accept.
func addAccepted(ctx context.Context, r *Report, name string, d time.Duration, rounds int, without,
	with *mailing) error {
	var turns []turn
	for range rounds {
		var t turn
		for _, one := range []struct {
			on   *mailing
			into *Result
		}{{without, &t.without}, {with, &t.with}} {
			load, err := one.on.single(ctx, d)
			if err != nil {
				return err
			}
			if *one.into, err = load.Run(ctx); err != nil {
				return err
			}
			if err := one.on.idle(ctx); err != nil {
				return err
			}
		}
		turns = append(turns, t)
	}
	middle, low, high := medianTurn(turns)
	f := with.figure(fmt.Sprintf("%s: POST /users/:guid beside the schedule", name), middle.with,
		&Beside{"without it", middle.without.PerSecond}, ShareOf(scheduleGoal))
	f.Detail += fmt.Sprintf("; without it %d us; the median of %d turns, from %.1f %% to %.1f %%",
		middle.without.Server.Microseconds(), rounds, 100*low, 100*high)
	r.Add(f)
	return nil
}
