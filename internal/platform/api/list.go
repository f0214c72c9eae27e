package api

import (
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
)

// listing declares what a list endpoint understands. All list endpoints are
// made of it, so that all of them behave alike: unknown parameters are
// refused, an empty value means the empty string, several values are separated
// by commas, and pages have links.
type listing struct {
	filters map[string]filter
	// orders are the fields of order_by besides created_at and updated_at.
	orders []string
	// includes are the values of include; fields are the keys of fields[…].
	includes []string
	fields   []string
	// embeds are the values of embed, which the endpoint reads itself.
	embeds []string
	// extra are parameters that the endpoint reads itself.
	extra []string
	// labels says whether label_selector is understood; plain lists of things
	// without metadata do not.
	noLabels bool
	// usual is the field of the order that nobody asked for; empty means by
	// creation.
	usual string
	// single says that it is no list: nothing of it can be selected.
	single bool
}

// filter says how a parameter becomes a condition.
type filter struct {
	field string
	kind  filterKind
	// values are the only ones allowed, if set.
	values []string
}

type filterKind int

const (
	texts filterKind = iota // comma separated
	numbers
	flag // true or false
)

func byText(field string) filter { return filter{field: field} }

func byWord(field string, values ...string) filter { return filter{field: field, values: values} }

func byNumber(field string) filter { return filter{field: field, kind: numbers} }

func byFlag(field string) filter { return filter{field: field, kind: flag} }

// list is a request for a page, understood.
type list struct {
	query   platform.Query
	include []string
	fields  map[string][]string
	url     *url.URL
	base    string
}

// Bounds of a page.
const (
	defaultPerPage = 50
	maxPerPage     = 5000
)

func badQuery(format string, args ...any) error {
	return fault.New(fault.BadQuery, "The query parameter is invalid: "+format, args...)
}

// parse reads the query of a list request.
func (l listing) parse(r *http.Request) (*list, error) {
	out := &list{query: platform.Query{Page: 1, PerPage: defaultPerPage, Order: l.usual}, fields: map[string][]string{}, url: r.URL, base: baseURL(r)}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badQuery("the query string cannot be read")
	}
	for _, name := range slices.Sorted(keysOf(values)) {
		if len(values[name]) > 1 {
			return nil, badQuery("'%s' is given more than once", name)
		}
		if err := l.parseOne(out, name, values[name][0]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func keysOf(v url.Values) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range v {
			if !yield(k) {
				return
			}
		}
	}
}

func (l listing) parseOne(out *list, name, value string) error {
	if slices.Contains(l.extra, name) {
		return nil
	}
	if name == "include" {
		return l.include(out, value)
	}
	if name == "embed" && len(l.embeds) > 0 {
		for _, v := range splitValues(value) {
			if !slices.Contains(l.embeds, v) {
				return badQuery("Invalid embedded resource: '%s'. Valid embedded resources are: %s", v, strings.Join(quoted(l.embeds), ", "))
			}
		}
		return nil
	}
	if key, ok := strings.CutPrefix(name, "fields["); ok && strings.HasSuffix(key, "]") && slices.Contains(l.fields, strings.TrimSuffix(key, "]")) {
		out.fields[strings.TrimSuffix(key, "]")] = splitValues(value)
		return nil
	}
	if l.single {
		return l.unknown(name)
	}
	if f, ok := l.filters[name]; ok {
		c, err := f.cond(name, value)
		if err != nil {
			return err
		}
		out.query.Where = append(out.query.Where, c)
		return nil
	}
	switch name {
	case "page":
		return parseCount(name, value, math.MaxInt32, &out.query.Page)
	case "per_page":
		return parseCount(name, value, maxPerPage, &out.query.PerPage)
	case "order_by":
		return l.order(out, value)
	case "guids":
		out.query.Where = append(out.query.Where, platform.InStrings("guid", splitValues(value)))
		return nil
	case "label_selector":
		if l.noLabels {
			break
		}
		var err error
		out.query.Labels, err = parseSelector(value)
		return err
	}
	if key, op, ok := timeFilter(name); ok {
		return timeConds(out, key, op, name, value)
	}
	return l.unknown(name)
}

func (l listing) unknown(name string) error {
	return badQuery("Unknown query parameter(s): '%s'. Valid parameters are: %s", name, l.known())
}

// known lists the parameters, for the error message.
func (l listing) known() string {
	var names []string
	if !l.single {
		names = append(names, "page", "per_page", "order_by", "guids", "created_ats", "updated_ats")
	}
	if !l.single && !l.noLabels {
		names = append(names, "label_selector")
	}
	for name := range l.filters {
		names = append(names, name)
	}
	if len(l.includes) > 0 {
		names = append(names, "include")
	}
	if len(l.embeds) > 0 {
		names = append(names, "embed")
	}
	for _, f := range l.fields {
		names = append(names, "fields["+f+"]")
	}
	names = append(names, l.extra...)
	slices.Sort(names)
	return "'" + strings.Join(slices.Compact(names), "', '") + "'"
}

func parseCount(name, value string, most int, dest *int) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return badQuery("%s must be a positive integer", title(name))
	}
	if n > most {
		return badQuery("%s must be between 1 and %d", title(name), most)
	}
	*dest = n
	return nil
}

func title(name string) string {
	return strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "_", " ")
}

func (l listing) order(out *list, value string) error {
	field, desc := strings.CutPrefix(value, "-")
	field, _ = strings.CutPrefix(field, "+")
	if field != "created_at" && field != "updated_at" && !slices.Contains(l.orders, field) {
		return badQuery("Order by can only be: %s", strings.Join(append([]string{"'created_at'", "'updated_at'"}, quoted(l.orders)...), ", "))
	}
	out.query.Order, out.query.Desc = field, desc
	return nil
}

