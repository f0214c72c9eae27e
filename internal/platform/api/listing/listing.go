package listing

import (
	"maps"
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

// Params declares the query parameters of a list. Every list endpoint uses it, so
// that all behave alike: unknown parameters are rejected, an empty value
// means the empty string, several values are separated by commas, and pages have
// links.
type Params struct {
	Filters Filters
	// Orders are the fields of order_by besides created_at and updated_at.
	Orders []string
	// DefaultOrder is the field to order by without order_by; empty means by
	// creation.
	DefaultOrder string
	// Includes are the values of include; Fields are the keys of fields[…].
	Includes []string
	Fields   []string
	// Embeds are the values of embed, which the endpoint reads itself.
	Embeds []string
	// Extra are parameters that the endpoint reads itself.
	Extra []string
	// NoLabels rejects label_selector, for resources without metadata.
	NoLabels bool
	// Single is for a single resource instead of a list, without filters. As in Cloud
	// Controller, a resource that includes and embeds nothing ignores parameters.
	Single bool
}

// Filters are the parameters that select by a field, by name.
type Filters map[string]Filter

// Filter defines how a parameter becomes a condition.
type Filter struct {
	field string
	kind  kind
	// values are the only ones allowed, if set.
	values []string
}

type kind int

const (
	texts kind = iota // comma separated
	numbers
	flag // true or false
)

// Text selects by any of several values of a field.
func Text(field string) Filter { return Filter{field: field} }

// Word is like Text, for a field that has only these values.
func Word(field string, values ...string) Filter { return Filter{field: field, values: values} }

// Number is like Text, for integers.
func Number(field string) Filter { return Filter{field: field, kind: numbers} }

// Flag selects by true or false.
func Flag(field string) Filter { return Filter{field: field, kind: flag} }

// Request is a parsed request for a page of a list.
type Request struct {
	Query   platform.Query
	Include []string
	Fields  map[string][]string
	url     *url.URL
	base    string
}

// Limits of a page.
const (
	defaultPerPage = 50
	maxPerPage     = 5000
)

// BadQuery returns the error for an invalid query parameter.
func BadQuery(format string, args ...any) error {
	return fault.New(fault.BadQuery, "The query parameter is invalid: "+format, args...)
}

// Parse reads the query of a request. base is the origin of the links to other
// pages.
func (l Params) Parse(r *http.Request, base string) (*Request, error) {
	out := &Request{Query: platform.Query{Page: 1, PerPage: defaultPerPage, Order: l.DefaultOrder},
		Fields: map[string][]string{}, url: r.URL, base: base}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, BadQuery("the query string cannot be read")
	}
	if l.Single && len(l.Includes)+len(l.Fields)+len(l.Embeds) == 0 {
		return out, nil
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) > 1 {
			return nil, BadQuery("'%s' is given more than once", name)
		}
		if err := l.parseOne(out, name, values[name][0]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (l Params) parseOne(out *Request, name, value string) error {
	if slices.Contains(l.Extra, name) {
		return nil
	}
	if name == "include" {
		return l.include(out, value)
	}
	if name == "embed" && len(l.Embeds) > 0 {
		for _, v := range SplitValues(value) {
			if !slices.Contains(l.Embeds, v) {
				return BadQuery("Invalid embedded resource: '%s'. Valid embedded resources are: %s", v,
					strings.Join(quoted(l.Embeds), ", "))
			}
		}
		return nil
	}
	if key, ok := strings.CutPrefix(name, "fields["); ok && strings.HasSuffix(key, "]") &&
		slices.Contains(l.Fields, strings.TrimSuffix(key, "]")) {
		out.Fields[strings.TrimSuffix(key, "]")] = SplitValues(value)
		return nil
	}
	if l.Single {
		return l.unknown(name)
	}
	if f, ok := l.Filters[name]; ok {
		c, err := f.cond(name, value)
		if err != nil {
			return err
		}
		out.Query.Where = append(out.Query.Where, c)
		return nil
	}
	switch name {
	case "page":
		return parseCount(name, value, math.MaxInt32, &out.Query.Page)
	case "per_page":
		return parseCount(name, value, maxPerPage, &out.Query.PerPage)
	case "order_by":
		return l.order(out, value)
	case "guids":
		out.Query.Where = append(out.Query.Where, platform.InStrings("guid", SplitValues(value)))
		return nil
	case "label_selector":
		if l.NoLabels {
			break
		}
		var err error
		out.Query.Labels, err = parseSelector(value)
		return err
	}
	if key, op, ok := timeFilter(name); ok {
		return timeConds(out, key, op, name, value)
	}
	return l.unknown(name)
}

func (l Params) unknown(name string) error {
	return BadQuery("Unknown query parameter(s): '%s'. Valid parameters are: %s", name, l.known())
}

// known lists the parameters, for the error message.
func (l Params) known() string {
	var names []string
	if !l.Single {
		names = append(names, "page", "per_page", "order_by", "guids", "created_ats", "updated_ats")
	}
	if !l.Single && !l.NoLabels {
		names = append(names, "label_selector")
	}
	for name := range l.Filters {
		names = append(names, name)
	}
	if len(l.Includes) > 0 {
		names = append(names, "include")
	}
	if len(l.Embeds) > 0 {
		names = append(names, "embed")
	}
	for _, f := range l.Fields {
		names = append(names, "fields["+f+"]")
	}
	names = append(names, l.Extra...)
	slices.Sort(names)
	return "'" + strings.Join(slices.Compact(names), "', '") + "'"
}

func parseCount(name, value string, most int, dest *int) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return BadQuery("%s must be a positive integer", title(name))
	}
	if n > most {
		return BadQuery("%s must be between 1 and %d", title(name), most)
	}
	*dest = n
	return nil
}

