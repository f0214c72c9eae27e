package storetest

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/cf"
)

// testFields asks for every field of every noun: by value, by its absence, and
// in order.
func testFields(k *kit) {
	checkFields(k, "Organization", organizations, fields[cf.Organization]{
		"name":       func(o *cf.Organization) any { return o.Name },
		"suspended":  func(o *cf.Organization) any { return o.Suspended },
		"quota_guid": func(o *cf.Organization) any { return o.QuotaGUID },
	})
	checkFields(k, "Space", spaces, fields[cf.Space]{
		"name":              func(s *cf.Space) any { return s.Name },
		"organization_guid": func(s *cf.Space) any { return s.OrgGUID },
		"quota_guid":        func(s *cf.Space) any { return s.QuotaGUID },
	})
	checkFields(k, "OrganizationQuota", orgQuotas, fields[cf.OrganizationQuota]{
		"name": func(q *cf.OrganizationQuota) any { return q.Name },
	})
	checkFields(k, "SpaceQuota", spaceQuotas, fields[cf.SpaceQuota]{
		"name":              func(q *cf.SpaceQuota) any { return q.Name },
		"organization_guid": func(q *cf.SpaceQuota) any { return q.OrgGUID },
	})
	checkFields(k, "User", users, fields[cf.User]{})
	checkFields(k, "Role", roles, fields[cf.Role]{
		"type":              func(r *cf.Role) any { return r.Type },
		"user_guid":         func(r *cf.Role) any { return r.UserGUID },
		"organization_guid": func(r *cf.Role) any { return r.OrgGUID },
		"space_guid":        func(r *cf.Role) any { return r.SpaceGUID },
	})
	checkFields(k, "Domain", domains, fields[cf.Domain]{
		"name":              func(d *cf.Domain) any { return d.Name },
		"internal":          func(d *cf.Domain) any { return d.Internal },
		"organization_guid": func(d *cf.Domain) any { return d.OrgGUID },
	})
	checkFields(k, "Route", routes, fields[cf.Route]{
		"space_guid":  func(r *cf.Route) any { return r.SpaceGUID },
		"domain_guid": func(r *cf.Route) any { return r.DomainGUID },
		"host":        func(r *cf.Route) any { return r.Host },
		"path":        func(r *cf.Route) any { return r.Path },
		"port":        func(r *cf.Route) any { return r.Port },
	})
	checkFields(k, "Destination", destinations, fields[cf.Destination]{
		"route_guid":   func(d *cf.Destination) any { return d.RouteGUID },
		"app_guid":     func(d *cf.Destination) any { return d.AppGUID },
		"process_type": func(d *cf.Destination) any { return d.ProcessType },
		"port":         func(d *cf.Destination) any { return d.Port },
	})
	checkFields(k, "App", apps, fields[cf.App]{
		"name":           func(a *cf.App) any { return a.Name },
		"space_guid":     func(a *cf.App) any { return a.SpaceGUID },
		"state":          func(a *cf.App) any { return a.State },
		"lifecycle_type": func(a *cf.App) any { return a.Lifecycle.Type },
		"stack":          func(a *cf.App) any { return a.Lifecycle.Stack },
		"droplet_guid":   func(a *cf.App) any { return a.DropletGUID },
	})
	checkFields(k, "Process", processes, fields[cf.Process]{
		"app_guid":     func(p *cf.Process) any { return p.AppGUID },
		"type":         func(p *cf.Process) any { return p.Type },
		"version":      func(p *cf.Process) any { return p.Version },
		"droplet_guid": func(p *cf.Process) any { return p.DropletGUID },
	})
	checkFields(k, "Sidecar", sidecars, fields[cf.Sidecar]{
		"app_guid": func(s *cf.Sidecar) any { return s.AppGUID },
		"name":     func(s *cf.Sidecar) any { return s.Name },
		"origin":   func(s *cf.Sidecar) any { return s.Origin },
	})
	checkFields(k, "Package", packages, fields[cf.Package]{
		"app_guid": func(p *cf.Package) any { return p.AppGUID },
		"type":     func(p *cf.Package) any { return p.Type },
		"state":    func(p *cf.Package) any { return p.State },
	})
	checkFields(k, "Build", builds, fields[cf.Build]{
		"app_guid":     func(b *cf.Build) any { return b.AppGUID },
		"package_guid": func(b *cf.Build) any { return b.PackageGUID },
		"droplet_guid": func(b *cf.Build) any { return b.DropletGUID },
		"state":        func(b *cf.Build) any { return b.State },
	})
	checkFields(k, "Droplet", droplets, fields[cf.Droplet]{
		"app_guid":     func(d *cf.Droplet) any { return d.AppGUID },
		"package_guid": func(d *cf.Droplet) any { return d.PackageGUID },
		"build_guid":   func(d *cf.Droplet) any { return d.BuildGUID },
		"state":        func(d *cf.Droplet) any { return d.State },
		"checksum":     func(d *cf.Droplet) any { return d.Checksum },
	})
	checkFields(k, "Deployment", deployments, fields[cf.Deployment]{
		"app_guid":     func(d *cf.Deployment) any { return d.AppGUID },
		"status":       func(d *cf.Deployment) any { return d.Status },
		"reason":       func(d *cf.Deployment) any { return d.Reason },
		"droplet_guid": func(d *cf.Deployment) any { return d.DropletGUID },
	})
	checkFields(k, "Task", tasks, fields[cf.Task]{
		"app_guid":     func(t *cf.Task) any { return t.AppGUID },
		"sequence_id":  func(t *cf.Task) any { return t.Sequence },
		"name":         func(t *cf.Task) any { return t.Name },
		"state":        func(t *cf.Task) any { return t.State },
		"droplet_guid": func(t *cf.Task) any { return t.DropletGUID },
	})
	checkFields(k, "Instance", instances, fields[cf.Instance]{
		"app_guid":     func(i *cf.Instance) any { return i.AppGUID },
		"process_guid": func(i *cf.Instance) any { return i.ProcessGUID },
		"index":        func(i *cf.Instance) any { return i.Index },
		"version":      func(i *cf.Instance) any { return i.Version },
		"state":        func(i *cf.Instance) any { return i.State },
		"restart_at":   func(i *cf.Instance) any { return i.RestartAt },
	})
	checkFields(k, "Buildpack", buildpacks, fields[cf.Buildpack]{
		"name":      func(b *cf.Buildpack) any { return b.Name },
		"stack":     func(b *cf.Buildpack) any { return b.Stack },
		"position":  func(b *cf.Buildpack) any { return b.Position },
		"enabled":   func(b *cf.Buildpack) any { return b.Enabled },
		"lifecycle": func(b *cf.Buildpack) any { return b.Lifecycle },
		"state":     func(b *cf.Buildpack) any { return b.State },
	})
	checkFields(k, "Stack", stacks, fields[cf.Stack]{
		"name":    func(s *cf.Stack) any { return s.Name },
		"default": func(s *cf.Stack) any { return s.Default },
	})
	checkFields(k, "AuditEvent", auditEvents, fields[cf.AuditEvent]{
		"type":              func(e *cf.AuditEvent) any { return e.Type },
		"actor_guid":        func(e *cf.AuditEvent) any { return e.ActorGUID },
		"target_guid":       func(e *cf.AuditEvent) any { return e.TargetGUID },
		"space_guid":        func(e *cf.AuditEvent) any { return e.SpaceGUID },
		"organization_guid": func(e *cf.AuditEvent) any { return e.OrgGUID },
	})
	checkFields(k, "Job", jobs, fields[cf.Job]{
		"operation":     func(j *cf.Job) any { return j.Operation },
		"state":         func(j *cf.Job) any { return j.State },
		"resource_guid": func(j *cf.Job) any { return j.ResourceGUID },
		"lease":         func(j *cf.Job) any { return j.Lease },
		"due":           func(j *cf.Job) any { return j.Due },
		"worker":        func(j *cf.Job) any { return j.Worker },
	})
	checkServiceFields(k)
}

