package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"ingot/internal/cli/client"
)

type logsCommand struct {
	Recent   bool   `long:"recent" description:"Show recent logs and exit"`
	Process  string `long:"process" value-name:"TYPE" description:"Show only this process and its sidecars, such as web"`
	Sidecar  string `long:"sidecar" value-name:"NAME" description:"Show only this sidecar"`
	NoRouter bool   `long:"no-router" description:"Hide router access logs"`
	Instance *int   `long:"instance" value-name:"INDEX" description:"Show only this instance"`
	oneApp
}

// wants tells whether a line was asked for.
func (c *logsCommand) wants(l client.Line) bool {
	if c.NoRouter && l.Source == "RTR" {
		return false
	}
	if c.Instance != nil && l.Instance != fmt.Sprint(*c.Instance) {
		return false
	}
	if c.Process == "" && c.Sidecar == "" {
		return true
	}
	if l.Source == "LGR" {
		return true // that lines are missing is never left out
	}
	process, sidecar, ok := member(l.Source)
	return ok && (c.Process == "" || strings.EqualFold(process, c.Process)) && (c.Sidecar == "" || strings.EqualFold(sidecar, c.Sidecar))
}

// member says which process and which of its sidecars a source is. With
// revisions there is APP/REV/n in front.
func member(source string) (process, sidecar string, ok bool) {
	parts := strings.Split(source, "/")
	for i, p := range parts {
		if p == "PROC" && i+1 < len(parts) {
			process = parts[i+1]
			if i+3 < len(parts) && parts[i+2] == "SIDECAR" {
				sidecar = strings.Join(parts[i+3:], "/")
			}
			return process, sidecar, true
		}
	}
	return "", "", false
}

// logLine is a line as JSON, one a line.
type logLine struct {
	Time     time.Time `json:"time"`
	Source   string    `json:"source"`
	Instance string    `json:"instance"`
	Stream   string    `json:"stream"`
	Text     string    `json:"text"`
}

// showLine shows a line. As JSON it is one object a line, so that a stream can
// be read while it goes on.
func (s *session) showLine(l client.Line) {
	stream := "OUT"
	if l.Error {
		stream = "ERR"
	}
	for part := range strings.SplitSeq(strings.TrimRight(l.Text, "\r\n"), "\n") {
		if s.JSON {
			body, err := marshal(logLine{l.Time.UTC(), l.Source, l.Instance, stream, part})
			if err == nil {
				s.out.Println(string(body))
			}
			continue
		}
		head := fmt.Sprintf("%s [%s/%s] %s", l.Time.Local().Format("2006-01-02T15:04:05.00-0700"), l.Source, l.Instance, stream)
		body := strings.TrimRight(part, "\r")
		if l.Error {
			body = s.out.Bad(body)
		}
		s.out.Println("   " + s.out.Dim(head) + " " + body)
	}
}

func (c *logsCommand) run(ctx context.Context, s *session) (result, error) {
	if !s.JSON {
		s.doing("Retrieving logs for app %s", c.Args.App)
	}
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	if s.cfg.Links.LogCache == "" {
		return nil, &problem{What: "The API at " + s.cfg.API + " has no logs.", Why: "it does not advertise a log-cache endpoint"}
	}
	if c.Sidecar != "" || c.Process != "" {
		if err := c.known(ctx, s, app); err != nil {
			return nil, err
		}
	}
	show := func(l client.Line) {
		if c.wants(l) {
			s.showLine(l)
		}
	}
	recent, err := s.api.RecentLogs(ctx, s.cfg.Links.LogCache, app.GUID)
	if err != nil && (c.Recent || client.Status(err) != 404) {
		return nil, err
	}
	if c.Recent {
		for _, l := range recent {
			show(l)
		}
		return nil, nil //nolint:nilnil // it is shown
	}
	// A live log starts with the last moments: what made somebody look.
	since := time.Unix(0, 1)
	if len(recent) > 0 {
		since = recent[len(recent)-1].Time.Add(-time.Second)
	}
	err = s.tail()(ctx, app.GUID, since, show)
	if ctx.Err() != nil {
		return nil, nil //nolint:nilerr,nilnil // ended by who watched
	}
	return nil, err
}

// tail is how logs are followed: as a stream, where the server has one.
func (s *session) tail() client.Tail { return s.api.LiveTail(s.cfg.Links.LogCache) }

// known refuses filters that can never match.
func (c *logsCommand) known(ctx context.Context, s *session, app client.App) error {
	processes, err := client.List[client.Process](ctx, s.api, "/v3/apps/"+app.GUID+"/processes", nil)
	if err != nil {
		return err
	}
	var types, sidecars []string
	for _, p := range processes {
		types = append(types, p.Type)
	}
	if c.Process != "" && !containsFold(types, c.Process) {
		return &problem{What: didYouMean(fmt.Sprintf("App %s has no process %s", app.Name, c.Process), c.Process, types), Why: "it has " + strings.Join(types, ", ")}
	}
	if c.Sidecar == "" {
		return nil
	}
	all, err := client.List[client.Sidecar](ctx, s.api, "/v3/apps/"+app.GUID+"/sidecars", nil)
	if err != nil {
		return err
	}
	for _, sc := range all {
		sidecars = append(sidecars, sc.Name)
	}
	if containsFold(sidecars, c.Sidecar) {
		return nil
	}
	p := &problem{What: didYouMean(fmt.Sprintf("App %s has no sidecar %s", app.Name, c.Sidecar), c.Sidecar, sidecars), Why: "it has none"}
	if len(sidecars) > 0 {
		p.Why = "it has " + strings.Join(sidecars, ", ")
	}
	return p
}

func containsFold(all []string, one string) bool {
	for _, s := range all {
		if strings.EqualFold(s, one) {
			return true
		}
	}
	return false
}

// followStaging shows the log of a build while it goes on. What it returns
// ends that, after the last lines.
func (s *session) followStaging(ctx context.Context, app client.App, began time.Time) (stop func()) {
	if s.JSON || s.Quiet || s.cfg.Links.LogCache == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	shown := map[client.Line]bool{}
	show := func(l client.Line) {
		if l.Source != "STG" || shown[l] || l.Time.Before(began.Truncate(time.Second)) {
			return
		}
		shown[l] = true
		for part := range strings.SplitSeq(strings.TrimRight(l.Text, "\r\n"), "\n") {
			s.out.Println("   " + part)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.tail()(ctx, app.GUID, began.Truncate(time.Second), show) // a build does without its log
	}()
	return func() {
		cancel()
		<-done
		rest, cancelRest := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancelRest()
		lines, err := s.api.RecentLogs(rest, s.cfg.Links.LogCache, app.GUID)
		if err != nil {
			return
		}
		for _, l := range lines {
			show(l)
		}
	}
}
