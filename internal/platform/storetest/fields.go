package storetest

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/platform"
)

// testFields asks for every field of every noun: by value, by its absence, and
// in order.
func testFields(k *kit) {
	checkFields(k, "Organization", organizations, fields[platform.Organization]{
		"name":         func(o *platform.Organization) any { return o.Name },
		"suspended":    func(o *platform.Organization) any { return o.Suspended },
		"quota_guid":   func(o *platform.Organization) any { return o.QuotaGUID },
		"segment_guid": func(o *platform.Organization) any { return o.SegmentGUID },
	})
	checkFields(k, "Space", spaces, fields[platform.Space]{
		"name":              func(s *platform.Space) any { return s.Name },
		"organization_guid": func(s *platform.Space) any { return s.OrgGUID },
		"quota_guid":        func(s *platform.Space) any { return s.QuotaGUID },
		"segment_guid":      func(s *platform.Space) any { return s.SegmentGUID },
	})
	checkFields(k, "IsolationSegment", segments, fields[platform.IsolationSegment]{
		"name": func(s *platform.IsolationSegment) any { return s.Name },
	})
	checkFields(k, "OrganizationQuota", orgQuotas, fields[platform.OrganizationQuota]{
		"name": func(q *platform.OrganizationQuota) any { return q.Name },
	})
	checkFields(k, "SpaceQuota", spaceQuotas, fields[platform.SpaceQuota]{
		"name":              func(q *platform.SpaceQuota) any { return q.Name },
		"organization_guid": func(q *platform.SpaceQuota) any { return q.OrgGUID },
	})
	checkFields(k, "SecurityGroup", secGroups, fields[platform.SecurityGroup]{
		"name":             func(g *platform.SecurityGroup) any { return g.Name },
		"globally_running": func(g *platform.SecurityGroup) any { return g.Running },
		"globally_staging": func(g *platform.SecurityGroup) any { return g.Staging },
	})
	checkFields(k, "NetworkPolicy", policies, fields[platform.NetworkPolicy]{
		"source_guid": func(p *platform.NetworkPolicy) any { return p.SourceApp },
		"dest_guid":   func(p *platform.NetworkPolicy) any { return p.DestApp },
		"protocol":    func(p *platform.NetworkPolicy) any { return p.Protocol },
		"first_port":  func(p *platform.NetworkPolicy) any { return p.FirstPort },
		"last_port":   func(p *platform.NetworkPolicy) any { return p.LastPort },
	})
	checkFields(k, "User", users, fields[platform.User]{})
	checkFields(k, "Role", roles, fields[platform.Role]{
		"type":              func(r *platform.Role) any { return r.Type },
		"user_guid":         func(r *platform.Role) any { return r.UserGUID },
		"organization_guid": func(r *platform.Role) any { return r.OrgGUID },
		"space_guid":        func(r *platform.Role) any { return r.SpaceGUID },
	})
	checkFields(k, "Domain", domains, fields[platform.Domain]{
		"name":              func(d *platform.Domain) any { return d.Name },
		"internal":          func(d *platform.Domain) any { return d.Internal },
		"organization_guid": func(d *platform.Domain) any { return d.OrgGUID },
		"router_group":      func(d *platform.Domain) any { return d.RouterGroup },
	})
	checkFields(k, "Route", routes, fields[platform.Route]{
		"space_guid":  func(r *platform.Route) any { return r.SpaceGUID },
		"domain_guid": func(r *platform.Route) any { return r.DomainGUID },
		"host":        func(r *platform.Route) any { return r.Host },
		"path":        func(r *platform.Route) any { return r.Path },
		"port":        func(r *platform.Route) any { return r.Port },
	})
	checkFields(k, "Destination", destinations, fields[platform.Destination]{
		"route_guid":   func(d *platform.Destination) any { return d.RouteGUID },
		"app_guid":     func(d *platform.Destination) any { return d.AppGUID },
		"process_type": func(d *platform.Destination) any { return d.ProcessType },
		"port":         func(d *platform.Destination) any { return d.Port },
	})
	checkFields(k, "App", apps, fields[platform.App]{
		"name":           func(a *platform.App) any { return a.Name },
		"space_guid":     func(a *platform.App) any { return a.SpaceGUID },
		"state":          func(a *platform.App) any { return a.State },
		"lifecycle_type": func(a *platform.App) any { return a.Lifecycle.Type },
		"stack":          func(a *platform.App) any { return a.Lifecycle.Stack },
		"droplet_guid":   func(a *platform.App) any { return a.DropletGUID },
	})
	checkFields(k, "Process", processes, fields[platform.Process]{
		"app_guid":      func(p *platform.Process) any { return p.AppGUID },
		"type":          func(p *platform.Process) any { return p.Type },
		"version":       func(p *platform.Process) any { return p.Version },
		"droplet_guid":  func(p *platform.Process) any { return p.DropletGUID },
		"revision_guid": func(p *platform.Process) any { return p.RevisionGUID },
	})
	checkFields(k, "Sidecar", sidecars, fields[platform.Sidecar]{
		"app_guid": func(s *platform.Sidecar) any { return s.AppGUID },
		"name":     func(s *platform.Sidecar) any { return s.Name },
		"origin":   func(s *platform.Sidecar) any { return s.Origin },
	})
	checkFields(k, "Package", packages, fields[platform.Package]{
		"app_guid": func(p *platform.Package) any { return p.AppGUID },
		"type":     func(p *platform.Package) any { return p.Type },
		"state":    func(p *platform.Package) any { return p.State },
	})
	checkFields(k, "Build", builds, fields[platform.Build]{
		"app_guid":     func(b *platform.Build) any { return b.AppGUID },
		"package_guid": func(b *platform.Build) any { return b.PackageGUID },
		"droplet_guid": func(b *platform.Build) any { return b.DropletGUID },
		"state":        func(b *platform.Build) any { return b.State },
	})
	checkFields(k, "Droplet", droplets, fields[platform.Droplet]{
		"app_guid":     func(d *platform.Droplet) any { return d.AppGUID },
		"package_guid": func(d *platform.Droplet) any { return d.PackageGUID },
		"build_guid":   func(d *platform.Droplet) any { return d.BuildGUID },
		"state":        func(d *platform.Droplet) any { return d.State },
		"checksum":     func(d *platform.Droplet) any { return d.Checksum },
	})
	checkFields(k, "Deployment", deployments, fields[platform.Deployment]{
		"app_guid":     func(d *platform.Deployment) any { return d.AppGUID },
		"status":       func(d *platform.Deployment) any { return d.Status },
		"reason":       func(d *platform.Deployment) any { return d.Reason },
		"droplet_guid": func(d *platform.Deployment) any { return d.DropletGUID },
	})
	checkFields(k, "Revision", revisions, fields[platform.Revision]{
		"app_guid":     func(r *platform.Revision) any { return r.AppGUID },
		"version":      func(r *platform.Revision) any { return r.Version },
		"droplet_guid": func(r *platform.Revision) any { return r.DropletGUID },
	})
	checkFields(k, "Task", tasks, fields[platform.Task]{
		"app_guid":     func(t *platform.Task) any { return t.AppGUID },
		"sequence_id":  func(t *platform.Task) any { return t.Sequence },
		"name":         func(t *platform.Task) any { return t.Name },
		"state":        func(t *platform.Task) any { return t.State },
		"droplet_guid": func(t *platform.Task) any { return t.DropletGUID },
	})
	checkFields(k, "Instance", instances, fields[platform.Instance]{
		"app_guid":     func(i *platform.Instance) any { return i.AppGUID },
		"process_guid": func(i *platform.Instance) any { return i.ProcessGUID },
		"index":        func(i *platform.Instance) any { return i.Index },
		"version":      func(i *platform.Instance) any { return i.Version },
		"state":        func(i *platform.Instance) any { return i.State },
		"restart_at":   func(i *platform.Instance) any { return i.RestartAt },
	})
	checkFields(k, "InstanceRestart", instanceRestarts, fields[platform.InstanceRestart]{
		"app_guid":     func(r *platform.InstanceRestart) any { return r.AppGUID },
		"process_guid": func(r *platform.InstanceRestart) any { return r.ProcessGUID },
		"index":        func(r *platform.InstanceRestart) any { return r.Index },
	})
	checkFields(k, "Buildpack", buildpacks, fields[platform.Buildpack]{
		"name":      func(b *platform.Buildpack) any { return b.Name },
		"stack":     func(b *platform.Buildpack) any { return b.Stack },
		"position":  func(b *platform.Buildpack) any { return b.Position },
		"enabled":   func(b *platform.Buildpack) any { return b.Enabled },
		"lifecycle": func(b *platform.Buildpack) any { return b.Lifecycle },
		"state":     func(b *platform.Buildpack) any { return b.State },
	})
	checkFields(k, "Stack", stacks, fields[platform.Stack]{
		"name":    func(s *platform.Stack) any { return s.Name },
		"default": func(s *platform.Stack) any { return s.Default },
	})
	checkFields(k, "AuditEvent", auditEvents, fields[platform.AuditEvent]{
		"type":              func(e *platform.AuditEvent) any { return e.Type },
		"actor_guid":        func(e *platform.AuditEvent) any { return e.ActorGUID },
		"target_guid":       func(e *platform.AuditEvent) any { return e.TargetGUID },
		"space_guid":        func(e *platform.AuditEvent) any { return e.SpaceGUID },
		"organization_guid": func(e *platform.AuditEvent) any { return e.OrgGUID },
	})
	checkFields(k, "AppUsageEvent", appUsageEvents, fields[platform.AppUsageEvent]{
		"state": func(e *platform.AppUsageEvent) any { return e.State },
	})
	checkFields(k, "ServiceUsageEvent", serviceUsageEvents, fields[platform.ServiceUsageEvent]{
		"instance_type": func(e *platform.ServiceUsageEvent) any { return e.InstanceType },
		"offering_guid": func(e *platform.ServiceUsageEvent) any { return e.OfferingGUID },
	})
	checkFields(k, "Job", jobs, fields[platform.Job]{
		"operation":     func(j *platform.Job) any { return j.Operation },
		"state":         func(j *platform.Job) any { return j.State },
		"resource_guid": func(j *platform.Job) any { return j.ResourceGUID },
		"lease":         func(j *platform.Job) any { return j.Lease },
		"due":           func(j *platform.Job) any { return j.Due },
		"worker":        func(j *platform.Job) any { return j.Worker },
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
		k.update(func(tx platform.Tx) error { _, err := n.repo(tx).DeleteAll(platform.Query{}); return err })
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
		n.expect(k, platform.Where(field, value), field+" in", equal...)
		n.expect(k, platform.Where(field, value, value, value), field+" in thrice", equal...)
		n.expect(k, platform.Query{Where: []platform.Cond{{Field: field, Op: platform.OpNotIn, Values: []any{value}}}},
			field+" not in",
			matching(func(r *T) bool { return compare(read(r), value) != 0 })...)
		if _, isBool := value.(bool); isBool {
			continue
		}
		for op, match := range map[platform.Op]func(int) bool{
			platform.OpLess:         func(c int) bool { return c < 0 },
			platform.OpLessEqual:    func(c int) bool { return c <= 0 },
			platform.OpGreater:      func(c int) bool { return c > 0 },
			platform.OpGreaterEqual: func(c int) bool { return c >= 0 },
		} {
			n.expect(k, platform.Query{Where: []platform.Cond{{Field: field, Op: op, Values: []any{value}}}}, field+" compared",
				matching(func(r *T) bool { return match(compare(read(r), value)) })...)
		}
	}
	zero := func(r *T) bool { return reflect.ValueOf(read(r)).IsZero() }
	n.expect(k, platform.Query{Where: []platform.Cond{{Field: field, Op: platform.OpNull}}}, field+" null",
		matching(zero)...)
	n.expect(k, platform.Query{Where: []platform.Cond{{Field: field, Op: platform.OpNotNull}}}, field+" not null",
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
		if got := n.guids(k, platform.Query{Order: field, Desc: desc}); !slices.Equal(got, want) {
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
		return cmp.Compare(reflect.ValueOf(map[bool]int{true: 1}[x.Bool()]).Int(),
			reflect.ValueOf(map[bool]int{true: 1}[y.Bool()]).Int())
	default:
		return cmp.Compare(x.Int(), y.Int())
	}
}

// testTimes sees that times are compared to the nanosecond, and that one that
// is not set is before all others.
func testTimes(k *kit) {
	jobs.insert(k,
		&platform.Job{Resource: platform.Resource{GUID: "never"}},
		&platform.Job{Resource: platform.Resource{GUID: "at"}, Due: moment},
		&platform.Job{Resource: platform.Resource{GUID: "after"}, Due: moment.Add(1)},
	)
	elsewhere := moment.In(time.FixedZone("elsewhere", 7200))
	jobs.expect(k, platform.Where("due", elsewhere), "another zone", "at")
	jobs.expect(k, platform.Where("due", time.Time{}), "none", "never")
	jobs.expect(k, platform.Query{Where: []platform.Cond{{Field: "due", Op: platform.OpLessEqual, Values: []any{moment}}}},
		"due", "never", "at")
	jobs.expect(k, platform.Query{Where: []platform.Cond{
		{Field: "due", Op: platform.OpGreaterEqual, Values: []any{moment}},
		{Field: "due", Op: platform.OpLess, Values: []any{moment.Add(1)}},
	}}, "a range", "at")

	jobs.insert(k,
		&platform.Job{Resource: platform.Resource{GUID: "before"}, Due: moment.Truncate(time.Second).Add(-1)},
		&platform.Job{Resource: platform.Resource{GUID: "next"}, Due: moment.Truncate(time.Second).Add(time.Second)},
		&platform.Job{Resource: platform.Resource{GUID: "later"}, Due: moment.Add(time.Hour)})
	seconds := func(what string, times []time.Time, want ...string) {
		c := platform.Cond{Field: "due", Op: platform.OpInSeconds}
		for _, t := range times {
			c.Values = append(c.Values, t)
		}
		jobs.expect(k, platform.Query{Where: []platform.Cond{c}}, what, want...)
	}
	second := moment.Truncate(time.Second)
	seconds("no second", nil)
	seconds("one second", []time.Time{second}, "at", "after")
	seconds("seconds, not what lies between", []time.Time{moment.Add(time.Hour), second.Add(-time.Second)},
		"later", "before")
	var many []time.Time
	for i := range 1000 {
		many = append(many, second.Add(time.Duration(i)*time.Second))
	}
	seconds("many seconds", many, "at", "after", "next")
}

// testConditions sees what lists of values and several conditions mean.
func testConditions(k *kit) {
	apps.insert(k,
		&platform.App{Resource: platform.Resource{GUID: "1"}, Name: "a", SpaceGUID: "x", State: platform.AppStarted},
		&platform.App{Resource: platform.Resource{GUID: "2"}, Name: "b", SpaceGUID: "x", State: platform.AppStopped},
		&platform.App{Resource: platform.Resource{GUID: "3"}, Name: "a", SpaceGUID: "y", State: platform.AppStopped},
		&platform.App{Resource: platform.Resource{GUID: "4"}, Name: "", SpaceGUID: "", State: platform.AppStopped},
	)
	for _, test := range []struct {
		what string
		q    platform.Query
		want []string
	}{
		{"all", platform.Query{}, []string{"1", "2", "3", "4"}},
		{"several values", platform.Where("name", "a", "b", "c"), []string{"1", "2", "3"}},
		{"no values", platform.Where("name"), nil},
		{"an empty value", platform.Where("name", ""), []string{"4"}},
		{"an empty value among others", platform.Where("name", "", "b"), []string{"2", "4"}},
		{"strings", platform.Query{Where: []platform.Cond{platform.InStrings("guid", []string{"1", "4", "none"})}},
			[]string{"1", "4"}},
		{"no strings", platform.Query{Where: []platform.Cond{platform.InStrings("guid", nil)}}, nil},
		{"both", platform.Where("name", "a").And(platform.In("space_guid", "y")), []string{"3"}},
		{"contradiction", platform.Where("name", "a").And(platform.In("name", "b")), nil},
		{"not in nothing", platform.Query{Where: []platform.Cond{{Field: "name", Op: platform.OpNotIn}}},
			[]string{"1", "2", "3", "4"}},
		{"not in", platform.Query{Where: []platform.Cond{{Field: "name", Op: platform.OpNotIn, Values: []any{"a", ""}}}},
			[]string{"2"}},
		{"typed", platform.Where("state", platform.AppStarted), []string{"1"}},
		{"plain", platform.Where("state", "STARTED"), []string{"1"}},
		{"impossible", platform.Where("name", "a\x00b", "\xff"), nil},
		{"impossible among others", platform.Where("name", "a\x00b", "b"), []string{"2"}},
		{"less than the impossible",
			platform.Query{Where: []platform.Cond{{Field: "name", Op: platform.OpLess, Values: []any{"\xff"}}}}, nil},
	} {
		apps.expect(k, test.q, test.what, test.want...)
	}
}

// testMistakes sees that mistakes of the program are named, and change nothing.
func testMistakes(k *kit) {
	apps.insert(k, &platform.App{})
	for what, test := range map[string]struct {
		q    platform.Query
		want []string // in the message
	}{
		"unknown field":   {platform.Where("color", "red"), []string{"color", "space_guid", "organization_guid", "name"}},
		"unknown order":   {platform.Query{Order: "color"}, []string{"color", "space_guid"}},
		"injected order":  {platform.Query{Order: "name; DROP TABLE apps"}, []string{"DROP"}},
		"virtual order":   {platform.Query{Order: "organization_guid"}, []string{"organization_guid"}},
		"secret":          {platform.Where("env", "x"), []string{"env"}},
		"text for a time": {platform.Where("created_at", "2026-01-01"), []string{"created_at", "time", "string"}},
		"number for text": {platform.Where("name", 1), []string{"name", "int"}},
		"nil for text":    {platform.Where("name", nil), []string{"name", "nil"}},
		"unknown op": {platform.Query{Where: []platform.Cond{{Field: "name", Op: 99, Values: []any{"x"}}}},
			[]string{"name", "99"}},
		"two to compare": {platform.Query{Where: []platform.Cond{{Field: "name", Op: platform.OpLess,
			Values: []any{"x", "y"}}}}, []string{"name", "2"}},
		"none to compare": {platform.Query{Where: []platform.Cond{{Field: "name", Op: platform.OpGreater}}},
			[]string{"name", "0"}},
		"a name in time": {platform.Query{Where: []platform.Cond{{Field: "name", Op: platform.OpInSeconds,
			Values: []any{"x"}}}}, []string{"name", "times"}},
		"values for null": {platform.Query{Where: []platform.Cond{{Field: "name", Op: platform.OpNull, Values: []any{"x"}}}},
			[]string{"name"}},
		"unknown labels": {platform.Query{Labels: []platform.LabelRequirement{{Key: "k", Op: 99}}}, []string{"k", "99"}},
	} {
		for call, f := range map[string]func(platform.Tx) error{
			"List":  func(tx platform.Tx) error { _, _, err := tx.Apps().List(test.q); return err },
			"First": func(tx platform.Tx) error { _, err := tx.Apps().First(test.q); return err },
			"Count": func(tx platform.Tx) error { _, err := tx.Apps().Count(test.q); return err },
			"DeleteAll": func(tx platform.Tx) error {
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
	if n := len(apps.guids(k, platform.Query{})); n != 1 {
		k.Errorf("%d apps are left", n)
	}
	for what, f := range map[string]func(platform.Tx) error{
		"labels of roles": func(tx platform.Tx) error {
			_, err := tx.Roles().Count(selecting("k", platform.LabelExists))
			return err
		},
		"text for a bool": func(tx platform.Tx) error {
			_, err := tx.Routes().Count(platform.Where("unmapped", "true"))
			return err
		},
		"less than a bool": func(tx platform.Tx) error {
			_, err := tx.Routes().Count(platform.Query{Where: []platform.Cond{{Field: "unmapped", Op: platform.OpLess,
				Values: []any{true}}}})
			return err
		},
		"text for a number": func(tx platform.Tx) error {
			_, err := tx.Routes().
				Count(platform.Where("port", "80"))
			return err
		},
	} {
		if err := k.store.View(k.Context(), f); err == nil {
			k.Errorf("%s did not fail", what)
		}
	}
}