// fields are how to read from a T what a query calls by name.
type fields[T any] map[string]func(*T) any

func checkFields[T any](k *kit, name string, n noun[T], all fields[T]) {
	k.Run(name, func(t *testing.T) { //nolint:paralleltest // they share one store
		k := k.sub(t)
		all["guid"] = func(row *T) any { return n.base(row).GUID }
		all["created_at"] = func(row *T) any { return n.base(row).Created }
		all["updated_at"] = func(row *T) any { return n.base(row).Updated }
		// The second has nothing but what every row has.
		empty := new(T)
		n.base(empty).GUID, n.base(empty).Created, n.base(empty).Updated = "empty", moment, moment
		rows := []*T{filled[T](1), empty, filled[T](3)}
		n.insert(k, rows...)
		k.within(func(k *kit) {
			for field, read := range all {
				checkField(k, n, field, read, rows)
			}
		})
		k.update(func(tx cf.Tx) error { _, err := n.repo(tx).DeleteAll(cf.Query{}); return err })
	})
}

func checkField[T any](k *kit, n noun[T], field string, read func(*T) any, rows []*T) {
	k.Helper()
	matching := func(match func(row *T) bool) (guids []string) {
		for _, row := range rows {
			if match(row) {
				guids = append(guids, n.base(row).GUID)
			}
		}
		return guids
	}
	for _, row := range rows {
		value := read(row)
		equal := matching(func(r *T) bool { return compare(read(r), value) == 0 })
		n.expect(k, cf.Where(field, value), field+" in", equal...)
		n.expect(k, cf.Where(field, value, value, value), field+" in thrice", equal...)
		n.expect(k, cf.Query{Where: []cf.Cond{{Field: field, Op: cf.OpNotIn, Values: []any{value}}}}, field+" not in",
			matching(func(r *T) bool { return compare(read(r), value) != 0 })...)
		if _, isBool := value.(bool); isBool {
			continue
		}
		for op, match := range map[cf.Op]func(int) bool{
			cf.OpLess:         func(c int) bool { return c < 0 },
			cf.OpLessEqual:    func(c int) bool { return c <= 0 },
			cf.OpGreater:      func(c int) bool { return c > 0 },
			cf.OpGreaterEqual: func(c int) bool { return c >= 0 },
		} {
			n.expect(k, cf.Query{Where: []cf.Cond{{Field: field, Op: op, Values: []any{value}}}}, field+" compared",
				matching(func(r *T) bool { return match(compare(read(r), value)) })...)
		}
	}
	zero := func(r *T) bool { return reflect.ValueOf(read(r)).IsZero() }
	n.expect(k, cf.Query{Where: []cf.Cond{{Field: field, Op: cf.OpNull}}}, field+" null", matching(zero)...)
	n.expect(k, cf.Query{Where: []cf.Cond{{Field: field, Op: cf.OpNotNull}}}, field+" not null",
		matching(func(r *T) bool { return !zero(r) })...)

	ordered := slices.Clone(rows)
	slices.SortFunc(ordered, func(a, b *T) int {
		return cmp.Or(compare(read(a), read(b)), strings.Compare(n.base(a).GUID, n.base(b).GUID))
	})
	for _, desc := range []bool{false, true} {
		var want []string
		for _, row := range ordered {
			want = append(want, n.base(row).GUID)
		}
		if got := n.guids(k, cf.Query{Order: field, Desc: desc}); !slices.Equal(got, want) {
			k.Errorf("ordered by %s (%v): %v, want %v", field, desc, got, want)
		}
		slices.Reverse(ordered)
	}
}

