package apps

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/pattern"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

type logsFlags struct {
	Recent   bool   `long:"recent" description:"Show recent logs and exit"`
	Process  string `long:"process" value-name:"TYPE" description:"Show only this process and its sidecars, such as web"`
	Sidecar  string `long:"sidecar" value-name:"NAME" description:"Show only this sidecar"`
	NoRouter bool   `long:"no-router" description:"Hide router access logs"`
	Since    string `long:"since" value-name:"DURATION|TIME" description:"Show only lines since then, such as 10m, 2h or 2026-01-02T15:04:05Z"`
	Long     bool   `long:"long" description:"Show router lines in full, also in a terminal"`
	Instance *int   `long:"instance" value-name:"INDEX" description:"Show only this instance"`
}

// wants reports whether a line matches the flags.
func (f *logsFlags) wants(l client.Line) bool {
	if f.NoRouter && l.Source == "RTR" {
		return false
	}
	if f.Instance != nil && l.Instance != fmt.Sprint(*f.Instance) {
		return false
	}
	if f.Process == "" && f.Sidecar == "" {
		return true
	}
	if l.Source == "LGR" {
		return true // always show that lines were lost
	}
	process, sidecar, ok := member(l.Source)
	return ok && (f.Process == "" || strings.EqualFold(process, f.Process)) &&
		(f.Sidecar == "" || strings.EqualFold(sidecar, f.Sidecar))
}

// member returns the process and the sidecar of a source. With revisions, the
// source contains APP/REV/n. Sidecars of tasks have no process.
func member(source string) (process, sidecar string, ok bool) {
	const mark = "/SIDECAR/"
	if strings.HasPrefix(source, "APP/TASK/") {
		i := strings.LastIndex(source, mark)
		if i < 0 {
			return "", "", false
		}
		return "", source[i+len(mark):], true
	}
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

// ShowLine shows a line. JSON output has one object per line, so that a stream
// can be parsed while it continues.
func ShowLine(s *core.Session, l client.Line) {
	stream := "OUT"
	if l.Error {
		stream = "ERR"
	}
	for part := range strings.SplitSeq(strings.TrimRight(l.Text, "\r\n"), "\n") {
		if s.JSON {
			body, err := core.Marshal(core.LogLine{Time: l.Time.UTC(), Source: l.Source, Instance: l.Instance, Stream: stream,
				Text: part})
			if err == nil {
				s.Out.Println(string(body))
			}
			continue
		}
		line := core.LogLine{Time: l.Time, Source: l.Source, Instance: l.Instance, Stream: stream,
			Text: strings.TrimRight(part, "\r")}
		if shortLogs(s) && l.Source == "RTR" {
			line.Text = shortRouterLine(line.Text)
		}
		s.Out.Println("   " + line.Painted(s.Out))
	}
}

// shortLogs reports whether lines are shortened and coloured. As cf, the client
// writes them in cf's format.
func shortLogs(s *core.Session) bool {
	return s.Env.OutTerminal && s.Env.Program != "cf" && !s.LongLogs
}

// routerLine matches an access log line.
var routerLine = pattern.OnUse(
	`^(\S+) - \[[^]]*\] "(\S+) (\S+) [^"]*" ("-"|\d+) \d+ (\d+) .*?response_time:([\d.]+)`)

// shortRouterLine returns the request, status, size and duration of an access log
// line. Lines in another format are returned unchanged.
func shortRouterLine(line string) string {
	m := routerLine().FindStringSubmatch(line)
	if m == nil {
		return line
	}
	bytes, err := strconv.ParseInt(m[5], 10, 64)
	seconds, err2 := strconv.ParseFloat(m[6], 64)
	if err != nil || err2 != nil {
		return line
	}
	took := time.Duration(seconds * float64(time.Second))
	switch {
	case took >= time.Second:
		took = took.Round(10 * time.Millisecond)
	case took >= time.Millisecond:
		took = took.Round(100 * time.Microsecond)
	default:
		took = took.Round(time.Microsecond)
	}
	return fmt.Sprintf("%s %s%s %s %s %s", m[2], m[1], m[3], strings.Trim(m[4], `"`), term.Size(bytes), took)
}

// since parses the flag --since: a duration before now, or a time.
func (f *logsFlags) since(now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(f.Since); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.00-0700", "2006-01-02T15:04:05",
		"2006-01-02 15:04:05", "2006-01-02"} {
		t, err := time.ParseInLocation(form, f.Since, time.Local)
		if err == nil && t.After(now) {
			return time.Time{}, core.UsageError(fmt.Sprintf("--since: %s is in the future", f.Since))
		}
		if err == nil {
			return t, nil
		}
	}
	return time.Time{}, core.UsageError(
		fmt.Sprintf("--since: %q is neither a duration, such as 10m or 2h, nor a time, such as 2026-01-02T15:04:05Z",
			f.Since))
}

