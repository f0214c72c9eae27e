package audit

import (
	"embed"
	"encoding/csv"
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/pattern"
	"ingot/internal/console/page"
)

const (
	// scanned is how many events a page examines if a filter is one that the API does not have.
	scanned = 1000
	// exported is how many events an export contains at most, the newest.
	exported = 100_000
	// exportStep is how many events an export reads at once.
	exportStep = 2000
	// eventTime is how the API writes times, and formTime how forms do.
	eventTime = "2006-01-02T15:04:05Z"
	formTime  = "2006-01-02T15:04"
)

// auditTypes are types of events to choose from.
var auditTypes = []string{
	"audit.app.create", "audit.app.update", "audit.app.delete-request", "audit.app.start", "audit.app.stop",
	"audit.app.restart", "audit.app.process.crash", "audit.app.process.scale",
	"audit.app.deployment.create", "audit.app.droplet.create", "audit.app.environment.show", "audit.app.ssh-authorized",
	"audit.app.task.create", "audit.route.create",
	"audit.route.delete-request", "audit.service_instance.create", "audit.service_instance.update",
	"audit.service_instance.delete", "audit.service_binding.create",
	"audit.service_binding.delete", "audit.service_key.create", "audit.service_key.show", "audit.service_key.delete",
	"audit.user.organization_manager_add",
	"audit.user.space_developer_add", "audit.user.space_developer_remove", "audit.organization.create",
	"audit.space.create", "audit.space.delete-request",
}

//go:embed pages/*.html
var files embed.FS

// Files are the templates of audit events.
var Files = page.Files{FS: files, Functions: template.FuncMap{"details": fullEvent.details,
	"eventLink": fullEvent.link}}

// pages serves the pages of audit events.
type pages struct{ *page.Console }

// New returns the pages of audit events.
func New(core *page.Console) page.Part {
	c := pages{core}
	return page.Part{Pages: map[string]page.Handler{"/audit": c.audit},
		Streams: map[string]page.Handler{"/audit/export": c.exportAudit}}
}

// auditFilter is what events are selected by.
type auditFilter struct{ Type, Actor, Target, Place, From, To string }

func auditFilterOf(q url.Values) auditFilter {
	text := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	return auditFilter{text("type"), text("actor"), text("target"), text("in"), text("from"), text("to")}
}

// guidPattern matches what is surely not a name.
var guidPattern = pattern.OnUse(`^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$`)

// query returns the query of the API for a filter, newest events first.
func (f auditFilter) query() (url.Values, error) {
	q := url.Values{"order_by": {"-created_at"}}
	if types := page.Words(f.Type); len(types) > 0 {
		q.Set("types", strings.Join(types, ","))
	}
	if guidPattern().MatchString(f.Target) {
		q.Set("target_guids", f.Target)
	}
	if guid, ok := strings.CutPrefix(f.Place, "org:"); ok {
		q.Set("organization_guids", guid)
	} else if guid, ok := strings.CutPrefix(f.Place, "space:"); ok {
		q.Set("space_guids", guid)
	}
	for name, text := range map[string]string{"created_ats[gte]": f.From, "created_ats[lte]": f.To} {
		if text == "" {
			continue
		}
		at, err := time.Parse(formTime, text)
		if err != nil {
			at, err = time.Parse(formTime+":05", text)
		}
		if err != nil {
			return nil, fault.New(fault.Unprocessable, "A time must be like %s, in UTC, not %.50q.", formTime, text)
		}
		q.Set(name, at.Format(eventTime))
	}
	return q, nil
}

// local reports whether the filter has parts that the API does not.
func (f auditFilter) local() bool {
	return f.Actor != "" || f.Target != "" && !guidPattern().MatchString(f.Target)
}

func (f auditFilter) keeps(e *fullEvent) bool {
	target := f.Target == "" || e.Target.GUID == f.Target || page.Matches(e.Target.Name, f.Target)
	return target && (f.Actor == "" || e.Actor.GUID == f.Actor || page.Matches(e.Actor.Name, f.Actor))
}

type fullEvent struct {
	cfapi.Event
	Where string `json:"-"`
	raw   json.RawMessage
}

// details is the data of the event, with a member on each line.
func (e fullEvent) details() string {
	if text := strings.TrimSpace(string(e.Data)); text == "" || text == "{}" || text == "null" {
		return ""
	}
	return page.Indented(e.Data)
}

