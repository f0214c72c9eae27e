package platformdb

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"ingot/internal/base/db"
	"ingot/internal/platform"
)

// statement is SQL with its arguments. Queries that differ only in values have
// the same text, so that what was prepared for one serves the next.
type statement struct {
	sql  string
	args []any
}

// selection is a SELECT of the rows that q selects and that are seen in a scope, in the order of q.
func (t *table[T]) selection(d db.Dialect, columns string, q platform.Query, in scope) (statement, error) {
	if len(q.Only) > 0 && len(q.Only) != strings.Count(columns, ",")+1 {
		return statement{}, fmt.Errorf("%s lack a column of %q", t.plural, q.Only)
	}
	s, err := t.matches(d, q, in)
	if err != nil {
		return s, err
	}
	order, err := t.order(q)
	if err != nil {
		return s, err
	}
	from := " FROM " + t.name + " AS t"
	switch {
	case q.PerPage > 0 && q.Reader != nil:
		// What a reader sees is found through the reader's roles, in no order that an
		// index has. So the guids of the page are found first, from indexes
		// alone, and whole rows are read for those only.
		s.sql = "SELECT " + columns + from + " WHERE t.guid IN (SELECT t.guid" + from + s.sql + order +
			" LIMIT ? OFFSET ?)" + order
		s.args = append(s.args, q.PerPage, skipped(q))
	case q.PerPage > 0:
		s.sql = "SELECT " + columns + from + s.sql + order + " LIMIT ? OFFSET ?"
		s.args = append(s.args, q.PerPage, skipped(q))
	default:
		s.sql = "SELECT " + columns + from + s.sql + order
	}
	return s, nil
}

// columnsFor are those that q reads, and their names.
func (t *table[T]) columnsFor(q platform.Query) (columns []column[T], list string) {
	switch {
	case q.Only != nil:
		var names []string
		for _, c := range t.read {
			if slices.Contains(q.Only, c.name) {
				columns, names = append(columns, c), append(names, "t."+c.name)
			}
		}
		return columns, strings.Join(names, ", ")
	case q.WithoutSecrets:
		return t.read, t.bare
	}
	return t.read, t.list
}

// skipped is how many rows come before the page.
func skipped(q platform.Query) int {
	before := max(q.Page, 1) - 1
	if q.PerPage <= 0 {
		return 0
	}
	if before > math.MaxInt/q.PerPage {
		return math.MaxInt
	}
	return before * q.PerPage
}

// order is the ORDER BY clause. The guid makes it total, so that pages neither
// overlap nor leave gaps.
func (t *table[T]) order(q platform.Query) (string, error) {
	if q.Only != nil && q.PerPage <= 0 {
		return "", nil
	}
	name, direction := q.Order, ""
	name = cmp.Or(name, "created_at")
	f, err := t.field(name)
	if err != nil {
		return "", err
	}
	if f.unordered {
		return "", fmt.Errorf("%s cannot be ordered by %q", t.plural, name)
	}
	if q.Desc {
		direction = " DESC"
	}
	if name == "guid" {
		return " ORDER BY t.guid" + direction, nil
	}
	return " ORDER BY " + f.sql + direction + ", t.guid" + direction, nil
}

// matches is the WHERE clause for t, or nothing.
func (t *table[T]) matches(d db.Dialect, q platform.Query, in scope) (statement, error) {
	var all []string
	var s statement
	add := func(condition string, args ...any) {
		all = append(all, condition)
		s.args = append(s.args, args...)
	}
	for _, c := range q.Where {
		f, err := t.field(c.Field)
		if err != nil {
			return s, err
		}
		if through, ok := ofApp[c.Field]; ok && in.byApp {
			f = through
		}
		condition, args, err := f.condition(d, c)
		if err != nil {
			return s, fmt.Errorf("%s: field %q: %w", t.plural, c.Field, err)
		}
		add(condition, args...)
	}
	if len(q.Labels) > 0 && t.meta == nil {
		return s, fmt.Errorf("%s have no labels", t.plural)
	}
	for _, l := range q.Labels {
		condition, args, err := t.label(d, l)
		if err != nil {
			return s, err
		}
		add(condition, args...)
	}
	if in.seen.sql != "" {
		add("("+in.seen.sql+")", in.seen.args...)
	}
	if len(all) > 0 {
		s.sql = " WHERE " + strings.Join(all, " AND ")
	}
	return s, nil
}