func showLogs(ctx context.Context, s *core.Session, w core.Words, f *logsFlags) (core.Result, error) {
	s.LongLogs = f.Long
	var from time.Time
	if f.Since != "" {
		var err error
		if from, err = f.since(s.Env.Now()); err != nil {
			return nil, err
		}
	}
	if !s.JSON {
		s.Doing("Retrieving logs for app %s", w["APP"])
	}
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	if s.Config.Links.LogCache == "" {
		return nil, &core.Problem{What: "The API at " + s.Config.API + " has no logs.",
			Why: "it does not advertise a log-cache endpoint"}
	}
	if f.Sidecar != "" || f.Process != "" {
		if err := f.known(ctx, s, app); err != nil {
			return nil, err
		}
	}
	show := func(l client.Line) {
		if f.wants(l) {
			ShowLine(s, l)
		}
	}
	if !from.IsZero() && !f.Recent {
		return nil, follow(ctx, s, app, from, show)
	}
	if !from.IsZero() {
		return nil, s.API.LogsSince(ctx, s.Config.Links.LogCache, app.GUID, from, show)
	}
	recent, err := s.API.RecentLogs(ctx, s.Config.Links.LogCache, app.GUID)
	if err != nil && (f.Recent || client.Status(err) != 404) {
		return nil, err
	}
	if f.Recent {
		for _, l := range recent {
			show(l)
		}
		return nil, nil //nolint:nilnil // already shown
	}
	// A live log starts with the most recent lines, for context.
	since := time.Unix(0, 1)
	if len(recent) > 0 {
		since = recent[len(recent)-1].Time.Add(-time.Second)
	}
	return nil, follow(ctx, s, app, since, show)
}

// follow shows lines until the user interrupts, which is not a failure.
func follow(ctx context.Context, s *core.Session, app cfapi.App, since time.Time, show func(client.Line)) error {
	err := Tail(s)(ctx, app.GUID, since, show)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // interrupted by the user
	}
	return err
}

// Tail follows logs as a stream, where the server has one.
func Tail(s *core.Session) client.Tail { return s.API.LiveTail(s.Config.Links.LogCache) }

// known rejects filters that can never match.
func (f *logsFlags) known(ctx context.Context, s *core.Session, app cfapi.App) error {
	processes, err := client.List[cfapi.Process](ctx, s.API, "/v3/apps/"+app.GUID+"/processes", nil)
	if err != nil {
		return err
	}
	var types, sidecars []string
	for _, p := range processes {
		types = append(types, p.Type)
	}
	if f.Process != "" && !containsFold(types, f.Process) {
		return &core.Problem{What: core.DidYouMean(fmt.Sprintf("App %s has no process %s", app.Name, f.Process), f.Process,
			types), Existing: core.Existing("process", types)}
	}
	if f.Sidecar == "" {
		return nil
	}
	all, err := client.List[cfapi.Sidecar](ctx, s.API, "/v3/apps/"+app.GUID+"/sidecars", nil)
	if err != nil {
		return err
	}
	for _, sc := range all {
		sidecars = append(sidecars, sc.Name)
	}
	if containsFold(sidecars, f.Sidecar) {
		return nil
	}
	p := &core.Problem{What: core.DidYouMean(fmt.Sprintf("App %s has no sidecar %s", app.Name, f.Sidecar), f.Sidecar,
		sidecars), Why: "it has none"}
	if len(sidecars) > 0 {
		p.Why, p.Existing = "", core.Existing("sidecar", sidecars)
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

// Streams reports whether logs are shown while a job runs.
func Streams(s *core.Session) bool { return !s.JSON && !s.Quiet && s.Config.Links.LogCache != "" }

// followSource shows the lines of a build or a task while it runs. The returned
// function stops it after the last lines.
func followSource(ctx context.Context, s *core.Session, app cfapi.App, source string, began time.Time) (stop func()) {
	if !Streams(s) {
		return func() {}
	}
	job := ctx
	ctx, cancel := context.WithCancel(ctx)
	shown := map[client.Line]bool{}
	show := func(l client.Line) {
		if l.Source != source || shown[l] || l.Time.Before(began.Truncate(time.Second)) {
			return
		}
		shown[l] = true
		for part := range strings.SplitSeq(strings.TrimRight(l.Text, "\r\n"), "\n") {
			if l.Error && source != "STG" {
				part = s.Out.Bad(part)
			}
			s.Out.Println("   " + part)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = Tail(s)(ctx, app.GUID, began.Truncate(time.Second), show) // the job does not depend on its log
	}()
	return func() {
		cancel()
		<-done
		limit := lastLinesTime
		if job.Err() != nil {
			limit = 2 * time.Second // the user does not want to wait
		}
		rest, cancelRest := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancelRest()
		lines, err := s.API.RecentLogs(rest, s.Config.Links.LogCache, app.GUID)
		if err != nil {
			return
		}
		for _, l := range lines {
			show(l)
		}
	}
}

func logsCommands() []*core.Command {
	return core.InGroup(core.GroupInspect,
		core.Entry("logs", "APP [--recent]", "Show or follow an app's logs", core.NeedsSpace, showLogs,
			"my-app", "my-app --recent --no-router", "my-app --process web --sidecar config-server"),
	)
}
