package storetest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"ingot/internal/platform"
)

// testNames sees that the names which Cloud Foundry compares without regard to
// case are so compared, and others are not.
func testNames(k *kit) {
	apps.insert(k,
		&platform.App{Resource: platform.Resource{GUID: "1"}, Name: "Beta", SpaceGUID: "x"},
		&platform.App{Resource: platform.Resource{GUID: "2"}, Name: "alpha", SpaceGUID: "x"},
		&platform.App{Resource: platform.Resource{GUID: "3"}, Name: "BETA", SpaceGUID: "y"},
		&platform.App{Resource: platform.Resource{GUID: "4"}, Name: "ÄPFEL", SpaceGUID: "x"})
	apps.expect(k, platform.Where("name", "bEtA"), "any case", "1", "3")
	apps.expect(k, platform.Where("name", "äpfel"), "only A to Z")
	if got := apps.guids(k, platform.Query{Order: "name"}); !slices.Equal(got, []string{"2", "1", "3", "4"}) {
		k.Errorf("by name: %v", got)
	}
	if got := apps.get(k, "1").Name; got != "Beta" {
		k.Errorf("the name is kept as %q", got)
	}
	organizations.insert(k, &platform.Organization{Resource: platform.Resource{GUID: "o"}, Name: "Org"})
	organizations.expect(k, platform.Where("name", "oRG"), "organization", "o")
	spaces.insert(k, &platform.Space{Resource: platform.Resource{GUID: "s"}, Name: "Space"})
	spaces.expect(k, platform.Where("name", "sPACE"), "space", "s")
	domains.insert(k, &platform.Domain{Resource: platform.Resource{GUID: "d"}, Name: "Example.org"})
	domains.expect(k, platform.Where("name", "example.ORG"), "domain", "d")
	routes.insert(k, &platform.Route{Resource: platform.Resource{GUID: "r"}, Host: "WWW", Path: "/Path"})
	routes.expect(k, platform.Where("host", "www"), "host", "r")
	routes.expect(k, platform.Where("path", "/path"), "path")
	sidecars.insert(k, &platform.Sidecar{Resource: platform.Resource{GUID: "c"}, Name: "Helper"})
	sidecars.expect(k, platform.Where("name", "helper"), "sidecar")
}

// testOrder sees that the default order is that of insertion, also for rows
// that one transaction inserts at once.
func testOrder(k *kit) {
	var want []string
	for range 5 {
		k.update(func(tx platform.Tx) error {
			for range 20 {
				e := &platform.AuditEvent{}
				if err := tx.AuditEvents().Insert(e); err != nil {
					return err
				}
				want = append(want, e.GUID)
			}
			return nil
		})
	}
	if got := auditEvents.guids(k, platform.Query{}); !slices.Equal(got, want) {
		k.Error("not in the order of insertion")
	}
	slices.Reverse(want)
	if got := auditEvents.guids(k, platform.Query{Order: "created_at", Desc: true}); !slices.Equal(got, want) {
		k.Error("not in the reverse order of insertion")
	}
	// An update comes last by updated_at.
	k.update(func(tx platform.Tx) error {
		e, err := tx.AuditEvents().Get(want[50])
		if err != nil {
			return err
		}
		return tx.AuditEvents().Update(e)
	})
	if got := auditEvents.guids(k, platform.Query{Order: "updated_at", Desc: true, PerPage: 1}); got[0] != want[50] {
		k.Error("what was updated last is not the first")
	}
}

