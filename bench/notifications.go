package main

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver sqlite
)

var notificationsSection = Section{
	Name: "notifications",
	About: "from POST /everyone to the last message in a mail server on this machine, the users read from the " +
		"authorization server; and requests accepted",
	Run: measureNotifications,
}

// The goals: the share of bare SMTP of the messages delivered, requests accepted
// per second with each database, the 99th percentile of the response time in
// milliseconds, the share of the rate with 200,000 messages waiting for a retry,
// and the memory for a send to a million recipients, in MB of a million bytes.
const (
	deliveriesGoal   = 0.60
	acceptedSQLite   = 8000
	acceptedPostgres = 6000
	acceptedP99      = 20
	retriesGoal      = 0.97
	peakGoal         = 100
)

const (
	mailConnections = 8 // the default of --smtp-url
	acceptClients   = 8
	acceptConns     = 32
)

// mailing is a server that sends mail to a mailSink.
type mailing struct {
	*Server
	sink *mailSink
	// sql is the server's database, for adding users, and notifySQL that of the notification service, which on PostgreSQL
	// is the same.
	sql, notifySQL *sql.DB
	postgres       bool
	users          int
	tokens         []string // of clients with permission to send
	args           []string // of the server
}

// restart stops the server and starts it again on the same data, at the same addresses: its tokens name them. between
// is called while it is stopped.
func (m *mailing) restart(ctx context.Context, r *Report, between func() error) error {
	was := m.Server
	err := was.Stop()
	m.Server = nil
	if err != nil {
		return err
	}
	if err := between(); err != nil {
		return err
	}
	m.Server, err = r.startIn(ctx, was.Dir, append(slices.Clone(m.args), "--listen", was.API, "--notifications-listen",
		was.Notifications, "--admin-listen", was.Admin)...)
	return err
}

// userIDs returns the ids of all users that fill has added.
func (m *mailing) userIDs(ctx context.Context) (ids []string, err error) {
	rows, err := m.sql.QueryContext(ctx, "SELECT id FROM auth_users WHERE origin = 'ldap'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, cmp.Or(rows.Err(), rows.Close())
}

func measureNotifications(ctx context.Context, r *Report) error {
	if !r.Large {
		r.Note("the limit of memory is for 1,000,000 recipients: -large measures those.")
	}
	return onBoth(ctx, r, measureMailing)
}

// The names of the databases in figures and of -database.
const (
	nameSQLite   = "SQLite"
	namePostgres = "PostgreSQL"
)

// onBoth measures with each database, or with that of -database. The url is that of a PostgreSQL server, or empty for
// SQLite.
func onBoth(ctx context.Context, r *Report,
	measure func(ctx context.Context, r *Report, name, url string) error) error {
	if r.Database != namePostgres {
		if err := measure(ctx, r, nameSQLite, ""); err != nil {
			return err
		}
	}
	if r.Database == nameSQLite {
		return nil
	}
	given := os.Getenv("INGOT_TEST_POSTGRES_URL")
	if given == "" {
		r.Note("PostgreSQL was not measured: INGOT_TEST_POSTGRES_URL names no server; make bench starts one.")
		return nil
	}
	return measure(ctx, r, namePostgres, given)
}

// measureMailing measures one server, on its own database.
func measureMailing(ctx context.Context, r *Report, name, postgres string) (err error) {
	few, many, rounds, d := 20_000, 200_000, 3, 5*time.Second
	if r.Short {
		few, many, rounds, d = 1000, 5000, 1, time.Second
	}
	m, err := r.startMailing(ctx, postgres)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.stop()) }()

	if err := m.fill(ctx, few); err != nil {
		return err
	}
	if _, err := m.everyone(ctx); err != nil { // a warm-up; the bare client repeats its message
		return err
	}
	best, err := bestOf(ctx, rounds, m.everyone, m.sink.bareMail(mailConnections, few))
	if err != nil {
		return err
	}
	bareRate := &Beside{fmt.Sprintf("bare SMTP, %d connections", mailConnections), best[1].PerSecond}
	r.Add(m.figure(fmt.Sprintf("%s: everyone, %d users", name, few), best[0], bareRate, ShareOf(deliveriesGoal)))
	if err := m.accept(ctx, r, name, d, rounds); err != nil {
		return err
	}
	if err := m.behindRetries(ctx, r, name, postgres, many/few, 2*rounds-1); err != nil {
		return err
	}
	if err := r.besideSlowDomain(ctx, name, postgres, few, 2*rounds-1); err != nil {
		return err
	}
	return m.large(ctx, r, name, many, bareRate)
}