// link is the page of the target, if the console has one.
func (e fullEvent) link() string {
	switch e.Target.Type {
	case "app":
		return page.Path + "/apps/" + url.PathEscape(e.Target.GUID)
	case "service_instance", "user_provided_service_instance":
		return page.Path + "/services/" + url.PathEscape(e.Target.GUID)
	case "organization":
		return page.Path + "/orgs/" + url.PathEscape(e.Target.GUID)
	}
	return ""
}

// places are the organizations and spaces that a user sees, by guid.
type places struct {
	orgs   []cfapi.Thing
	spaces []cfapi.Space
	names  map[string]string
}

func loadPlaces(c *page.Caller) (*places, error) {
	p := &places{names: map[string]string{}}
	err := page.Together(
		page.List(c, &p.orgs, "/v3/organizations", url.Values{"order_by": {"name"}}),
		page.List(c, &p.spaces, "/v3/spaces", url.Values{"order_by": {"name"}}),
	)
	for _, o := range p.orgs {
		p.names[o.GUID] = o.Name
	}
	for _, in := range p.spaces {
		p.names[in.GUID] = p.names[in.Relationships.Organization.GUID()] + " / " + in.Name
	}
	return p, err
}

func (p *places) of(e *fullEvent) string {
	if e.Space != nil && p.names[e.Space.GUID] != "" {
		return p.names[e.Space.GUID]
	}
	if e.Org != nil {
		return p.names[e.Org.GUID]
	}
	return ""
}

// eventsOf reads a page of events.
func eventsOf(c *page.Caller, q url.Values, n, size int) ([]fullEvent, int, error) {
	q.Set("page", strconv.Itoa(n))
	q.Set("per_page", strconv.Itoa(size))
	var l cfapi.List[json.RawMessage, struct{}]
	if err := c.Get(&l, "/v3/audit_events", q); err != nil {
		return nil, 0, err
	}
	list := make([]fullEvent, len(l.Resources))
	for i, raw := range l.Resources {
		if err := json.Unmarshal(raw, &list[i]); err != nil {
			return nil, 0, err
		}
		list[i].raw = raw
	}
	return list, l.Pagination.Total, nameTargets(c, list)
}

// nameTargets adds the names of users that got or lost a role: the events have only their guids.
func nameTargets(c *page.Caller, list []fullEvent) error {
	var guids []string
	for _, e := range list {
		if e.Target.Type == "user" && e.Target.Name == "" && guidPattern().MatchString(e.Target.GUID) {
			guids = append(guids, e.Target.GUID)
		}
	}
	slices.Sort(guids)
	names := map[string]string{}
	for some := range slices.Chunk(slices.Compact(guids), 100) {
		users, err := page.All[cfapi.User](c, "/v3/users", url.Values{"guids": {strings.Join(some, ",")}})
		if err != nil {
			return err
		}
		maps.Copy(names, cfapi.Names(users))
	}
	for i := range list {
		if e := &list[i]; e.Target.Type == "user" && e.Target.Name == "" {
			e.Target.Name = names[e.Target.GUID]
		}
	}
	return nil
}

type auditData struct {
	Filter   auditFilter
	Events   []fullEvent
	Places   []page.Option
	Types    []string
	Pager    page.Pager
	Examined int // events that a filter was applied to, if the API does not have it
	Export   string
	Command  string
}

// audit is GET /console/audit: ?type=, ?actor= and ?target= parts of names or guids, ?in=org:GUID
// or space:GUID, ?from= and ?to= times, ?page=.
func (c pages) audit(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	call := c.Platform(r, s)
	data := &auditData{Filter: auditFilterOf(r.URL.Query()), Types: auditTypes}
	where, err := loadPlaces(call)
	if err != nil {
		return err
	}
	for _, o := range where.orgs {
		data.Places = append(data.Places, page.Option{Value: "org:" + o.GUID, Label: o.Name,
			Chosen: data.Filter.Place == "org:"+o.GUID})
	}
	for _, in := range where.spaces {
		data.Places = append(data.Places, page.Option{Value: "space:" + in.GUID, Label: where.names[in.GUID],
			Chosen: data.Filter.Place == "space:"+in.GUID})
	}
	slices.SortFunc(data.Places, func(a, b page.Option) int { return strings.Compare(a.Label, b.Label) })
	status, problem := http.StatusOK, ""
	if err := data.load(call, r, where); err != nil {
		var ok bool
		if status, problem, ok = page.ProblemOf(err); !ok {
			return err
		}
	}
	return c.Show(w, r, s, status, "audit.html", page.Page{Title: "Audit", Section: "audit", Data: data, Problem: problem})
}