// testPages sees that pages neither overlap nor leave gaps, even if all rows
// are equal in what they are ordered by.
func testPages(k *kit) {
	const many = 23
	k.update(func(tx platform.Tx) error {
		for i := range many {
			b := &platform.Buildpack{Resource: platform.Resource{Created: moment, Updated: moment}, Name: fmt.Sprint("b", i),
				Position: i / 10}
			if err := tx.Buildpacks().Insert(b); err != nil {
				return err
			}
		}
		return nil
	})
	for _, order := range []string{"", "created_at", "position", "name", "guid", "enabled"} {
		for _, desc := range []bool{false, true} {
			all := buildpacks.guids(k, platform.Query{Order: order, Desc: desc})
			var paged []string
			for page := 1; page <= 5; page++ {
				paged = append(paged, buildpacks.guids(k, platform.Query{Order: order, Desc: desc, Page: page, PerPage: 5})...)
			}
			if len(all) != many || !slices.Equal(all, paged) {
				k.Errorf("ordered by %q: pages are %v, all is %v", order, paged, all)
			}
		}
	}
	for _, test := range []struct{ page, perPage, rows, total int }{
		{0, 0, many, many}, {7, 0, many, many}, {-1, 5, 5, many}, {0, 5, 5, many}, {5, 5, 3, many}, {6, 5, 0, many},
		{1, many, many, many},
		{2, many, 0, many}, {1, math.MaxInt, many, many}, {math.MaxInt, 5000, 0, many}, {math.MaxInt, math.MaxInt, 0, many},
		{1, -1, many, many},
	} {
		k.view(func(tx platform.Tx) error {
			page, total, err := tx.Buildpacks().List(platform.Query{Page: test.page, PerPage: test.perPage})
			if len(page) != test.rows || total != test.total {
				k.Errorf("page %d by %d: %d rows of %d, want %d of %d", test.page, test.perPage, len(page), total,
					test.rows, test.total)
			}
			return err
		})
	}
}

// testBigLists sees that long lists, and conditions with many values, work.
func testBigLists(k *kit) {
	const many = 1500
	guids := make([]string, many)
	k.update(func(tx platform.Tx) error {
		for i := range guids {
			a := &platform.App{Resource: platform.Resource{GUID: fmt.Sprintf("app-%04d", i)}, Name: fmt.Sprint("app", i),
				SpaceGUID: "s",
				Metadata:  platform.Metadata{Labels: map[string]string{"tier": fmt.Sprint(i)}}}
			if err := tx.Apps().Insert(a); err != nil {
				return err
			}
			guids[i] = a.GUID
		}
		return nil
	})
	if got := apps.guids(k, platform.Query{}); !slices.Equal(got, guids) {
		k.Errorf("%d apps come back", len(got))
	}
	if got := apps.guids(k, platform.Query{Page: 3, PerPage: 500}); !slices.Equal(got, guids[1000:]) {
		k.Errorf("%d apps are on the last page", len(got))
	}
	for _, n := range []int{2, 3, 255, 256, 257, 1000, many} {
		if got := apps.guids(k, platform.Query{Where: []platform.Cond{platform.InStrings("guid", guids[:n])}}); !slices.Equal(
			got, guids[:n]) {
			k.Errorf("by %d guids: %d apps", n, len(got))
		}
		not := platform.InStrings("guid", guids[:n])
		not.Op = platform.OpNotIn
		if got := apps.guids(k, platform.Query{Where: []platform.Cond{not}}); !slices.Equal(got, guids[n:]) && len(guids[n:])+
			len(got) > 0 {
			k.Errorf("by not %d guids: %d apps", n, len(got))
		}
	}
	times, tiers := []any{}, []string{}
	for i := range many {
		times = append(times, moment.Add(time.Duration(i)))
		tiers = append(tiers, fmt.Sprint(i))
	}
	apps.expect(k, platform.Where("created_at", times...), "by many times")
	if got := apps.guids(k, selecting("tier", platform.LabelIn, tiers[:1400]...)); len(got) != 1400 {
		k.Errorf("by 1400 label values: %d apps", len(got))
	}
	k.update(func(tx platform.Tx) error {
		n, err := tx.Apps().DeleteAll(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guids[1:])}})
		if n != many-1 {
			k.Errorf("%d deleted", n)
		}
		return err
	})
	apps.expect(k, selecting("tier", platform.LabelExists), "what is left", guids[0])
}

func selecting(key string, op platform.LabelOp, values ...string) platform.Query {
	return platform.Query{Labels: []platform.LabelRequirement{{Key: key, Op: op, Values: values}}}
}

