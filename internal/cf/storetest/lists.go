package storetest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"ingot/internal/cf"
)

// testNames sees that the names which Cloud Foundry compares without regard to
// case are so compared, and others are not.
func testNames(k *kit) {
	apps.insert(k,
		&cf.App{Resource: cf.Resource{GUID: "1"}, Name: "Beta", SpaceGUID: "x"},
		&cf.App{Resource: cf.Resource{GUID: "2"}, Name: "alpha", SpaceGUID: "x"},
		&cf.App{Resource: cf.Resource{GUID: "3"}, Name: "BETA", SpaceGUID: "y"},
		&cf.App{Resource: cf.Resource{GUID: "4"}, Name: "ÄPFEL", SpaceGUID: "x"})
	apps.expect(k, cf.Where("name", "bEtA"), "any case", "1", "3")
	apps.expect(k, cf.Where("name", "äpfel"), "only A to Z")
	if got := apps.guids(k, cf.Query{Order: "name"}); !slices.Equal(got, []string{"2", "1", "3", "4"}) {
		k.Errorf("by name: %v", got)
	}
	if got := apps.get(k, "1").Name; got != "Beta" {
		k.Errorf("the name is kept as %q", got)
	}
	organizations.insert(k, &cf.Organization{Resource: cf.Resource{GUID: "o"}, Name: "Org"})
	organizations.expect(k, cf.Where("name", "oRG"), "organization", "o")
	spaces.insert(k, &cf.Space{Resource: cf.Resource{GUID: "s"}, Name: "Space"})
	spaces.expect(k, cf.Where("name", "sPACE"), "space", "s")
	domains.insert(k, &cf.Domain{Resource: cf.Resource{GUID: "d"}, Name: "Example.org"})
	domains.expect(k, cf.Where("name", "example.ORG"), "domain", "d")
	routes.insert(k, &cf.Route{Resource: cf.Resource{GUID: "r"}, Host: "WWW", Path: "/Path"})
	routes.expect(k, cf.Where("host", "www"), "host", "r")
	routes.expect(k, cf.Where("path", "/path"), "path")
	sidecars.insert(k, &cf.Sidecar{Resource: cf.Resource{GUID: "c"}, Name: "Helper"})
	sidecars.expect(k, cf.Where("name", "helper"), "sidecar")
}

// testOrder sees that the default order is that of insertion, also for rows
// that one transaction inserts at once.
func testOrder(k *kit) {
	var want []string
	for range 5 {
		k.update(func(tx cf.Tx) error {
			for range 20 {
				e := &cf.AuditEvent{}
				if err := tx.AuditEvents().Insert(e); err != nil {
					return err
				}
				want = append(want, e.GUID)
			}
			return nil
		})
	}
	if got := auditEvents.guids(k, cf.Query{}); !slices.Equal(got, want) {
		k.Error("not in the order of insertion")
	}
	slices.Reverse(want)
	if got := auditEvents.guids(k, cf.Query{Order: "created_at", Desc: true}); !slices.Equal(got, want) {
		k.Error("not in the reverse order of insertion")
	}
	// An update comes last by updated_at.
	k.update(func(tx cf.Tx) error {
		e, err := tx.AuditEvents().Get(want[50])
		if err != nil {
			return err
		}
		return tx.AuditEvents().Update(e)
	})
	if got := auditEvents.guids(k, cf.Query{Order: "updated_at", Desc: true, PerPage: 1}); got[0] != want[50] {
		k.Error("what was updated last is not the first")
	}
}

