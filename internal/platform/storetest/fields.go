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

// testFields queries every field of every domain type: by value, by its absence, and in order.
func testFields(k *kit) {
	checkFields(k, "Organization", organizations, "name=Name", "suspended=Suspended", "quota_guid=QuotaGUID",
		"segment_guid=SegmentGUID")
	checkFields(k, "Space", spaces, "name=Name", "organization_guid=OrgGUID", "quota_guid=QuotaGUID",
		"segment_guid=SegmentGUID")
	checkFields(k, "IsolationSegment", segments, "name=Name")
	checkFields(k, "OrganizationQuota", orgQuotas, "name=Name")
	checkFields(k, "SpaceQuota", spaceQuotas, "name=Name", "organization_guid=OrgGUID")
	checkFields(k, "SecurityGroup", secGroups, "name=Name", "globally_running=Running", "globally_staging=Staging")
	checkFields(k, "NetworkPolicy", policies, "source_guid=SourceApp", "dest_guid=DestApp", "protocol=Protocol",
		"first_port=FirstPort", "last_port=LastPort")
	checkFields(k, "User", users)
	checkFields(k, "Role", roles, "type=Type", "user_guid=UserGUID", "organization_guid=OrgGUID",
		"space_guid=SpaceGUID")
	checkFields(k, "Domain", domains, "name=Name", "internal=Internal", "organization_guid=OrgGUID",
		"router_group=RouterGroup")
	checkFields(k, "Route", routes, "space_guid=SpaceGUID", "domain_guid=DomainGUID", "host=Host", "path=Path",
		"port=Port")
	checkFields(k, "Destination", destinations, "route_guid=RouteGUID", "app_guid=AppGUID",
		"process_type=ProcessType", "port=Port")
	checkFields(k, "App", apps, "name=Name", "space_guid=SpaceGUID", "state=State", "lifecycle_type=Lifecycle.Type",
		"stack=Lifecycle.Stack", "droplet_guid=DropletGUID")
	checkFields(k, "Process", processes, "app_guid=AppGUID", "type=Type", "version=Version",
		"droplet_guid=DropletGUID", "revision_guid=RevisionGUID")
	checkFields(k, "Sidecar", sidecars, "app_guid=AppGUID", "name=Name", "origin=Origin")
	checkFields(k, "Package", packages, "app_guid=AppGUID", "type=Type", "state=State")
	checkFields(k, "Build", builds, "app_guid=AppGUID", "package_guid=PackageGUID", "droplet_guid=DropletGUID",
		"state=State")
	checkFields(k, "Droplet", droplets, "app_guid=AppGUID", "package_guid=PackageGUID", "build_guid=BuildGUID",
		"state=State", "checksum=Checksum")
	checkFields(k, "Deployment", deployments, "app_guid=AppGUID", "status=Status", "reason=Reason",
		"droplet_guid=DropletGUID")
	checkFields(k, "Revision", revisions, "app_guid=AppGUID", "version=Version", "droplet_guid=DropletGUID")
	checkFields(k, "Task", tasks, "app_guid=AppGUID", "sequence_id=Sequence", "name=Name", "state=State",
		"droplet_guid=DropletGUID")
	checkFields(k, "Instance", instances, "app_guid=AppGUID", "process_guid=ProcessGUID", "index=Index",
		"version=Version", "state=State", "restart_at=RestartAt")
	checkFields(k, "InstanceRestart", instanceRestarts, "app_guid=AppGUID", "process_guid=ProcessGUID", "index=Index")
	checkFields(k, "Buildpack", buildpacks, "name=Name", "stack=Stack", "position=Position", "enabled=Enabled",
		"lifecycle=Lifecycle", "state=State")
	checkFields(k, "Stack", stacks, "name=Name", "default=Default")
	checkFields(k, "AuditEvent", auditEvents, "type=Type", "actor_guid=ActorGUID", "target_guid=TargetGUID",
		"space_guid=SpaceGUID", "organization_guid=OrgGUID")
	checkFields(k, "AppUsageEvent", appUsageEvents, "state=State")
	checkFields(k, "ServiceUsageEvent", serviceUsageEvents, "instance_type=InstanceType",
		"offering_guid=OfferingGUID")
	checkFields(k, "Job", jobs, "operation=Operation", "state=State", "resource_guid=ResourceGUID", "lease=Lease",
		"due=Due", "worker=Worker")
	checkServiceFields(k)
}

// checkFields checks the fields of a domain type, each as NAME=FIELD: its name in queries, and the
// field of T.
func checkFields[T any](k *kit, name string, n noun[T], fields ...string) {
	k.Run(name, func(t *testing.T) { //nolint:paralleltest // they share one store
		k := k.sub(t)
		all := map[string]func(*T) any{
			"guid":       func(row *T) any { return n.base(row).GUID },
			"created_at": func(row *T) any { return n.base(row).Created },
			"updated_at": func(row *T) any { return n.base(row).Updated },
		}
		for _, field := range fields {
			name, path, _ := strings.Cut(field, "=")
			all[name] = func(row *T) any {
				v := reflect.ValueOf(row).Elem()
				for _, step := range strings.Split(path, ".") {
					v = v.FieldByName(step)
				}
				return v.Interface()
			}
		}
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
