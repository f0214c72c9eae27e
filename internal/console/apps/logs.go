package apps

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// line is a line of an app's log.
type line struct {
	At       time.Time
	Source   string // as cf shows it: APP/PROC/WEB
	GUID     string // of the instance
	Instance string
	Stderr   bool
	Text     string
}

// ID identifies the line in its log, for links to it.
func (l line) ID() string { return strconv.FormatInt(l.At.UnixNano(), 10) }

// Sidecar returns the sidecar that wrote the line: its name in capitals, or "".
func (l line) Sidecar() string {
	_, name, _ := strings.Cut(l.Source, "/SIDECAR/")
	return name
}

// chunks returns lines in parts that the browser lays out together.
func chunks(lines []line) [][]line {
	const perChunk = 100
	return slices.Collect(slices.Chunk(lines, perChunk))
}

// newest are the parameters for the newest lines.
func newest() url.Values {
	return url.Values{"limit": {strconv.Itoa(maxLines)}, "descending": {"true"}}
}

// linesAt reads the lines before and after a line.
func linesAt(c *page.Caller, guid string, at int64) ([]line, error) {
	var before, after []line
	half := strconv.Itoa(maxLines / 2)
	err := page.Together(
		func() (err error) {
			before, err = readLines(c, guid, url.Values{"end_time": {strconv.FormatInt(at, 10)}, "limit": {half},
				"descending": {"true"}})
			return err
		},
		func() (err error) {
			after, err = readLines(c, guid, url.Values{"start_time": {strconv.FormatInt(at, 10)}, "limit": {half}})
			return err
		},
	)
	return slices.Concat(before, after), err
}

// maxLines is how many lines the log cache returns at once.
const maxLines = 1000

// readLines reads the log of an app, oldest first.
func readLines(c *page.Caller, guid string, q url.Values) ([]line, error) {
	q.Set("envelope_types", "LOG")
	var answer struct {
		Envelopes struct {
			Batch []envelope `json:"batch"`
		} `json:"envelopes"`
	}
	if err := c.Get(&answer, "/api/v1/read/"+url.PathEscape(guid), q); err != nil {
		return nil, err
	}
	out := make([]line, 0, len(answer.Envelopes.Batch))
	for _, e := range answer.Envelopes.Batch {
		out = append(out, e.line())
	}
	if q.Get("descending") == "true" {
		slices.Reverse(out)
	}
	return out, nil
}

type logsData struct {
	*Data
	Lines []line
	lineFilter
	Sources, Sidecars, Instances []string
	StreamURL                    string    // the address of the stream; empty if the page shows lines around At
	Since                        string    // the time after the newest line, where the stream begins
	At                           time.Time // of the line that a link leads to
	Link                         string    // of this page
	Command                      string
}

// lineFilter selects lines. Its fields are parameters of the page and of its stream.
type lineFilter struct{ Query, Source, Sidecar, Instance, Stream string }

func filterOf(q url.Values) lineFilter {
	return lineFilter{q.Get("q"), q.Get("source"), q.Get("sidecar"), q.Get("instance"), q.Get("stream")}
}

// mainProcess selects the lines of no sidecar.
const mainProcess = "-"