// compare orders two values of one field. Text that filled makes has the same
// order with and without regard to case.
func compare(a, b any) int {
	if x, ok := a.(time.Time); ok {
		return x.Compare(b.(time.Time))
	}
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	switch x.Kind() {
	case reflect.String:
		return strings.Compare(x.String(), y.String())
	case reflect.Bool:
		return cmp.Compare(reflect.ValueOf(map[bool]int{true: 1}[x.Bool()]).Int(), reflect.ValueOf(map[bool]int{true: 1}[y.Bool()]).Int())
	default:
		return cmp.Compare(x.Int(), y.Int())
	}
}

// testTimes sees that times are compared to the nanosecond, and that one that
// is not set is before all others.
func testTimes(k *kit) {
	jobs.insert(k,
		&cf.Job{Resource: cf.Resource{GUID: "never"}},
		&cf.Job{Resource: cf.Resource{GUID: "at"}, Due: moment},
		&cf.Job{Resource: cf.Resource{GUID: "after"}, Due: moment.Add(1)},
	)
	elsewhere := moment.In(time.FixedZone("elsewhere", 7200))
	jobs.expect(k, cf.Where("due", elsewhere), "another zone", "at")
	jobs.expect(k, cf.Where("due", time.Time{}), "none", "never")
	jobs.expect(k, cf.Query{Where: []cf.Cond{{Field: "due", Op: cf.OpLessEqual, Values: []any{moment}}}}, "due", "never", "at")
	jobs.expect(k, cf.Query{Where: []cf.Cond{
		{Field: "due", Op: cf.OpGreaterEqual, Values: []any{moment}},
		{Field: "due", Op: cf.OpLess, Values: []any{moment.Add(1)}},
	}}, "a range", "at")

	jobs.insert(k,
		&cf.Job{Resource: cf.Resource{GUID: "before"}, Due: moment.Truncate(time.Second).Add(-1)},
		&cf.Job{Resource: cf.Resource{GUID: "next"}, Due: moment.Truncate(time.Second).Add(time.Second)},
		&cf.Job{Resource: cf.Resource{GUID: "later"}, Due: moment.Add(time.Hour)})
	seconds := func(what string, times []time.Time, want ...string) {
		c := cf.Cond{Field: "due", Op: cf.OpInSeconds}
		for _, t := range times {
			c.Values = append(c.Values, t)
		}
		jobs.expect(k, cf.Query{Where: []cf.Cond{c}}, what, want...)
	}
	second := moment.Truncate(time.Second)
	seconds("no second", nil)
	seconds("one second", []time.Time{second}, "at", "after")
	seconds("seconds, not what lies between", []time.Time{moment.Add(time.Hour), second.Add(-time.Second)}, "later", "before")
	var many []time.Time
	for i := range 1000 {
		many = append(many, second.Add(time.Duration(i)*time.Second))
	}
	seconds("many seconds", many, "at", "after", "next")
}

