package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

var personalSection = Section{
	Name: "personal",
	About: "lists of recipients with data of each, as NDJSON, from the first request to the last message in a mail " +
		"server on this machine, compared with a send of fixed content to everyone",
	Run: measurePersonal,
}

// personalGoal is the share of the plain rate.
const personalGoal = 0.80

// listSize is how many recipients a request may have.
const listSize = 100_000

// orders is the template of a personal send: texts, a loop, a condition and money.
const orders = `{"name":"Orders","subject":"{{.Data.shop}}: your order, {{.Data.name}}",` +
	`"text":"Hello {{.Data.name}},\n{{range .Data.items}}{{.count}} x {{.title}}\n{{else}}Nothing yet.\n{{end}}` +
	`Total: {{money \"EUR\" .Data.total}}",` +
	`"html":"<p>Hello <b>{{.Data.name}}</b>,</p><ul>{{range .Data.items}}<li>{{.count}} x {{.title}}</li>{{end}}</ul>` +
	`<p>Total: {{money \"EUR\" .Data.total}}</p>"}`

func measurePersonal(ctx context.Context, r *Report) error {
	r.Note("a list has at most %d recipients: a send to more takes several requests, one after another.", listSize)
	return onBoth(ctx, r, measurePersonalOn)
}

func measurePersonalOn(ctx context.Context, r *Report, name, postgres string) (err error) {
	users, rounds := 200_000, 3
	if r.Short {
		users, rounds = 2000, 1
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
	var made struct {
		ID string `json:"template-id"`
	}
	if err := m.notifyInto(ctx, http.MethodPost, "/templates", m.tokens[0], orders, &made); err != nil {
		return err
	}
	head := fmt.Sprintf(`{"kind_id":"news","template_id":%q,"subject":"Order","data":{"shop":"Bike Parts"}}`, made.ID)
	address := func(i int) string { return fmt.Sprintf(`{"email":"bench-%d@example.org"`, i) }
	var turns []turn
	var peak float64
	for i := range rounds {
		var t turn
		plain := func() (err error) {
			t.without, err = m.everyone(ctx)
			return err
		}
		personal := func() (err error) {
			if err = forgetPeak(m.PID); err != nil {
				r.Note("the peak of memory is that since the start of the server: %s", err)
			}
			t.with, err = m.profiled(ctx, r, "personal", m.lists(head, users, address, order))
			if err != nil {
				return err
			}
			now, err := peakMemory(m.PID)
			peak = max(peak, now)
			return err
		}
		pair := []func() error{plain, personal}
		if i%2 == 1 {
			pair[0], pair[1] = pair[1], pair[0]
		}
		for _, one := range pair {
			if err := one(); err != nil {
				return err
			}
		}
		turns = append(turns, t)
	}
	plain := r.addPersonal(m, name, users, turns, peak)
	// What the list costs and what the data costs, and that of users, whose addresses are looked up.
	bare := `{"kind_id":"news","subject":"News of the day","text":"Hello, there are news.","html":"<p>Hello.</p>"}`
	for _, other := range []struct {
		name, head string
		to         func(int) string
		data       func(int) string
	}{
		{"the same list without data", bare, address, func(int) string { return "" }},
		{"data of each user, by id", head, func(i int) string { return fmt.Sprintf(`{"user":%q`, ids[i]) }, order},
	} {
		got, err := m.lists(other.head, users, other.to, other.data)(ctx)
		if err != nil {
			return err
		}
		r.Add(m.figure(fmt.Sprintf("%s: %s, %d", name, other.name, users), got, plain, Goal{}))
	}
	return nil
}

// addPersonal reports the turns, and returns the rate without data.
func (r *Report) addPersonal(m *mailing, name string, users int, turns []turn, peak float64) *Beside {
	middle, low, high := medianTurn(turns)
	plain := &Beside{"everyone, fixed content", middle.without.PerSecond}
	f := m.figure(fmt.Sprintf("%s: data of each of %d recipients", name, users), middle.with, plain, ShareOf(personalGoal))
	f.Detail += fmt.Sprintf("; without data server %d us; the median of %d turns, from %.1f %% to %.1f %%",
		middle.without.Server.Microseconds(), len(turns), 100*low, 100*high)
	r.Add(f)
	r.Add(Figure{Name: name + ": its peak memory, VmHWM", Value: peak, Unit: "MB", Beside: &Beside{"limit", peakGoal},
		Goal: Below(peakGoal)})
	return plain
}

// order is the data of a recipient.
func order(i int) string {
	return fmt.Sprintf(`,"data":{"name":"Dora %d","total":%d.5,"items":[{"count":%d,"title":"Bell"},`+
		`{"count":1,"title":"Lamp"}]}`, i, i%1000, i%9+1)
}

// lists is a Contender that sends lists of n recipients together, and waits for the last message. to begins the object
// of a recipient and data continues it.
func (m *mailing) lists(head string, n int, to, data func(int) string) Contender {
	var bodies [][]byte
	for first := 0; first < n; first += listSize {
		b := bytes.NewBufferString(head + "\n")
		for i := first; i < min(first+listSize, n); i++ {
			b.WriteString(to(i) + data(i) + "}\n")
		}
		bodies = append(bodies, b.Bytes())
	}
	return func(ctx context.Context) (Result, error) {
		server, own := processorTime(m.PID), processorTime(selfPID)
		before := m.sink.accepted.Load()
		began := time.Now()
		for _, body := range bodies {
			if err := m.sendList(ctx, m.tokens[0], body); err != nil {
				return Result{}, err
			}
		}
		if err := m.sink.await(ctx, &m.sink.accepted, before+int64(n)); err != nil {
			return Result{}, fmt.Errorf("%w\n%s", err, m.tail())
		}
		took := time.Since(began)
		each := time.Duration(n)
		return Result{
			PerSecond: float64(n) / took.Seconds(), Server: (processorTime(m.PID) - server) / each,
			Load: (processorTime(selfPID) - own) / each,
		}, nil
	}
}

// sendList sends a list of recipients, however long it takes.
func (m *mailing) sendList(ctx context.Context, token string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.Notifications+"/sends", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = http.Header{"Content-Type": {"application/x-ndjson"}, "Authorization": {"Bearer " + token}}
	res, err := (&http.Client{}).Do(req) // without a timeout
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("POST /sends: %s: %s", res.Status, answer)
	}
	return err
}