// logs is GET /console/apps/GUID/logs: ?q= part of a line, ?source=, ?sidecar=, ?instance=,
// ?stream=out|err, ?at= the ID of a line.
func (c *pages) logs(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	call := c.Platform(r, s)
	app, err := loadName(call, web.Param(r, "guid"))
	if err != nil {
		return err
	}
	q := r.URL.Query()
	app.Tabs = app.tabs("logs")
	d := &logsData{
		Data: app, lineFilter: filterOf(q),
		Command: page.Command("cf", "logs", app.App.Name), Link: page.Path + "/apps/" +
			url.PathEscape(app.App.GUID) + "/logs",
	}
	if at, bad := strconv.ParseInt(q.Get("at"), 10, 64); bad == nil && at > 0 {
		d.At = time.Unix(0, at).UTC()
		d.Lines, err = linesAt(call, app.App.GUID, at)
	} else {
		d.StreamURL = d.Link + "/stream"
		newer := time.Now().UnixNano()
		if d.Lines, err = readLines(call, app.App.GUID, newest()); len(d.Lines) > 0 {
			newer = d.Lines[len(d.Lines)-1].At.UnixNano() + 1
		}
		d.Since = strconv.FormatInt(newer, 10)
	}
	if err != nil {
		if page.Gone(err) {
			err = fault.New(fault.Forbidden,
				"You may see this app, but not its log: that needs the role of a space developer, manager or auditor.")
		}
		return err
	}
	sidecars, err := page.All[sidecar](call, "/v3/apps/"+app.App.GUID+"/sidecars", nil)
	if err != nil {
		return err
	}
	for _, one := range sidecars {
		d.Sidecars = append(d.Sidecars, strings.ToUpper(one.Name))
	}
	for _, l := range d.Lines {
		d.Sources, d.Instances = append(d.Sources, l.Source), append(d.Instances, l.Instance)
		if name := l.Sidecar(); name != "" {
			d.Sidecars = append(d.Sidecars, name)
		}
	}
	for _, list := range []*[]string{&d.Sources, &d.Sidecars, &d.Instances} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	d.Lines = slices.DeleteFunc(d.Lines, func(l line) bool { return !d.shows(l) })
	return c.Show(w, r, s, http.StatusOK, "logs.html", page.Page{
		Title: "Log of " + app.App.Name, Section: "apps", Data: d,
		Crumbs: append(app.crumbs(), page.Crumb{Name: app.App.Name, Link: page.Path + "/apps/" +
			url.PathEscape(app.App.GUID)}),
	})
}

func (d *lineFilter) shows(l line) bool {
	return page.Matches(l.Text, d.Query) && (d.Source == "" || l.Source == d.Source) &&
		(d.Instance == "" || l.Instance == d.Instance) &&
		(d.Stream == "" || (d.Stream == "err") == l.Stderr) && (d.Sidecar == "" || d.Sidecar == l.Sidecar() ||
		d.Sidecar == mainProcess && l.Sidecar() == "" && strings.HasPrefix(l.Source, "APP/PROC/"))
}

// logLines is GET /console/apps/GUID/log-lines: all lines that the log cache has, as text, to
// download.
func (c *pages) logLines(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	call, guid := c.Platform(r, s), web.Param(r, "guid")
	from, until := int64(1), time.Now().UnixNano()
	list, err := linesFrom(call, guid, from, until)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="app.log"`)
	h.Set("X-Content-Type-Options", "nosniff")
	control := http.NewResponseController(w)
	for written := 0; len(list) > written; {
		var b bytes.Buffer
		for _, l := range list[written:] {
			stream := "OUT"
			if l.Stderr {
				stream = "ERR"
			}
			b.WriteString(l.At.Format(time.RFC3339Nano) + " [" + l.Source + "/" + l.Instance + "] " + stream + " " +
				l.Text + "\n")
		}
		_ = control.SetWriteDeadline(time.Now().Add(logPatience))
		if _, err := w.Write(b.Bytes()); err != nil || len(list) < maxLines {
			return nil //nolint:nilerr // the browser is gone
		}
		from, written = following(list)
		if list, err = linesFrom(call, guid, from, until); err != nil {
			// A download that ends early must not look complete.
			panic(http.ErrAbortHandler)
		}
	}
	return nil
}

// linesFrom reads the oldest lines of a time.
func linesFrom(c *page.Caller, guid string, from, until int64) ([]line, error) {
	return readLines(c, guid, url.Values{
		"start_time": {strconv.FormatInt(from, 10)}, "end_time": {strconv.FormatInt(until, 10)},
		"limit": {strconv.Itoa(maxLines)},
	})
}

// following returns where the lines after a full page begin: at the time of its last line, and
// after so many lines, because several lines can have one time.
func following(list []line) (from int64, written int) {
	last := list[len(list)-1].At
	for _, l := range slices.Backward(list) {
		if !l.At.Equal(last) {
			return last.UnixNano(), written
		}
		written++
	}
	return last.UnixNano() + 1, 0 // a page of one time; the log cache returns no more of them
}