// testConditions sees what lists of values and several conditions mean.
func testConditions(k *kit) {
	apps.insert(k,
		&cf.App{Resource: cf.Resource{GUID: "1"}, Name: "a", SpaceGUID: "x", State: cf.AppStarted},
		&cf.App{Resource: cf.Resource{GUID: "2"}, Name: "b", SpaceGUID: "x", State: cf.AppStopped},
		&cf.App{Resource: cf.Resource{GUID: "3"}, Name: "a", SpaceGUID: "y", State: cf.AppStopped},
		&cf.App{Resource: cf.Resource{GUID: "4"}, Name: "", SpaceGUID: "", State: cf.AppStopped},
	)
	for _, test := range []struct {
		what string
		q    cf.Query
		want []string
	}{
		{"all", cf.Query{}, []string{"1", "2", "3", "4"}},
		{"several values", cf.Where("name", "a", "b", "c"), []string{"1", "2", "3"}},
		{"no values", cf.Where("name"), nil},
		{"an empty value", cf.Where("name", ""), []string{"4"}},
		{"an empty value among others", cf.Where("name", "", "b"), []string{"2", "4"}},
		{"strings", cf.Query{Where: []cf.Cond{cf.InStrings("guid", []string{"1", "4", "none"})}}, []string{"1", "4"}},
		{"no strings", cf.Query{Where: []cf.Cond{cf.InStrings("guid", nil)}}, nil},
		{"both", cf.Where("name", "a").And(cf.In("space_guid", "y")), []string{"3"}},
		{"contradiction", cf.Where("name", "a").And(cf.In("name", "b")), nil},
		{"not in nothing", cf.Query{Where: []cf.Cond{{Field: "name", Op: cf.OpNotIn}}}, []string{"1", "2", "3", "4"}},
		{"not in", cf.Query{Where: []cf.Cond{{Field: "name", Op: cf.OpNotIn, Values: []any{"a", ""}}}}, []string{"2"}},
		{"typed", cf.Where("state", cf.AppStarted), []string{"1"}},
		{"plain", cf.Where("state", "STARTED"), []string{"1"}},
		{"impossible", cf.Where("name", "a\x00b", "\xff"), nil},
		{"impossible among others", cf.Where("name", "a\x00b", "b"), []string{"2"}},
		{"less than the impossible", cf.Query{Where: []cf.Cond{{Field: "name", Op: cf.OpLess, Values: []any{"\xff"}}}}, nil},
	} {
		apps.expect(k, test.q, test.what, test.want...)
	}
}