func (d *auditData) load(call *page.Caller, r *http.Request, where *places) error {
	q, err := d.Filter.query()
	if err != nil {
		return err
	}
	d.Command = page.Command("cf", "curl", "/v3/audit_events?"+q.Encode())
	kept := r.URL.Query()
	for _, key := range []string{"page", "said", "format"} {
		kept.Del(key)
	}
	d.Export = page.Path + "/audit/export?" + kept.Encode()
	size := page.PerPage
	if d.Filter.local() {
		size = scanned
	}
	n, _ := strconv.Atoi(r.URL.Query().Get("page"))
	list, total, err := eventsOf(call, q, min(max(1, n), 1_000_000), size)
	if err != nil {
		return err
	}
	d.Pager = page.NewPager(r, total, size, "events")
	if d.Filter.local() {
		d.Examined = len(list)
	}
	for i := range list {
		if d.Filter.keeps(&list[i]) {
			list[i].Where = where.of(&list[i])
			d.Events = append(d.Events, list[i])
		}
	}
	return nil
}

// exportAudit is GET /console/audit/export: the events of a filter as ?format=csv or jsonl, newest
// first.
func (c pages) exportAudit(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	ctx, leave, err := c.OpenStream(r, s, page.StreamLife(s))
	if err != nil {
		return err
	}
	defer leave()
	r = r.WithContext(ctx)
	call, filter := c.Platform(r, s), auditFilterOf(r.URL.Query())
	q, err := filter.query()
	if err != nil {
		return err
	}
	where, err := loadPlaces(call)
	if err != nil {
		return err
	}
	// The first page before the response begins, so that an error is a response.
	list, _, err := eventsOf(call, q, 1, exportStep)
	if err != nil {
		return err
	}
	out := newExport(w, r.URL.Query().Get("format"))
	seen := map[string]bool{}
	for n, rows := 1, 0; ; {
		now := map[string]bool{}
		for i := range list {
			e := &list[i]
			now[e.GUID] = true
			// New events move those of the last page to this one.
			if seen[e.GUID] || !filter.keeps(e) {
				continue
			}
			e.Where = where.of(e)
			if rows++; rows > exported || out.write(e) != nil {
				return out.flush()
			}
		}
		if len(list) < exportStep {
			return out.flush()
		}
		seen = now
		n++
		if list, _, err = eventsOf(call, q, n, exportStep); err != nil {
			panic(http.ErrAbortHandler) // the download fails instead of looking complete
		}
	}
}

// export writes events as lines.
type export struct {
	w     http.ResponseWriter
	csv   *csv.Writer // nil for JSON lines
	lines int
}

func newExport(w http.ResponseWriter, format string) *export {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	if format == "jsonl" {
		h.Set("Content-Type", "application/jsonl; charset=utf-8")
		h.Set("Content-Disposition", `attachment; filename="audit.jsonl"`)
		return &export{w: w}
	}
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="audit.csv"`)
	e := &export{w: w, csv: csv.NewWriter(w)}
	// buffered
	_ = e.csv.Write([]string{"time", "type", "actor", "actor_type", "actor_guid", "target", "target_type", "target_guid",
		"in", "data"})
	return e
}

func (x *export) write(e *fullEvent) error {
	if x.lines++; x.lines%exportStep == 0 {
		_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(time.Minute))
	}
	if x.csv == nil {
		_, err := x.w.Write(append(slices.Clone(e.raw), '\n')) //nolint:gosec // JSON, downloaded, and not sniffed
		return err
	}
	cells := []string{e.CreatedAt.Format(eventTime), e.Type, e.Actor.Name, e.Actor.Type, e.Actor.GUID, e.Target.Name,
		e.Target.Type, e.Target.GUID, e.Where, string(e.Data)}
	for i := range cells {
		cells[i] = harmless(cells[i])
	}
	return x.csv.Write(cells)
}

func (x *export) flush() error {
	if x.csv != nil {
		x.csv.Flush()
	}
	return nil
}

// harmless returns a text that spreadsheets do not take for a formula.
func harmless(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