// large measures sends to very many recipients, and the memory they need.
func (m *mailing) large(ctx context.Context, r *Report, name string, many int, bareRate *Beside) error {
	sizes := []int{many}
	if r.Large {
		sizes = append(sizes, 1_000_000)
	}
	for _, size := range sizes {
		if err := m.fill(ctx, size); err != nil {
			return err
		}
		if err := forgetPeak(m.PID); err != nil {
			r.Note("the peak of memory is that since the start of the server: %s", err)
		}
		parts, stop := watchMemory(ctx, m.PID)
		got, err := m.profiled(ctx, r, fmt.Sprintf("everyone-%d", size), m.everyone)
		stop()
		if err != nil {
			return err
		}
		r.Add(m.figure(fmt.Sprintf("%s: everyone, %d users", name, size), got, bareRate, ShareOf(deliveriesGoal)))
		peak, err := peakMemory(m.PID)
		if err != nil {
			return err
		}
		r.Add(Figure{Name: fmt.Sprintf("%s: peak memory for %d recipients, VmHWM", name, size), Value: peak, Unit: "MB",
			Beside: &Beside{"limit", peakGoal}, Goal: Below(peakGoal),
			Detail: fmt.Sprintf("of the whole server, with platform and authorization server; about %.0f MB of it RssAnon, "+
				"%.0f MB RssFile, the program itself", parts.anonymous, parts.file)})
	}
	return nil
}

// watchMemory samples the memory of a process; parts has the largest sample after
// stop was called.
func watchMemory(ctx context.Context, pid int) (parts *memory, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	parts = &memory{}
	var watching sync.WaitGroup
	watching.Go(func() {
		for pause(ctx, 20*time.Millisecond) == nil {
			if now, err := residentMemory(pid); err == nil && now.total > parts.total {
				*parts = now
			}
		}
	})
	return parts, func() {
		cancel()
		watching.Wait()
	}
}

// profiled runs a contender, and takes a profile if requested.
func (m *mailing) profiled(ctx context.Context, r *Report, name string, run Contender) (got Result, err error) {
	if r.ProfileDir == "" {
		return run(ctx)
	}
	if m.postgres {
		name += "-postgres"
	}
	file := filepath.Join(r.ProfileDir, "notifications-"+name+".pprof")
	err = m.Profile(ctx, 5, file, func() (err error) {
		got, err = run(ctx)
		return err
	})
	r.Note("profile of %s: %s", name, file)
	return got, err
}

func (m *mailing) figure(name string, got Result, beside *Beside, goal Goal) Figure {
	return Figure{Name: name, Value: got.PerSecond, Unit: "/s", Beside: beside, Goal: goal,
		Detail: fmt.Sprintf("CPU a message: server %d us, sink %d us", got.Server.Microseconds(), got.Load.Microseconds())}
}

// startMailing starts a server that delivers to a sink, with clients that have
// permission to send.
func (r *Report) startMailing(ctx context.Context, postgres string) (*mailing, error) {
	sink, err := startMailSink(ctx)
	if err != nil {
		return nil, err
	}
	m := &mailing{sink: sink, postgres: postgres != ""}
	args := []string{"--smtp-url", "smtp://" + sink.addr(), "--log-level", "warn", "--engine", "process"}
	if m.postgres {
		if postgres, err = freshDatabase(ctx, postgres); err != nil {
			return nil, errors.Join(err, m.stop())
		}
		args = append(args, "--database-url", postgres)
	}
	m.args = args
	if m.Server, err = r.Start(ctx, args...); err != nil {
		return nil, errors.Join(err, m.stop())
	}
	open := func(file string) (*sql.DB, error) {
		if m.postgres {
			return sql.Open("pgx", postgres)
		}
		return sql.Open("sqlite", "file:"+filepath.Join(m.Dir, file)+"?_pragma=busy_timeout(10000)")
	}
	if m.sql, err = open("ingot.db"); err == nil {
		m.notifySQL, err = open("notifications.db")
	}
	if err == nil {
		err = m.register(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, m.stop())
	}
	return m, nil
}

// freshDatabase creates a database on an existing server.
func freshDatabase(ctx context.Context, server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	d, err := sql.Open("pgx", server)
	if err != nil {
		return "", err
	}
	defer d.Close()
	name := fmt.Sprintf("bench_%08x", rand.Uint32())
	u.Path = "/" + name
	_, err = d.ExecContext(ctx, "CREATE DATABASE "+name)
	return u.String(), err
}