func quoted(words []string) []string {
	out := make([]string, 0, len(words))
	for _, w := range words {
		out = append(out, "'"+w+"'")
	}
	return out
}

func (l listing) include(out *list, value string) error {
	for _, v := range splitValues(value) {
		if !slices.Contains(l.includes, v) {
			if len(l.includes) == 0 {
				return l.unknown("include")
			}
			return badQuery("Invalid included resource: '%s'. Valid included resources are: %s", v, strings.Join(quoted(l.includes), ", "))
		}
		out.include = append(out.include, v)
	}
	return nil
}

// splitValues splits at commas. A comma that belongs to a value arrives
// percent-encoded once more inside it.
func splitValues(value string) []string {
	parts := strings.Split(value, ",")
	for i, p := range parts {
		if decoded, err := url.PathUnescape(p); err == nil {
			parts[i] = decoded
		}
	}
	return parts
}

func (f filter) cond(name, value string) (platform.Cond, error) {
	c := platform.Cond{Field: f.field}
	for _, v := range splitValues(value) {
		switch f.kind {
		case numbers:
			n, err := strconv.Atoi(v)
			if err != nil {
				return c, badQuery("%s must be numbers, not '%s'", title(name), v)
			}
			c.Values = append(c.Values, n)
		case flag:
			b, err := strconv.ParseBool(v)
			if err != nil {
				return c, badQuery("%s must be 'true' or 'false'", title(name))
			}
			c.Values = append(c.Values, b)
		default:
			if f.values != nil && !slices.Contains(f.values, v) {
				return c, badQuery("%s must be one of: %s", title(name), strings.Join(quoted(f.values), ", "))
			}
			c.Values = append(c.Values, v)
		}
	}
	return c, nil
}

// timeFilter recognises created_ats, created_ats[gt] and their like.
func timeFilter(name string) (field, op string, ok bool) {
	key, rest, bracket := strings.Cut(name, "[")
	if bracket {
		if op, ok = strings.CutSuffix(rest, "]"); !ok {
			return "", "", false
		}
	}
	switch key {
	case "created_ats":
		return "created_at", op, true
	case "updated_ats":
		return "updated_at", op, true
	}
	return "", "", false
}

// timeConds compares times to the second, which is how the API shows them.
func timeConds(out *list, field, op, name, value string) error {
	var times []time.Time
	for _, v := range splitValues(value) {
		t, err := time.Parse("2006-01-02T15:04:05Z", v)
		if err != nil {
			return badQuery("%s has an invalid timestamp format. Timestamps should be formatted as 'YYYY-MM-DDThh:mm:ssZ'", title(name))
		}
		times = append(times, storable(t))
	}
	add := func(op platform.Op, t time.Time) {
		out.query.Where = append(out.query.Where, platform.Cond{Field: field, Op: op, Values: []any{t}})
	}
	if op != "" && len(times) != 1 {
		return badQuery("only accepts one value when using an inequality filter: '%s'", name)
	}
	next := func(t time.Time) time.Time { return t.Add(time.Second) }
	switch op {
	case "":
		seconds := platform.Cond{Field: field, Op: platform.OpInSeconds}
		for _, t := range times {
			seconds.Values = append(seconds.Values, t)
		}
		out.query.Where = append(out.query.Where, seconds)
	case "gt":
		add(platform.OpGreaterEqual, next(times[0]))
	case "gte":
		add(platform.OpGreaterEqual, times[0])
	case "lt":
		add(platform.OpLess, times[0])
	case "lte":
		add(platform.OpLess, next(times[0]))
	default:
		return badQuery("Invalid relational operator: '%s'", op)
	}
	return nil
}

// storable keeps a time within what nanoseconds in 64 bits can say; everything
// stored lies far within.
func storable(t time.Time) time.Time {
	first, last := time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2260, 1, 1, 0, 0, 0, 0, time.UTC)
	switch {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	}
	return t
}

// page is the body of every list.
type page struct {
	Pagination pagination     `json:"pagination"`
	Resources  any            `json:"resources"`
	Included   map[string]any `json:"included,omitempty"`
}

type pagination struct {
	TotalResults int   `json:"total_results"`
	TotalPages   int   `json:"total_pages"`
	First        *link `json:"first"`
	Last         *link `json:"last"`
	Next         *link `json:"next"`
	Previous     *link `json:"previous"`
}

// write answers with a page. resources must not be nil.
func (l *list) write(w http.ResponseWriter, total int, resources any, included map[string]any) {
	web.WriteJSON(w, http.StatusOK, page{l.pagination(total), resources, included})
}

func (l *list) pagination(total int) pagination {
	pages := max(1, (total+l.query.PerPage-1)/l.query.PerPage)
	p := pagination{TotalResults: total, TotalPages: pages, First: l.pageLink(1), Last: l.pageLink(pages)}
	if l.query.Page < pages {
		p.Next = l.pageLink(l.query.Page + 1)
	}
	if l.query.Page > 1 {
		p.Previous = l.pageLink(l.query.Page - 1)
	}
	return p
}

func (l *list) pageLink(n int) *link {
	q := l.url.Query()
	q.Set("page", strconv.Itoa(n))
	q.Set("per_page", strconv.Itoa(l.query.PerPage))
	return href(l.base, l.url.Path, "?", q.Encode())
}

// presentAll maps a page to its bodies; it is never nil, for clients expect a
// list.
func presentAll[T, B any](items []*T, present func(*T) B) []B {
	out := make([]B, 0, len(items))
	for _, item := range items {
		out = append(out, present(item))
	}
	return out
}