// testMistakes sees that mistakes of the program are named, and change nothing.
func testMistakes(k *kit) {
	apps.insert(k, &cf.App{})
	for what, test := range map[string]struct {
		q    cf.Query
		want []string // in the message
	}{
		"unknown field":   {cf.Where("color", "red"), []string{"color", "space_guid", "organization_guid", "name"}},
		"unknown order":   {cf.Query{Order: "color"}, []string{"color", "space_guid"}},
		"injected order":  {cf.Query{Order: "name; DROP TABLE apps"}, []string{"DROP"}},
		"virtual order":   {cf.Query{Order: "organization_guid"}, []string{"organization_guid"}},
		"secret":          {cf.Where("env", "x"), []string{"env"}},
		"text for a time": {cf.Where("created_at", "2026-01-01"), []string{"created_at", "time", "string"}},
		"number for text": {cf.Where("name", 1), []string{"name", "int"}},
		"nil for text":    {cf.Where("name", nil), []string{"name", "nil"}},
		"unknown op":      {cf.Query{Where: []cf.Cond{{Field: "name", Op: 99, Values: []any{"x"}}}}, []string{"name", "99"}},
		"two to compare":  {cf.Query{Where: []cf.Cond{{Field: "name", Op: cf.OpLess, Values: []any{"x", "y"}}}}, []string{"name", "2"}},
		"none to compare": {cf.Query{Where: []cf.Cond{{Field: "name", Op: cf.OpGreater}}}, []string{"name", "0"}},
		"a name in time":  {cf.Query{Where: []cf.Cond{{Field: "name", Op: cf.OpInSeconds, Values: []any{"x"}}}}, []string{"name", "times"}},
		"values for null": {cf.Query{Where: []cf.Cond{{Field: "name", Op: cf.OpNull, Values: []any{"x"}}}}, []string{"name"}},
		"unknown labels":  {cf.Query{Labels: []cf.LabelRequirement{{Key: "k", Op: 99}}}, []string{"k", "99"}},
	} {
		for call, f := range map[string]func(cf.Tx) error{
			"List":  func(tx cf.Tx) error { _, _, err := tx.Apps().List(test.q); return err },
			"First": func(tx cf.Tx) error { _, err := tx.Apps().First(test.q); return err },
			"Count": func(tx cf.Tx) error { _, err := tx.Apps().Count(test.q); return err },
			"DeleteAll": func(tx cf.Tx) error {
				_, err := tx.Apps().DeleteAll(test.q)
				return err
			},
		} {
			if test.q.Order != "" && (call == "Count" || call == "DeleteAll") {
				continue
			}
			err := k.store.Update(k.Context(), f)
			if err == nil {
				k.Errorf("%s: %s did not fail", what, call)
				continue
			}
			for _, word := range test.want {
				if !strings.Contains(err.Error(), word) {
					k.Errorf("%s: %s says %q, want it to name %q", what, call, err, word)
				}
			}
		}
	}
	if n := len(apps.guids(k, cf.Query{})); n != 1 {
		k.Errorf("%d apps are left", n)
	}
	for what, f := range map[string]func(cf.Tx) error{
		"labels of roles": func(tx cf.Tx) error { _, err := tx.Roles().Count(selecting("k", cf.LabelExists)); return err },
		"text for a bool": func(tx cf.Tx) error { _, err := tx.Routes().Count(cf.Where("unmapped", "true")); return err },
		"less than a bool": func(tx cf.Tx) error {
			_, err := tx.Routes().Count(cf.Query{Where: []cf.Cond{{Field: "unmapped", Op: cf.OpLess, Values: []any{true}}}})
			return err
		},
		"text for a number": func(tx cf.Tx) error { _, err := tx.Routes().Count(cf.Where("port", "80")); return err },
	} {
		if err := k.store.View(k.Context(), f); err == nil {
			k.Errorf("%s did not fail", what)
		}
	}
}