// testPages sees that pages neither overlap nor leave gaps, even if all rows
// are equal in what they are ordered by.
func testPages(k *kit) {
	const many = 23
	k.update(func(tx cf.Tx) error {
		for i := range many {
			b := &cf.Buildpack{Resource: cf.Resource{Created: moment, Updated: moment}, Name: fmt.Sprint("b", i), Position: i / 10}
			if err := tx.Buildpacks().Insert(b); err != nil {
				return err
			}
		}
		return nil
	})
	for _, order := range []string{"", "created_at", "position", "name", "guid", "enabled"} {
		for _, desc := range []bool{false, true} {
			all := buildpacks.guids(k, cf.Query{Order: order, Desc: desc})
			var paged []string
			for page := 1; page <= 5; page++ {
				paged = append(paged, buildpacks.guids(k, cf.Query{Order: order, Desc: desc, Page: page, PerPage: 5})...)
			}
			if len(all) != many || !slices.Equal(all, paged) {
				k.Errorf("ordered by %q: pages are %v, all is %v", order, paged, all)
			}
		}
	}
	for _, test := range []struct{ page, perPage, rows, total int }{
		{0, 0, many, many}, {7, 0, many, many}, {-1, 5, 5, many}, {0, 5, 5, many}, {5, 5, 3, many}, {6, 5, 0, many}, {1, many, many, many},
		{2, many, 0, many}, {1, math.MaxInt, many, many}, {math.MaxInt, 5000, 0, many}, {math.MaxInt, math.MaxInt, 0, many}, {1, -1, many, many},
	} {
		k.view(func(tx cf.Tx) error {
			page, total, err := tx.Buildpacks().List(cf.Query{Page: test.page, PerPage: test.perPage})
			if len(page) != test.rows || total != test.total {
				k.Errorf("page %d by %d: %d rows of %d, want %d of %d", test.page, test.perPage, len(page), total, test.rows, test.total)
			}
			return err
		})
	}
}

// testBigLists sees that long lists, and conditions with many values, work.
func testBigLists(k *kit) {
	const many = 1500
	guids := make([]string, many)
	k.update(func(tx cf.Tx) error {
		for i := range guids {
			a := &cf.App{Resource: cf.Resource{GUID: fmt.Sprintf("app-%04d", i)}, Name: fmt.Sprint("app", i), SpaceGUID: "s",
				Metadata: cf.Metadata{Labels: map[string]string{"tier": fmt.Sprint(i)}}}
			if err := tx.Apps().Insert(a); err != nil {
				return err
			}
			guids[i] = a.GUID
		}
		return nil
	})
	if got := apps.guids(k, cf.Query{}); !slices.Equal(got, guids) {
		k.Errorf("%d apps come back", len(got))
	}
	if got := apps.guids(k, cf.Query{Page: 3, PerPage: 500}); !slices.Equal(got, guids[1000:]) {
		k.Errorf("%d apps are on the last page", len(got))
	}
	for _, n := range []int{2, 3, 255, 256, 257, 1000, many} {
		if got := apps.guids(k, cf.Query{Where: []cf.Cond{cf.InStrings("guid", guids[:n])}}); !slices.Equal(got, guids[:n]) {
			k.Errorf("by %d guids: %d apps", n, len(got))
		}
		not := cf.InStrings("guid", guids[:n])
		not.Op = cf.OpNotIn
		if got := apps.guids(k, cf.Query{Where: []cf.Cond{not}}); !slices.Equal(got, guids[n:]) && len(guids[n:])+len(got) > 0 {
			k.Errorf("by not %d guids: %d apps", n, len(got))
		}
	}
	times, tiers := []any{}, []string{}
	for i := range many {
		times = append(times, moment.Add(time.Duration(i)))
		tiers = append(tiers, fmt.Sprint(i))
	}
	apps.expect(k, cf.Where("created_at", times...), "by many times")
	if got := apps.guids(k, selecting("tier", cf.LabelIn, tiers[:1400]...)); len(got) != 1400 {
		k.Errorf("by 1400 label values: %d apps", len(got))
	}
	k.update(func(tx cf.Tx) error {
		n, err := tx.Apps().DeleteAll(cf.Query{Where: []cf.Cond{cf.InStrings("guid", guids[1:])}})
		if n != many-1 {
			k.Errorf("%d deleted", n)
		}
		return err
	})
	apps.expect(k, selecting("tier", cf.LabelExists), "what is left", guids[0])
}

func selecting(key string, op cf.LabelOp, values ...string) cf.Query {
	return cf.Query{Labels: []cf.LabelRequirement{{Key: key, Op: op, Values: values}}}
}

// testLabels sees every comparison of labels, for every noun that has them, and
// that they follow changes.
func testLabels(k *kit) {
	checkLabels(k, "Organization", organizations, (*cf.Organization).Meta)
	checkLabels(k, "Space", spaces, (*cf.Space).Meta)
	checkLabels(k, "User", users, (*cf.User).Meta)
	checkLabels(k, "Domain", domains, (*cf.Domain).Meta)
	checkLabels(k, "Route", routes, (*cf.Route).Meta)
	checkLabels(k, "App", apps, (*cf.App).Meta)
	checkLabels(k, "Process", processes, (*cf.Process).Meta)
	checkLabels(k, "Package", packages, (*cf.Package).Meta)
	checkLabels(k, "Build", builds, (*cf.Build).Meta)
	checkLabels(k, "Droplet", droplets, (*cf.Droplet).Meta)
	checkLabels(k, "Deployment", deployments, (*cf.Deployment).Meta)
	checkLabels(k, "Task", tasks, (*cf.Task).Meta)
	checkLabels(k, "Buildpack", buildpacks, (*cf.Buildpack).Meta)
	checkLabels(k, "Stack", stacks, (*cf.Stack).Meta)
}