func (m *mailing) stop() error {
	var errs []error
	for _, d := range []*sql.DB{m.sql, m.notifySQL} {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	if m.Server != nil {
		errs = append(errs, m.Server.Stop())
	}
	m.sink.stop()
	return errors.Join(errs...)
}

// register creates the clients, and a kind for each.
func (m *mailing) register(ctx context.Context) error {
	grant := url.Values{"grant_type": {"client_credentials"}}
	admin, err := m.Token(ctx, basic("admin", adminSecret), grant)
	if err != nil {
		return err
	}
	for i := range acceptClients {
		id, secret := fmt.Sprintf("bench-sender-%d", i), fmt.Sprintf("secret-of-sender-%d", i)
		err := m.Create(ctx, admin, "/oauth/clients", map[string]any{
			"client_id": id, "client_secret": secret, "authorized_grant_types": "client_credentials",
			"authorities": []string{"notifications.write", "notifications.manage", "notification_templates.write"},
		})
		if err != nil {
			return err
		}
		token, err := m.Token(ctx, basic(id, secret), grant)
		if err != nil {
			return err
		}
		m.tokens = append(m.tokens, token)
		_, err = m.notify(ctx, http.MethodPut, "/notifications", token,
			`{"source_name":"Bench","notifications":{"news":{"description":"News","critical":false}}}`)
		if err != nil {
			return err
		}
	}
	return nil
}

// notify calls the notification service. It does not wait for the recipients of a
// send to be read, which would exceed the timeout of a call.
func (m *mailing) notify(ctx context.Context, method, path, token, body string) ([]byte, error) {
	header := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token},
		"Prefer": {"respond-async"}}
	there := &Server{API: m.Notifications}
	answer, _, err := there.Send(ctx, method, path, header, []byte(body))
	return answer, err
}