// testLabels sees every comparison of labels, for every noun that has them, and
// that they follow changes.
func testLabels(k *kit) {
	checkLabels(k, "Organization", organizations, (*platform.Organization).Meta)
	checkLabels(k, "Space", spaces, (*platform.Space).Meta)
	checkLabels(k, "User", users, (*platform.User).Meta)
	checkLabels(k, "Domain", domains, (*platform.Domain).Meta)
	checkLabels(k, "Route", routes, (*platform.Route).Meta)
	checkLabels(k, "App", apps, (*platform.App).Meta)
	checkLabels(k, "Process", processes, (*platform.Process).Meta)
	checkLabels(k, "Package", packages, (*platform.Package).Meta)
	checkLabels(k, "Build", builds, (*platform.Build).Meta)
	checkLabels(k, "Droplet", droplets, (*platform.Droplet).Meta)
	checkLabels(k, "Deployment", deployments, (*platform.Deployment).Meta)
	checkLabels(k, "Revision", revisions, (*platform.Revision).Meta)
	checkLabels(k, "Task", tasks, (*platform.Task).Meta)
	checkLabels(k, "Buildpack", buildpacks, (*platform.Buildpack).Meta)
	checkLabels(k, "Stack", stacks, (*platform.Stack).Meta)
}

func checkLabels[T any](k *kit, name string, n noun[T], meta func(*T) *platform.Metadata) {
	k.Run(name, //nolint:paralleltest // they share one store, to see that labels of nouns are kept apart
		func(t *testing.T) {
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
			expect := func(k *kit, what string, want []string, all ...platform.LabelRequirement) {
				k.Helper()
				n.expect(k, platform.Query{Labels: all}, what, want...)
			}
			env := func(op platform.LabelOp, values ...string) platform.LabelRequirement {
				return platform.LabelRequirement{Key: "env", Op: op, Values: values}
			}
			k.within(func(k *kit) {
				expect(k, "exists", []string{"1", "2", "3"}, env(platform.LabelExists))
				expect(k, "absent", []string{"4"}, env(platform.LabelAbsent))
				expect(k, "in one", []string{"1"}, env(platform.LabelIn, "prod"))
				expect(k, "in two", []string{"1", "2"}, env(platform.LabelIn, "prod", "test", "none"))
				expect(k, "in empty", []string{"3"}, env(platform.LabelIn, ""))
				expect(k, "in nothing", nil, env(platform.LabelIn))
				expect(k, "not in one", []string{"2", "3", "4"}, env(platform.LabelNotIn, "prod"))
				expect(k, "not in two", []string{"3", "4"}, env(platform.LabelNotIn, "prod", "test"))
				expect(k, "not in nothing", []string{"1", "2", "3", "4"}, env(platform.LabelNotIn))
				expect(k, "both", []string{"2"}, env(platform.LabelExists),
					platform.LabelRequirement{Key: "team", Op: platform.LabelIn, Values: []string{"a"}})
				expect(k, "with prefix", []string{"1"}, platform.LabelRequirement{Key: "example.org/team"})
				expect(k, "another case", nil, platform.LabelRequirement{Key: "ENV"}, env(platform.LabelIn, "PROD"))
				expect(k, "impossible key", nil, platform.LabelRequirement{Key: "\x00"})
				expect(k, "impossible key absent", []string{"1", "2", "3", "4"},
					platform.LabelRequirement{Key: "\xff", Op: platform.LabelAbsent})
				expect(k, "impossible value", []string{"1"}, env(platform.LabelIn, "\x00", "prod"))
				n.expect(k, platform.Query{Labels: []platform.LabelRequirement{env(platform.LabelExists)},
					Where: []platform.Cond{platform.In("guid", "2", "4")}}, "with a condition", "2")
			})

			k.update(func(tx platform.Tx) error {
				row, err := n.repo(tx).Get("1")
				if err != nil {
					return err
				}
				meta(row).Labels = map[string]string{"env": "test", "new": "x"}
				return n.repo(tx).Update(row)
			})
			expect(k, "after a change", []string{"1", "2"}, env(platform.LabelIn, "test"))
			expect(k, "one that is gone", nil, platform.LabelRequirement{Key: "example.org/team"})
			k.update(func(tx platform.Tx) error { return n.repo(tx).Delete("1") })
			n.insert(k, make(1, nil))
			expect(k, "made anew", []string{"1", "3", "4"}, env(platform.LabelNotIn, "test"))
			k.update(func(tx platform.Tx) error {
				removed, err := n.repo(tx).DeleteAll(platform.Query{Labels: []platform.LabelRequirement{env(platform.LabelExists)}})
				if removed != 2 {
					k.Errorf("%d deleted by label", removed)
				}
				return err
			})
			expect(k, "after that", nil, env(platform.LabelExists))
			n.expect(k, platform.Query{}, "what is left", "1", "4")
		})
}