const (
	always = "1 = 1"
	never  = "1 = 0"
)

// label is one requirement. What lacks the label matches LabelAbsent and
// LabelNotIn.
func (t *table[T]) label(d db.Dialect, l platform.LabelRequirement) (string, []any, error) {
	const (
		has   = "t.guid IN (SELECT l.resource_guid FROM platform_labels l WHERE l.resource_type = '%s' AND l.name = ?%s)"
		lacks = "NOT EXISTS (SELECT 1 FROM platform_labels l WHERE l.resource_type = '%s' AND l.resource_guid = t.guid AND " +
			"l.name = ?%s)"
	)
	form, values := has, ""
	args := []any{l.Key}
	if l.Op == platform.LabelAbsent || l.Op == platform.LabelNotIn {
		form = lacks
	}
	wanted := !storable(l.Key) // a label that cannot be
	switch l.Op {
	case platform.LabelExists, platform.LabelAbsent:
	case platform.LabelIn, platform.LabelNotIn:
		var some []any
		for _, v := range l.Values {
			if storable(v) {
				some = append(some, v)
			}
		}
		wanted = wanted || len(some) == 0
		if !wanted {
			in, more := oneOf(d, exact, some)
			values, args = " AND l.value"+in, append(args, more...)
		}
	default:
		return "", nil, fmt.Errorf("label %q: unknown comparison %d", l.Key, l.Op)
	}
	if wanted {
		if form == has {
			return never, nil, nil
		}
		return always, nil, nil
	}
	return fmt.Sprintf(form, t.plural, values), args, nil
}

// condition compiles c, which is about this field.
func (f field) condition(d db.Dialect, c platform.Cond) (string, []any, error) {
	switch c.Op {
	case platform.OpIn, platform.OpNotIn:
		condition, args, err := f.in(d, c.Values)
		if c.Op == platform.OpNotIn {
			condition = "NOT (" + condition + ")"
		}
		return condition, args, err
	case platform.OpNull, platform.OpNotNull:
		if len(c.Values) > 0 {
			return "", nil, fmt.Errorf("this comparison takes no values")
		}
		condition := f.wrap(map[kind]string{exact: f.sql + " <> ''", folded: f.sql + " <> ''",
			number: f.sql + " <> 0", instant: f.sql + " <> 0", boolean: f.sql}[f.kind])
		if c.Op == platform.OpNull {
			condition = "NOT (" + condition + ")"
		}
		return condition, nil, nil
	case platform.OpInSeconds:
		return f.inSeconds(d, c.Values)
	}
	sign, ok := map[platform.Op]string{platform.OpLess: " < ?", platform.OpLessEqual: " <= ?", platform.OpGreater: " > ?",
		platform.OpGreaterEqual: " >= ?"}[c.Op]
	switch {
	case !ok:
		return "", nil, fmt.Errorf("unknown comparison %d", c.Op)
	case f.kind == boolean:
		return "", nil, fmt.Errorf("a boolean is neither less nor greater")
	case len(c.Values) != 1:
		return "", nil, fmt.Errorf("this comparison takes one value, not %d", len(c.Values))
	}
	v, possible, err := f.kind.value(c.Values[0])
	if err != nil || !possible {
		return never, nil, err
	}
	return f.wrap(f.sql + sign), f.repeat([]any{v}), nil
}

// in matches any of values.
func (f field) in(d db.Dialect, values []any) (string, []any, error) {
	wanted := make([]any, 0, len(values))
	for _, v := range values {
		v, possible, err := f.kind.value(v)
		if err != nil {
			return "", nil, err
		}
		if possible {
			wanted = append(wanted, v)
		}
	}
	if len(wanted) == 0 {
		return never, nil, nil
	}
	if f.kind != boolean {
		in, args := oneOf(d, f.kind, wanted)
		return f.wrap(f.sql + in), f.repeat(args), nil
	}
	// A plain condition, not a comparison, so that indexes can be used.
	for _, v := range wanted {
		if v != wanted[0] {
			return always, nil, nil
		}
	}
	if wanted[0] == true {
		return f.wrap(f.sql), nil, nil
	}
	return f.wrap("NOT " + f.sql), nil, nil
}