func title(name string) string {
	return strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "_", " ")
}

func (l Params) order(out *Request, value string) error {
	field, desc := strings.CutPrefix(value, "-")
	field, _ = strings.CutPrefix(field, "+")
	if field != "created_at" && field != "updated_at" && !slices.Contains(l.Orders, field) {
		return BadQuery("Order by can only be: %s",
			strings.Join(append([]string{"'created_at'", "'updated_at'"}, quoted(l.Orders)...), ", "))
	}
	out.Query.Order, out.Query.Desc = field, desc
	return nil
}

func quoted(words []string) []string {
	out := make([]string, 0, len(words))
	for _, w := range words {
		out = append(out, "'"+w+"'")
	}
	return out
}

func (l Params) include(out *Request, value string) error {
	for _, v := range SplitValues(value) {
		if !slices.Contains(l.Includes, v) {
			if len(l.Includes) == 0 {
				return l.unknown("include")
			}
			return BadQuery("Invalid included resource: '%s'. Valid included resources are: %s", v,
				strings.Join(quoted(l.Includes), ", "))
		}
		out.Include = append(out.Include, v)
	}
	return nil
}

// SplitValues splits at commas. A comma that belongs to a value arrives
// percent-encoded once more inside it.
func SplitValues(value string) []string {
	parts := strings.Split(value, ",")
	for i, p := range parts {
		if decoded, err := url.PathUnescape(p); err == nil {
			parts[i] = decoded
		}
	}
	return parts
}

func (f Filter) cond(name, value string) (platform.Cond, error) {
	c := platform.Cond{Field: f.field}
	for _, v := range SplitValues(value) {
		switch f.kind {
		case numbers:
			n, err := strconv.Atoi(v)
			if err != nil {
				return c, BadQuery("%s must be numbers, not '%s'", title(name), v)
			}
			c.Values = append(c.Values, n)
		case flag:
			b, err := strconv.ParseBool(v)
			if err != nil {
				return c, BadQuery("%s must be 'true' or 'false'", title(name))
			}
			c.Values = append(c.Values, b)
		default:
			if f.values != nil && !slices.Contains(f.values, v) {
				return c, BadQuery("%s must be one of: %s", title(name), strings.Join(quoted(f.values), ", "))
			}
			c.Values = append(c.Values, v)
		}
	}
	return c, nil
}

// timeFilter parses names such as created_ats and created_ats[gt].
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
func timeConds(out *Request, field, op, name, value string) error {
	var times []time.Time
	for _, v := range SplitValues(value) {
		t, err := time.Parse("2006-01-02T15:04:05Z", v)
		if err != nil {
			return BadQuery("%s has an invalid timestamp format. Timestamps should be formatted as 'YYYY-MM-DDThh:mm:ssZ'",
				title(name))
		}
		times = append(times, storable(t))
	}
	add := func(op platform.Op, t time.Time) {
		out.Query.Where = append(out.Query.Where, platform.Cond{Field: field, Op: op, Values: []any{t}})
	}
	if op != "" && len(times) != 1 {
		return BadQuery("only accepts one value when using an inequality filter: '%s'", name)
	}
	next := func(t time.Time) time.Time { return t.Add(time.Second) }
	switch op {
	case "":
		seconds := platform.Cond{Field: field, Op: platform.OpInSeconds}
		for _, t := range times {
			seconds.Values = append(seconds.Values, t)
		}
		out.Query.Where = append(out.Query.Where, seconds)
	case "gt":
		add(platform.OpGreaterEqual, next(times[0]))
	case "gte":
		add(platform.OpGreaterEqual, times[0])
	case "lt":
		add(platform.OpLess, times[0])
	case "lte":
		add(platform.OpLess, next(times[0]))
	default:
		return BadQuery("Invalid relational operator: '%s'", op)
	}
	return nil
}

// storable limits a time to what 64 bits of nanoseconds can represent; stored times
// are far within.
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
	Pagination Pagination     `json:"pagination"`
	Resources  any            `json:"resources"`
	Included   map[string]any `json:"included,omitempty"`
}

type link struct {
	Href string `json:"href"`
}

// Pagination describes the position of a page.
type Pagination struct {
	TotalResults int   `json:"total_results"`
	TotalPages   int   `json:"total_pages"`
	First        *link `json:"first"`
	Last         *link `json:"last"`
	Next         *link `json:"next"`
	Previous     *link `json:"previous"`
}

// Write responds with a page. resources must not be nil.
func (l *Request) Write(w http.ResponseWriter, total int, resources any, included map[string]any) {
	web.WriteJSON(w, http.StatusOK, page{l.pagination(total), resources, included})
}

func (l *Request) pagination(total int) Pagination {
	pages := max(1, (total+l.Query.PerPage-1)/l.Query.PerPage)
	p := Pagination{TotalResults: total, TotalPages: pages, First: l.pageLink(1), Last: l.pageLink(pages)}
	if l.Query.Page < pages {
		p.Next = l.pageLink(l.Query.Page + 1)
	}
	if l.Query.Page > 1 {
		p.Previous = l.pageLink(l.Query.Page - 1)
	}
	return p
}

func (l *Request) pageLink(n int) *link {
	q := l.url.Query()
	q.Set("page", strconv.Itoa(n))
	q.Set("per_page", strconv.Itoa(l.Query.PerPage))
	return &link{l.base + l.url.Path + "?" + q.Encode()}
}