func checkLabels[T any](k *kit, name string, n noun[T], meta func(*T) *cf.Metadata) {
	k.Run(name, func(t *testing.T) { //nolint:paralleltest // they share one store, to see that labels of nouns are kept apart
		k := k.sub(t)
		make := func(seed int, labels map[string]string) *T {
			row := filled[T](seed)
			n.base(row).GUID = fmt.Sprint(seed) // the same for all nouns
			meta(row).Labels = labels
			return row
		}
		n.insert(k,
			make(1, map[string]string{"env": "prod", "example.org/team": "a"}),
			make(2, map[string]string{"env": "test", "team": "a"}),
			make(3, map[string]string{"env": ""}),
			make(4, nil))
		expect := func(k *kit, what string, want []string, all ...cf.LabelRequirement) {
			k.Helper()
			n.expect(k, cf.Query{Labels: all}, what, want...)
		}
		env := func(op cf.LabelOp, values ...string) cf.LabelRequirement {
			return cf.LabelRequirement{Key: "env", Op: op, Values: values}
		}
		k.within(func(k *kit) {
			expect(k, "exists", []string{"1", "2", "3"}, env(cf.LabelExists))
			expect(k, "absent", []string{"4"}, env(cf.LabelAbsent))
			expect(k, "in one", []string{"1"}, env(cf.LabelIn, "prod"))
			expect(k, "in two", []string{"1", "2"}, env(cf.LabelIn, "prod", "test", "none"))
			expect(k, "in empty", []string{"3"}, env(cf.LabelIn, ""))
			expect(k, "in nothing", nil, env(cf.LabelIn))
			expect(k, "not in one", []string{"2", "3", "4"}, env(cf.LabelNotIn, "prod"))
			expect(k, "not in two", []string{"3", "4"}, env(cf.LabelNotIn, "prod", "test"))
			expect(k, "not in nothing", []string{"1", "2", "3", "4"}, env(cf.LabelNotIn))
			expect(k, "both", []string{"2"}, env(cf.LabelExists), cf.LabelRequirement{Key: "team", Op: cf.LabelIn, Values: []string{"a"}})
			expect(k, "with prefix", []string{"1"}, cf.LabelRequirement{Key: "example.org/team"})
			expect(k, "another case", nil, cf.LabelRequirement{Key: "ENV"}, env(cf.LabelIn, "PROD"))
			expect(k, "impossible key", nil, cf.LabelRequirement{Key: "\x00"})
			expect(k, "impossible key absent", []string{"1", "2", "3", "4"}, cf.LabelRequirement{Key: "\xff", Op: cf.LabelAbsent})
			expect(k, "impossible value", []string{"1"}, env(cf.LabelIn, "\x00", "prod"))
			n.expect(k, cf.Query{Labels: []cf.LabelRequirement{env(cf.LabelExists)}, Where: []cf.Cond{cf.In("guid", "2", "4")}}, "with a condition", "2")
		})

		k.update(func(tx cf.Tx) error {
			row, err := n.repo(tx).Get("1")
			if err != nil {
				return err
			}
			meta(row).Labels = map[string]string{"env": "test", "new": "x"}
			return n.repo(tx).Update(row)
		})
		expect(k, "after a change", []string{"1", "2"}, env(cf.LabelIn, "test"))
		expect(k, "one that is gone", nil, cf.LabelRequirement{Key: "example.org/team"})
		k.update(func(tx cf.Tx) error { return n.repo(tx).Delete("1") })
		n.insert(k, make(1, nil))
		expect(k, "made anew", []string{"1", "3", "4"}, env(cf.LabelNotIn, "test"))
		k.update(func(tx cf.Tx) error {
			removed, err := n.repo(tx).DeleteAll(cf.Query{Labels: []cf.LabelRequirement{env(cf.LabelExists)}})
			if removed != 2 {
				k.Errorf("%d deleted by label", removed)
			}
			return err
		})
		expect(k, "after that", nil, env(cf.LabelExists))
		n.expect(k, cf.Query{}, "what is left", "1", "4")
	})
}