// notifyInto is notify with the response decoded.
func (m *mailing) notifyInto(ctx context.Context, method, path, token, body string, into any) error {
	answer, err := m.notify(ctx, method, path, token, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// fill adds users to the database of the authorization server until there are n.
// Calling the API for each would take longer than the measurement.
func (m *mailing) fill(ctx context.Context, n int) error {
	series := "WITH RECURSIVE g(i) AS (SELECT CAST(? AS INTEGER) UNION ALL SELECT i+1 FROM g WHERE i+1 < ?)"
	id := "lower(hex(randomblob(16)))"
	if m.postgres {
		series = "WITH g(i) AS (SELECT generate_series($1::bigint, $2::bigint - 1))"
		id = "md5(random()::text || i)"
	}
	const name = "'bench-' || i"
	_, err := m.sql.ExecContext(ctx, series+` INSERT INTO auth_users (id, user_name, user_name_key, origin, email, email_key, active, verified,
		password_hash, password_changed_at, created_at, modified_at, version, last_login_at, previous_login_at, login_failures, last_failure_at, locked_until)
		SELECT `+id+`, `+name+`, `+name+`, 'ldap', `+name+` || '@example.org', `+name+` || '@example.org', TRUE, TRUE, '', 0, 1, 1, 0, 0, 0, 0, 0, 0 FROM g`,
		m.users, n)
	if err != nil {
		return fmt.Errorf("fill in users: %w", err)
	}
	m.users = n
	if m.postgres {
		_, err = m.sql.ExecContext(ctx, "ANALYZE auth_users")
	}
	return err
}

const news = `{"kind_id":"news","subject":"News of the day","text":"Hello, there are news.","html":"<p>Hello, there are <b>news</b>.</p>"}`

// everyone sends to all users, and waits for the last message. It is a Contender.
// The administrator is a user too, but has no address.
func (m *mailing) everyone(ctx context.Context) (Result, error) {
	n := int64(m.users)
	server, own := processorTime(m.PID), processorTime(selfPID)
	before := m.sink.accepted.Load()
	began := time.Now()
	if _, err := m.notify(ctx, http.MethodPost, "/everyone", m.tokens[0], news); err != nil {
		return Result{}, err
	}
	if err := m.sink.await(ctx, &m.sink.accepted, before+n); err != nil {
		return Result{}, fmt.Errorf("%w\n%s", err, m.tail())
	}
	took := time.Since(began)
	each := time.Duration(n)
	return Result{
		PerSecond: float64(n) / took.Seconds(), Server: (processorTime(m.PID) - server) / each,
		Load: (processorTime(selfPID) - own) / each,
	}, nil
}

// accept measures how many sends to single users are accepted while they are
// delivered.
func (m *mailing) accept(ctx context.Context, r *Report, name string, d time.Duration, rounds int) error {
	load, err := m.single(ctx, d)
	if err != nil {
		return err
	}
	health := Load{Addr: m.Notifications, Requests: [][]byte{get(m.Notifications, "/healthz")}, Connections: acceptConns,
		Duration: d, PID: m.PID}
	best, err := bestOf(ctx, rounds, load.Run, health.Run)
	if err != nil {
		return err
	}
	if _, err := m.profiled(ctx, r, "accept", load.Run); err != nil {
		return err
	}
	p99 := millis(percentile(best[0].Latencies, 0.99))
	beside := &Beside{fmt.Sprintf("GET /healthz, %d connections", acceptConns), best[1].PerSecond}
	goal := acceptedSQLite
	if m.postgres {
		goal = acceptedPostgres
	}
	r.Add(rateFigure(fmt.Sprintf("%s: POST /users/:guid, %d connections", name, acceptConns), best[0], beside,
		AtLeast(float64(goal))))
	r.Add(Figure{Name: name + ": its p99", Value: p99, Unit: "ms", Beside: &Beside{"p99 of /healthz",
		millis(percentile(best[1].Latencies, 0.99))}, Goal: Below(acceptedP99)})
	return m.idle(ctx)
}

// single returns the load of sends to single users.
func (m *mailing) single(ctx context.Context, d time.Duration) (Load, error) {
	ids, err := m.userIDs(ctx)
	if err != nil {
		return Load{}, err
	}
	var requests [][]byte
	for i, id := range ids[:min(len(ids), 1000)] {
		requests = append(requests, postJSON(m.Notifications, "/users/"+id, news, "Authorization: Bearer "+
			m.tokens[i%len(m.tokens)]))
	}
	return Load{Addr: m.Notifications, Requests: requests, Connections: acceptConns, Duration: d, PID: m.PID}, nil
}

// postJSON returns a request with a JSON body as bytes.
func postJSON(addr, path, body string, extra ...string) []byte {
	return []byte("POST " + path + " HTTP/1.1\r\nHost: " + addr + "\r\nAccept: application/json\r\n" +
		"Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" + lines(extra) +
		"\r\n" + body)
}

// idle waits until nothing was delivered for a while.
func (m *mailing) idle(ctx context.Context) error {
	for last := int64(-1); ; {
		now := m.sink.accepted.Load() + m.sink.refused.Load()
		if now == last {
			return nil
		}
		last = now
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// behindRetries measures sends while many messages wait for a retry, alternating
// with the same sends of a second server with an empty queue, so that other load
// on the machine affects both. The turn with the median ratio counts.
func (m *mailing) behindRetries(ctx context.Context, r *Report, name, postgres string, sends, rounds int) (err error) {
	empty, err := r.startMailing(ctx, postgres)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, empty.stop()) }()
	if err := empty.fill(ctx, m.users); err != nil {
		return err
	}
	if _, err := empty.everyone(ctx); err != nil { // a warm-up
		return err
	}
	waiting, err := m.refuse(ctx, sends)
	if err != nil {
		return err
	}
	turns, err := alternating(ctx, rounds, empty, m)
	if err != nil {
		return err
	}
	middle, low, high := medianTurn(turns)
	beside := &Beside{"with an empty queue", middle.without.PerSecond}
	f := m.figure(fmt.Sprintf("%s: everyone, %d users, %d messages waiting for a retry", name, m.users, waiting),
		middle.with, beside, ShareOf(retriesGoal))
	f.Detail += fmt.Sprintf("; with an empty queue %d us; the median of %d turns, from %.1f %% to %.1f %%",
		middle.without.Server.Microseconds(), rounds, 100*low, 100*high)
	r.Add(f)
	return nil
}

// alternating sends to everyone of two servers in turns.
func alternating(ctx context.Context, rounds int, without, with *mailing) (turns []turn, err error) {
	for i := range rounds {
		var t turn
		order := []struct {
			on   *mailing
			into *Result
		}{{without, &t.without}, {with, &t.with}}
		if i%2 == 1 { // alternate the order
			slices.Reverse(order)
		}
		for _, one := range order {
			if *one.into, err = one.on.everyone(ctx); err != nil {
				return nil, err
			}
		}
		turns = append(turns, t)
	}
	return turns, nil
}

// turn is a send with a backlog, and one without.
type turn struct{ with, without Result }

func (t turn) ratio() float64 { return t.with.PerSecond / t.without.PerSecond }

// medianTurn returns the turn with the median ratio, and the lowest and the
// highest ratio.
func medianTurn(turns []turn) (middle turn, low, high float64) {
	sorted := slices.SortedFunc(slices.Values(turns), func(a, b turn) int { return cmp.Compare(a.ratio(), b.ratio()) })
	return sorted[len(sorted)/2], sorted[0].ratio(), sorted[len(sorted)-1].ratio()
}

// refuse makes the given number of sends to everyone fail temporarily, and
// returns how many messages wait then.
func (m *mailing) refuse(ctx context.Context, sends int) (waiting int64, err error) {
	m.sink.greylist.Store(true)
	before := m.sink.refused.Load()
	waiting = int64(sends) * int64(m.users)
	for range sends {
		if _, err := m.notify(ctx, http.MethodPost, "/everyone", m.tokens[1], news); err != nil {
			return 0, err
		}
	}
	if err := m.sink.await(ctx, &m.sink.refused, before+waiting); err != nil {
		return 0, err
	}
	if err := m.idle(ctx); err != nil { // their statuses are being recorded
		return 0, err
	}
	m.sink.greylist.Store(false)
	return waiting, nil
}