// inSeconds matches times within any of the seconds that begin at values. From
// the first to the last of them an index finds the rows.
func (f field) inSeconds(d db.Dialect, values []any) (string, []any, error) {
	if f.kind != instant {
		return "", nil, fmt.Errorf("only times lie within seconds")
	}
	if len(values) == 0 {
		return never, nil, nil
	}
	begins := make([]any, len(values))
	var first, last int64
	for i, v := range values {
		v, _, err := f.kind.value(v)
		if err != nil {
			return "", nil, err
		}
		begin := v.(int64)
		begin -= begin % int64(time.Second)
		if i == 0 {
			first, last = begin, begin
		}
		begins[i], first, last = begin, min(first, begin), max(last, begin)
	}
	in, args := oneOf(d, f.kind, begins)
	condition := fmt.Sprintf("%[1]s >= ? AND %[1]s < ? AND %[1]s - %[1]s %% %[2]d%[3]s", f.sql, int64(time.Second), in)
	return f.wrap(condition), f.repeat(append([]any{first, last + int64(time.Second)}, args...)), nil
}

func (f field) wrap(comparison string) string {
	if f.within == "" {
		return comparison
	}
	return strings.ReplaceAll(f.within, "{}", comparison)
}

// repeat gives every {} its arguments.
func (f field) repeat(args []any) []any {
	all := args
	for range strings.Count(f.within, "{}") - 1 {
		all = append(all[:len(all):len(all)], args...)
	}
	return all
}

// value turns what a query gives into what a column holds. It is not possible
// when no row can have it.
func (k kind) value(v any) (_ any, possible bool, _ error) {
	switch k {
	case exact, folded:
		s, ok := v.(string)
		if !ok {
			r := reflect.ValueOf(v)
			if r.Kind() != reflect.String {
				return nil, false, fmt.Errorf("it takes text, not %T", v)
			}
			s = r.String()
		}
		possible = storable(s)
		if k == folded {
			s = db.Lower(s)
		}
		return s, possible, nil
	case number:
		if n, ok := v.(int); ok {
			return int64(n), true, nil
		}
		switch r := reflect.ValueOf(v); {
		case r.IsValid() && r.CanInt():
			return r.Int(), true, nil
		case r.IsValid() && r.CanUint():
			return int64(r.Uint()), true, nil
		}
		return nil, false, fmt.Errorf("it takes a whole number, not %T", v)
	case instant:
		if at, ok := v.(time.Time); ok {
			return db.Nanos(at), true, nil
		}
		return nil, false, fmt.Errorf("it takes a time.Time, not %T", v)
	case boolean:
		if b, ok := v.(bool); ok {
			return b, true, nil
		}
		return nil, false, fmt.Errorf("it takes a bool, not %T", v)
	}
	return nil, false, fmt.Errorf("the field cannot be queried")
}

// maxMarks bounds the placeholders of one list. It is a power of two.
const maxMarks = 256

// oneOf compares with a list that is not empty. Lists of similar length have
// the same text: they are filled up to the next power of two with their last
// value. Long lists are one argument.
func oneOf(d db.Dialect, k kind, values []any) (string, []any) {
	switch n := len(values); {
	case n == 1:
		return " = ?", values
	case n <= maxMarks:
		size := 1 << bits.Len(uint(n-1))
		args := make([]any, size)
		for i := range args {
			args[i] = values[min(i, n-1)]
		}
		return " IN (" + marks(size) + ")", args
	}
	list, err := json.Marshal(values)
	if err != nil {
		panic(err) // they are texts and numbers
	}
	switch {
	case d == db.SQLite:
		return " IN (SELECT value FROM json_each(?))", []any{string(list)}
	case k == exact || k == folded:
		return " IN (SELECT json_array_elements_text(CAST(? AS json)))", []any{string(list)}
	}
	return " IN (SELECT CAST(json_array_elements_text(CAST(? AS json)) AS BIGINT))", []any{string(list)}
}

// storable reports whether a database can hold a text. No row has one that it
// cannot.
func storable(s string) bool { return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) }
