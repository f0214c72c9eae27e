package notifications

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"ingot/internal/base/digits"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// mailState is what a server knows of the mail servers and of receiving domains.
type mailState struct {
	Routes    []mailRoute   `json:"routes"`
	Domains   []mailDomain  `json:"domains"`
	WarmUp    *mailWarmUp   `json:"warm_up,omitempty"`
	Postponed mailPostponed `json:"postponed"`
}

type mailRoute struct {
	Name      string   `json:"name"`
	Server    string   `json:"server"`
	Weight    int      `json:"weight"`
	Domains   []string `json:"domains,omitempty"`
	State     string   `json:"state"`
	Failures  int      `json:"failures"`
	Reason    string   `json:"reason,omitempty"`
	Until     string   `json:"until,omitempty"`
	Delivered int64    `json:"delivered"`
}

type mailDomain struct {
	Domain      string  `json:"domain"`
	Slow        bool    `json:"slow"`
	AnswerMS    int64   `json:"answer_ms"`
	Rate        float64 `json:"rate"`
	Lowered     bool    `json:"lowered"`
	Reason      string  `json:"reason,omitempty"`
	Sending     int     `json:"sending"`
	Connections int     `json:"connections"`
}

type mailWarmUp struct {
	First  int     `json:"first"`
	Growth float64 `json:"growth"`
	Days   int     `json:"days"`
}

type mailPostponed struct {
	Rate   int64 `json:"rate"`
	Slow   int64 `json:"slow"`
	WarmUp int64 `json:"warm_up"`
	Busy   int64 `json:"busy_answers"`
}

// Show prints a table of the mail servers, and one of the domains.
func (m *mailState) Show(p *term.Printer) {
	t := term.Table{Heading: []string{"mail server", "address", "weight", "for", "state", "delivered", "reason"}}
	for _, r := range m.Routes {
		domains := "all domains"
		if len(r.Domains) > 0 {
			domains = strings.Join(r.Domains, ", ")
		}
		state := term.Cell{Text: "up", Paint: p.Good}
		if r.State != "closed" {
			state = term.Cell{Text: map[string]string{"open": "left alone", "half-open": "being tried"}[r.State], Paint: p.Bad}
		}
		t.Rows = append(t.Rows, []term.Cell{{Text: r.Name}, {Text: r.Server}, {Text: strconv.Itoa(r.Weight)},
			{Text: domains}, state, {Text: strconv.FormatInt(r.Delivered, 10)}, {Text: r.Reason}})
	}
	p.Table(t)
	if len(m.Domains) > 0 {
		p.Println("")
		t := term.Table{Heading: []string{"domain", "state", "answers take", "limit", "sending", "reason"}}
		for _, d := range m.Domains {
			t.Rows = append(t.Rows, []term.Cell{{Text: d.Domain}, {Text: d.state()},
				{Text: strconv.FormatInt(d.AnswerMS, 10) + " ms"}, {Text: d.limit()},
				{Text: fmt.Sprintf("%d of %d", d.Sending, d.Connections)}, {Text: d.Reason}})
		}
		p.Table(t)
	}
	p.Println("")
	p.Printf("Postponed since the start: %d by rate, %d for slow domains, %d by the warm-up plan.", m.Postponed.Rate,
		m.Postponed.Slow, m.Postponed.WarmUp)
	if w := m.WarmUp; w != nil {
		p.Printf("Warm-up: %d messages to a domain on the first day, %g times as many on each further one, for %d days.",
			w.First, w.Growth, w.Days)
	}
}

func (d *mailDomain) state() string {
	switch {
	case d.Slow && d.Lowered:
		return "slow, lowered"
	case d.Slow:
		return "slow"
	case d.Lowered:
		return "lowered"
	}
	return "quick"
}

func (d *mailDomain) limit() string {
	if d.Rate == 0 {
		return "none"
	}
	return digits.Short(d.Rate, 3) + " a second"
}

func showMailState(ctx context.Context, s *core.Session, _ core.Words, f *notifyFlags) (core.Result, error) {
	f.administers()
	s.Say("Getting the state of mail...")
	out := &mailState{}
	if err := f.call(ctx, s, http.MethodGet, "/mail_state", nil, out); err != nil {
		return nil, err
	}
	return out, nil
}
