package notifications

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// recurringRow is a send that is repeated.
type recurringRow struct {
	Name     string     `json:"name"`
	ClientID string     `json:"client_id"`
	Status   string     `json:"status"`
	Cron     string     `json:"cron"`
	Zone     string     `json:"zone"`
	Starts   *time.Time `json:"starts_at,omitempty"`
	Ends     *time.Time `json:"ends_at,omitempty"`
	Count    int        `json:"count,omitempty"`
	// Next are times with the offset of Zone.
	Next     []string `json:"next_times"`
	Runs     int      `json:"runs"`
	Failures int      `json:"failures"`
	LastSend string   `json:"last_send_id,omitempty"`
	Problem  string   `json:"problem,omitempty"`
	KindID   string   `json:"kind_id"`
	Subject  string   `json:"subject"`
}

func (r *recurringRow) Show(p *term.Printer) {
	pairs := [][2]string{{"name", p.Bold(r.Name)}, {"status", p.State(r.Status)}, {"cron", r.Cron}, {"zone", r.Zone},
		{"kind", r.KindID}, {"subject", r.Subject}, {"next times", strings.Join(r.Next, ", ")},
		{"sent", strconv.Itoa(r.Runs)}}
	if r.Failures > 0 {
		pairs = append(pairs, [2]string{"refused", strconv.Itoa(r.Failures)})
	}
	if r.LastSend != "" {
		pairs = append(pairs, [2]string{"last send", r.LastSend})
	}
	if r.Problem != "" {
		pairs = append(pairs, [2]string{"problem", r.Problem})
	}
	p.Pairs(pairs...)
}

// notifications repeat

type repeatFlags struct {
	messageFlags
	Cron     string `long:"cron" value-name:"EXPRESSION" description:"When: minute, hour, day of the month, month, day of the week"`
	Zone     string `long:"zone" value-name:"ZONE" description:"Time zone of --cron, such as Europe/Berlin (default: UTC)"`
	Starts   string `long:"starts" value-name:"TIME" description:"Not before this time, such as 2026-12-24T18:00:00+01:00"`
	Ends     string `long:"ends" value-name:"TIME" description:"Not after this time"`
	Count    int    `long:"count" value-name:"N" description:"How often at most"`
	TTL      string `long:"ttl" value-name:"DURATION" description:"How long to try each; what is not delivered then becomes undeliverable"`
	Template string `long:"template" value-name:"ID" description:"Template id"`
}

func repeatSend(ctx context.Context, s *core.Session, w core.Words, f *repeatFlags) (core.Result, error) {
	if f.Cron == "" {
		return nil, core.UsageError("--cron is required")
	}
	to, err := f.to(ctx, s)
	if err != nil {
		return nil, err
	}
	send, err := f.content(s, w["KIND"])
	if err != nil {
		return nil, err
	}
	f.address(send, to)
	body := map[string]any{"cron": f.Cron, "send": send}
	for _, field := range []struct {
		in          map[string]any
		name, value string
	}{{send, "template_id", f.Template}, {send, "ttl", f.TTL}, {body, "zone", f.Zone}, {body, "starts_at", f.Starts},
		{body, "ends_at", f.Ends}} {
		if field.value != "" {
			field.in[field.name] = field.value
		}
	}
	if f.Count != 0 {
		body["count"] = f.Count
	}
	s.Say("Setting recurring send %s...", s.Out.Bold(w["NAME"]))
	out := &recurringRow{}
	if err := f.call(ctx, s, http.MethodPut, recurringPath(w["NAME"]), body, out); err != nil {
		return nil, err
	}
	s.OK()
	return out, nil
}

func recurringPath(name string) string { return "/recurring_sends/" + url.PathEscape(name) }

// notifications recurring

type recurringFlags struct {
	notifyFlags
	Show   string `long:"show" value-name:"NAME" description:"Show one, with its next times"`
	Pause  string `long:"pause" value-name:"NAME" description:"Pause one"`
	Resume string `long:"resume" value-name:"NAME" description:"Resume one; what it missed is not sent"`
	Delete string `long:"delete" value-name:"NAME" description:"Delete one"`
}

func changeRecurring(ctx context.Context, s *core.Session, _ core.Words, f *recurringFlags) (core.Result, error) {
	type step struct{ name, method, suffix, doing string }
	var steps []step
	for _, one := range []step{
		{f.Show, http.MethodGet, "", "Getting"}, {f.Pause, http.MethodPost, "/pause", "Pausing"},
		{f.Resume, http.MethodPost, "/resume", "Resuming"}, {f.Delete, http.MethodDelete, "", "Deleting"},
	} {
		if one.name != "" {
			steps = append(steps, one)
		}
	}
	if len(steps) > 1 {
		return nil, core.UsageError("--show, --pause, --resume and --delete cannot be used together")
	}
	if len(steps) == 1 {
		do := steps[0]
		s.Say("%s recurring send %s...", do.doing, s.Out.Bold(do.name))
		out := &recurringRow{}
		if do.method == http.MethodDelete {
			if err := f.call(ctx, s, do.method, recurringPath(do.name), nil, nil); err != nil {
				return nil, err
			}
			s.OK()
			return f.listRecurring(ctx, s)
		}
		if err := f.call(ctx, s, do.method, recurringPath(do.name)+do.suffix, nil, out); err != nil {
			return nil, err
		}
		s.OK()
		return out, nil
	}
	s.Say("Getting recurring sends...")
	return f.listRecurring(ctx, s)
}

func (f *recurringFlags) listRecurring(ctx context.Context, s *core.Session) (core.Result, error) {
	list := &core.Listing[recurringRow]{Key: "recurring_sends", None: "No recurring sends found.",
		Heading: []string{"name", "status", "cron", "zone", "next", "sent", "problem"},
		Paint:   []core.Paint{nil, core.State},
		Cells: func(r recurringRow) []string {
			next := ""
			if len(r.Next) > 0 {
				next = r.Next[0]
			}
			return []string{r.Name, r.Status, r.Cron, r.Zone, next, strconv.Itoa(r.Runs), r.Problem}
		}}
	path := "/recurring_sends?limit=1000" // a client has no more
	var page struct {
		Found []recurringRow `json:"recurring_sends"`
	}
	if err := f.call(ctx, s, http.MethodGet, path, nil, &page); err != nil {
		return nil, err
	}
	list.Rows = page.Found
	return list, nil
}
