package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// testConflicts breaks every unique rule, by insert and by update.
func testConflicts(k *kit) {
	checkConflicts(k, "Organization", organizations,
		[]platform.Organization{{Name: "Org"}}, []platform.Organization{{Name: "oRG"}},
		[]platform.Organization{{Name: "org2"}, {Name: "ÖRG"}, {Name: "örg"}})
	checkConflicts(k, "Space", spaces,
		[]platform.Space{{Name: "Dev", OrgGUID: "o"}}, []platform.Space{{Name: "dev", OrgGUID: "o"}},
		[]platform.Space{{Name: "Dev", OrgGUID: "p"}})
	checkQuotaConflicts(k)
	checkConflicts(k, "NetworkPolicy", policies,
		[]platform.NetworkPolicy{{SourceApp: "a", DestApp: "b", Protocol: "tcp", FirstPort: 1, LastPort: 2}},
		[]platform.NetworkPolicy{{SourceApp: "a", DestApp: "b", Protocol: "tcp", FirstPort: 1, LastPort: 2}},
		[]platform.NetworkPolicy{{SourceApp: "b", DestApp: "a", Protocol: "tcp", FirstPort: 1, LastPort: 2},
			{SourceApp: "a", DestApp: "b", Protocol: "udp", FirstPort: 1, LastPort: 2},
			{SourceApp: "a", DestApp: "b", Protocol: "tcp", FirstPort: 1, LastPort: 3}})
	checkConflicts(k, "SecurityGroup", secGroups,
		[]platform.SecurityGroup{{Name: "Public"}}, []platform.SecurityGroup{{Name: "public"}},
		[]platform.SecurityGroup{{Name: "private"}})
	checkConflicts(k, "User", users, []platform.User{{}}, nil, []platform.User{{}})
	checkConflicts(k, "Role", roles,
		[]platform.Role{{Type: platform.OrgUser, UserGUID: "u", OrgGUID: "o"}, {Type: platform.SpaceManager, UserGUID: "u",
			SpaceGUID: "s"}},
		[]platform.Role{{Type: platform.OrgUser, UserGUID: "u", OrgGUID: "o"}, {Type: platform.SpaceManager, UserGUID: "u",
			SpaceGUID: "s"}},
		[]platform.Role{{Type: platform.OrgManager, UserGUID: "u", OrgGUID: "o"}, {Type: platform.OrgUser, UserGUID: "v",
			OrgGUID: "o"}, {Type: platform.OrgUser, UserGUID: "u", OrgGUID: "p"}})
	checkConflicts(k, "Domain", domains,
		[]platform.Domain{{Name: "example.org"}}, []platform.Domain{{Name: "Example.org", OrgGUID: "o"}},
		[]platform.Domain{{Name: "www.example.org"}})
	checkConflicts(k, "Route", routes,
		[]platform.Route{{DomainGUID: "d", Host: "www", Path: "/a", SpaceGUID: "s"}, {DomainGUID: "t", Port: 1024}},
		[]platform.Route{{DomainGUID: "d", Host: "WWW", Path: "/a", SpaceGUID: "other"}, {DomainGUID: "t", Port: 1024}},
		[]platform.Route{{DomainGUID: "d", Host: "www"}, {DomainGUID: "d", Path: "/a"}, {DomainGUID: "t", Port: 1025},
			{DomainGUID: "e", Host: "www", Path: "/a"}})
	checkConflicts(k, "App", apps,
		[]platform.App{{Name: "App", SpaceGUID: "s"}}, []platform.App{{Name: "aPP", SpaceGUID: "s"}},
		[]platform.App{{Name: "App", SpaceGUID: "r"}})
	checkConflicts(k, "Process", processes,
		[]platform.Process{{AppGUID: "a", Type: "worker"}, {AppGUID: "a", Type: "web"}},
		[]platform.Process{{AppGUID: "a", Type: "worker"}},
		[]platform.Process{{AppGUID: "a", Type: "Worker"}, {AppGUID: "b", Type: "worker"}, {AppGUID: "a", Type: "web"}})
	checkConflicts(k, "Sidecar", sidecars,
		[]platform.Sidecar{{AppGUID: "a", Name: "x"}}, []platform.Sidecar{{AppGUID: "a", Name: "x"}},
		[]platform.Sidecar{{AppGUID: "b", Name: "x"}, {AppGUID: "a", Name: "X"}})
	checkConflicts(k, "Revision", revisions,
		[]platform.Revision{{AppGUID: "a", Version: 1}}, []platform.Revision{{AppGUID: "a", Version: 1, Description: "x"}},
		[]platform.Revision{{AppGUID: "a", Version: 2}, {AppGUID: "b", Version: 1}})
	checkConflicts(k, "Task", tasks,
		[]platform.Task{{AppGUID: "a", Sequence: 1}}, []platform.Task{{AppGUID: "a", Sequence: 1, Name: "x"}},
		[]platform.Task{{AppGUID: "a", Sequence: 2}, {AppGUID: "b", Sequence: 1}})
	checkConflicts(k, "Buildpack", buildpacks,
		[]platform.Buildpack{{Name: "go", Stack: "s"}}, []platform.Buildpack{{Name: "Go", Stack: "s"}},
		[]platform.Buildpack{{Name: "go"}, {Name: "go", Stack: "t"}})
	checkConflicts(k, "Stack", stacks, []platform.Stack{{Name: "linux"}}, []platform.Stack{{Name: "Linux"}},
		[]platform.Stack{{Name: "linux5"}})
	checkConflicts(k, "Instance", instances,
		[]platform.Instance{{ProcessGUID: "p", Index: 1, Version: "v"}}, nil,
		[]platform.Instance{{ProcessGUID: "p", Index: 1, Version: "v"}})
	checkConflicts(k, "InstanceRestart", instanceRestarts, []platform.InstanceRestart{{}}, nil,
		[]platform.InstanceRestart{{}})
	checkConflicts(k, "Destination", destinations, []platform.Destination{{}}, nil, []platform.Destination{{}})
	checkConflicts(k, "Job", jobs, []platform.Job{{}}, nil, []platform.Job{{}})
	checkServiceConflicts(k)
}

func checkConflicts[T any](k *kit, name string, n noun[T], there, taken, free []T) {
	k.Run(name, func(t *testing.T) { //nolint:paralleltest // they share one store
		k := k.sub(t)
		for i := range there {
			n.insert(k, &there[i])
		}
		again := there[0]
		k.refused(fault.Conflict, "the same guid", func(tx platform.Tx) error { return n.repo(tx).Insert(&again) })
		for i := range taken {
			row := taken[i]
			k.refused(fault.Conflict, "insert", func(tx platform.Tx) error { return n.repo(tx).Insert(&row) })
		}
		for i := range free {
			row := free[i]
			n.insert(k, &row)
		}
		for i := range taken {
			row := new(T)
			n.base(row).GUID = fmt.Sprint("moving", i)
			n.insert(k, row)
			guid := n.base(row).GUID
			*row = taken[i]
			n.base(row).GUID = guid
			k.refused(fault.Conflict, "update", func(tx platform.Tx) error { return n.repo(tx).Update(row) })
			k.update(func(tx platform.Tx) error { return n.repo(tx).Delete(guid) })
		}
		// It may stay what it is.
		k.update(func(tx platform.Tx) error { return n.repo(tx).Update(&there[0]) })
	})
}

// testNotFound looks for what is not there.
func testNotFound(k *kit) {
	for _, guid := range []string{"", "none", "a\x00b", "\xff", "' OR '1'='1"} {
		k.refused(fault.NotFound, "get", func(tx platform.Tx) error { _, err := tx.Apps().Get(guid); return err })
		k.refused(fault.NotFound, "first", func(tx platform.Tx) error {
			_, err := tx.Apps().
				First(platform.Where("guid", guid))
			return err
		})
		k.refused(fault.NotFound, "delete", func(tx platform.Tx) error { return tx.Apps().Delete(guid) })
		k.refused(fault.NotFound, "delete a job", func(tx platform.Tx) error { return tx.Jobs().Delete(guid) })
		k.refused(fault.NotFound, "update", func(tx platform.Tx) error {
			return tx.Apps().Update(&platform.App{Resource: platform.Resource{GUID: guid}})
		})
		k.refused(fault.NotFound, "update a job", func(tx platform.Tx) error {
			return tx.Jobs().Update(&platform.Job{Resource: platform.Resource{GUID: guid}})
		})
	}
	// A transaction may go on after it did not find something.
	k.update(func(tx platform.Tx) error {
		if _, err := tx.Apps().Get("none"); !fault.Is(err, fault.NotFound) {
			return fmt.Errorf("get: %w", err)
		}
		if err := tx.Apps().Delete("a\x00b"); !fault.Is(err, fault.NotFound) {
			return fmt.Errorf("delete: %w", err)
		}
		return tx.Apps().Insert(&platform.App{})
	})
}

// testDeleteAll sees that what matches goes, and nothing else.
func testDeleteAll(k *kit) {
	build(k)
	deleted := func(what string, want int, f func(tx platform.Tx) (int, error)) {
		k.Helper()
		k.update(func(tx platform.Tx) error {
			n, err := f(tx)
			if n != want {
				k.Errorf("%s: %d deleted, want %d", what, n, want)
			}
			return err
		})
	}
	deleted("none", 0, func(tx platform.Tx) (int, error) { return tx.Apps().DeleteAll(platform.Where("guid")) })
	deleted("by space", 2, func(tx platform.Tx) (int, error) {
		return tx.Droplets().DeleteAll(platform.Where("space_guid", "space-a1"))
	})
	droplets.expect(k, platform.Query{}, "droplets", "droplet-a2", "older-a2", "droplet-b1", "older-b1")
	deleted("by organization", 2, func(tx platform.Tx) (int, error) {
		return tx.Instances().DeleteAll(platform.Where("organization_guid", "org-a"))
	})
	instances.expect(k, platform.Query{}, "instances", "instance-b1")
	deleted("unmapped", 0, func(tx platform.Tx) (int, error) {
		return tx.Routes().
			DeleteAll(platform.Where("unmapped", true))
	})
	deleted("destinations", 1, func(tx platform.Tx) (int, error) {
		return tx.Destinations().DeleteAll(platform.Where("app_guid", "app-a2"))
	})
	deleted("now unmapped", 1, func(tx platform.Tx) (int, error) {
		return tx.Routes().
			DeleteAll(platform.Where("unmapped", true))
	})
	routes.expect(k, platform.Query{}, "routes", "route-a1", "route-b1")
	// Order and page are of no account.
	deleted("all", 3, func(tx platform.Tx) (int, error) {
		return tx.Apps().DeleteAll(platform.Query{Order: "name", Page: 2, PerPage: 1})
	})
	apps.expect(k, platform.Query{}, "apps")
	processes.expect(k, platform.Query{}, "what belonged to them", "process-a1", "process-a2", "process-b1")
}

// testTransactions sees that a transaction over several nouns happens as a
// whole, sees its own writes, and is not seen before its end.
func testTransactions(k *kit) {
	stop := errors.New("stop")
	whole := func(tx platform.Tx) error {
		if err := tx.Organizations().Insert(&platform.Organization{Resource: platform.Resource{GUID: "o"}, Name: "o",
			Metadata: platform.Metadata{Labels: map[string]string{"k": "v"}}}); err != nil {
			return err
		}
		if err := tx.Spaces().Insert(&platform.Space{Resource: platform.Resource{GUID: "s"}, Name: "s",
			OrgGUID: "o"}); err != nil {
			return err
		}
		if err := tx.SetFeatureFlag(platform.FeatureFlag{Name: "f", Enabled: true}); err != nil {
			return err
		}
		found, err := tx.Spaces().First(platform.Where("organization_guid", "o"))
		if err == nil && found.Name != "s" {
			err = fmt.Errorf("found %+v", found)
		}
		return err
	}
	if err := k.store.Update(k.Context(), func(tx platform.Tx) error {
		if err := whole(tx); err != nil {
			return err
		}
		return stop
	}); !errors.Is(err, stop) {
		k.Errorf("the error of the function comes back as %v", err)
	}
	nothing := func(when string) {
		k.Helper()
		organizations.expect(k, platform.Query{}, when)
		organizations.expect(k, selecting("k", platform.LabelExists), when+", by label")
		spaces.expect(k, platform.Query{}, when)
		k.view(func(tx platform.Tx) error {
			flags, err := tx.FeatureFlags()
			if len(flags) > 0 {
				k.Errorf("%s: flags %v", when, flags)
			}
			return err
		})
	}
	nothing("after an error")
	func() {
		defer func() { recover() }()                             //nolint:errcheck // it is ours
		k.store.Update(k.Context(), func(tx platform.Tx) error { //nolint:errcheck // it panics
			k.must(whole(tx))
			panic("stop")
		})
	}()
	nothing("after a panic")
	k.refused(fault.Conflict, "a conflict at the end", func(tx platform.Tx) error {
		if err := whole(tx); err != nil {
			return err
		}
		return tx.Spaces().Insert(&platform.Space{Name: "S", OrgGUID: "o"})
	})
	nothing("after a conflict")
	cancelled, cancel := context.WithCancel(k.Context())
	if err := k.store.Update(cancelled, func(tx platform.Tx) error {
		if err := whole(tx); err != nil {
			return err
		}
		cancel()
		_, err := tx.Spaces().Get("s")
		return err
	}); !errors.Is(err, context.Canceled) {
		k.Errorf("cancelled: %v", err)
	}
	nothing("after a cancel")

	k.update(func(tx platform.Tx) error {
		if tx.Context() == nil || tx.Context().Err() != nil {
			k.Error("no context")
		}
		if err := whole(tx); err != nil {
			return err
		}
		nothing("before the end")
		return nil
	})
	spaces.expect(k, platform.Query{}, "after the end", "s")

	// View sees one moment.
	k.view(func(tx platform.Tx) error {
		if _, err := tx.Spaces().Get("s"); err != nil {
			return err
		}
		k.update(func(tx platform.Tx) error { return tx.Spaces().Delete("s") })
		_, err := tx.Spaces().Get("s")
		return err
	})
	spaces.expect(k, platform.Query{}, "after the delete")
}

// testReadOnly sees that a View writes nothing.
func testReadOnly(k *kit) {
	build(k)
	for what, f := range map[string]func(tx platform.Tx) error{
		"insert": func(tx platform.Tx) error { return tx.Apps().Insert(&platform.App{}) },
		"update": func(tx platform.Tx) error {
			return tx.Apps().Update(&platform.App{Resource: platform.Resource{GUID: "app-a1"}})
		},
		"delete":     func(tx platform.Tx) error { return tx.Apps().Delete("app-a1") },
		"delete all": func(tx platform.Tx) error { _, err := tx.Apps().DeleteAll(platform.Query{}); return err },
		"flag":       func(tx platform.Tx) error { return tx.SetFeatureFlag(platform.FeatureFlag{Name: "x"}) },
		"group":      func(tx platform.Tx) error { return tx.SetEnvGroup(platform.EnvGroup{Name: "x"}) },
	} {
		if err := k.store.View(k.Context(), f); err == nil {
			k.Errorf("%s in a View did not fail", what)
		}
	}
	apps.expect(k, platform.Query{}, "apps", "app-a1", "app-a2", "app-b1")
}

// together runs f in many goroutines and waits for them.
func (k *kit) together(n int, f func(worker int) error) {
	k.Helper()
	var wg sync.WaitGroup
	failures := make([]error, n)
	for i := range n {
		wg.Go(func() { failures[i] = f(i) })
	}
	wg.Wait()
	k.must(errors.Join(failures...))
}

// testConcurrentUpdates sees that no update of a row is lost.
func testConcurrentUpdates(k *kit) {
	const workers, rounds = 8, 5
	processes.insert(k, &platform.Process{Resource: platform.Resource{GUID: "p"}})
	k.together(workers, func(worker int) error {
		for round := range rounds {
			err := k.store.Update(k.Context(), func(tx platform.Tx) error {
				p, err := tx.Processes().Get("p")
				if err != nil {
					return err
				}
				p.Instances++
				p.Labels = map[string]string{"last": fmt.Sprint(worker, "-", round)}
				return tx.Processes().Update(p)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	p := processes.get(k, "p")
	if p.Instances != workers*rounds {
		k.Errorf("%d updates are left of %d", p.Instances, workers*rounds)
	}
	processes.expect(k, selecting("last", platform.LabelIn, p.Labels["last"]), "by the last label", "p")
}

// testConcurrentInserts sees that of many who want a name one gets it, and that
// a limit that is looked at before each insert holds.
func testConcurrentInserts(k *kit) {
	const workers, limit = 8, 3
	var mu sync.Mutex
	won := 0
	k.together(workers, func(int) error {
		err := k.store.Update(k.Context(), func(tx platform.Tx) error {
			return tx.Organizations().
				Insert(&platform.Organization{Name: "only"})
		})
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			won++
		case !fault.Is(err, fault.Conflict):
			return err
		}
		return nil
	})
	if won != 1 {
		k.Errorf("%d got the name", won)
	}
	k.together(workers, func(worker int) error {
		return k.store.Update(k.Context(), func(tx platform.Tx) error {
			n, err := tx.Spaces().Count(platform.Where("organization_guid", "o"))
			if err != nil || n >= limit {
				return err
			}
			return tx.Spaces().Insert(&platform.Space{Name: fmt.Sprint(worker), OrgGUID: "o"})
		})
	})
	if n := len(spaces.guids(k, platform.Query{})); n != limit {
		k.Errorf("%d spaces, the limit is %d", n, limit)
	}
}

// testJobsAreTakenOnce takes jobs as workers do: the first that is due and
// has no lease, in one transaction.
func testJobsAreTakenOnce(k *kit) {
	const workers, many = 8, 40
	now := time.Now()
	k.update(func(tx platform.Tx) error {
		for i := range many {
			j := &platform.Job{
				Resource: platform.Resource{GUID: fmt.Sprint("job-", i)}, State: platform.JobProcessing,
				Due:     now.Add(-time.Duration(i) * time.Second),
				Payload: fmt.Appendf(nil, "payload %d", i),
			}
			switch {
			case i%5 == 1:
				j.State, j.Lease = platform.JobPolling, now.Add(-time.Second) // its worker is gone
			case i%5 == 2:
				j.Due = time.Time{} // at once
			}
			if err := tx.Jobs().Insert(j); err != nil {
				return err
			}
		}
		for guid, j := range map[string]platform.Job{
			"later": {State: platform.JobProcessing, Due: now.Add(time.Hour)},
			"taken": {State: platform.JobProcessing, Lease: now.Add(time.Hour)},
			"done":  {State: platform.JobComplete}, "failed": {State: platform.JobFailed},
		} {
			j.GUID = guid
			if err := tx.Jobs().Insert(&j); err != nil {
				return err
			}
		}
		return nil
	})
	free := platform.Where("state", platform.JobProcessing, platform.JobPolling).
		And(platform.Cond{Field: "due", Op: platform.OpLessEqual, Values: []any{now}}).
		And(platform.Cond{Field: "lease", Op: platform.OpLess, Values: []any{now}})
	free.Order = "due"

	var mu sync.Mutex
	times := map[string]int{}
	k.together(workers, func(worker int) error {
		for {
			var job *platform.Job
			err := k.store.Update(k.Context(), func(tx platform.Tx) (err error) {
				if job, err = tx.Jobs().First(free); err != nil {
					return err
				}
				job.Lease, job.Worker, job.Attempt = now.Add(time.Hour), fmt.Sprint(worker), job.Attempt+1
				return tx.Jobs().Update(job)
			})
			if fault.Is(err, fault.NotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			times[job.GUID]++
			mu.Unlock()
		}
	})
	for guid, n := range times {
		if n != 1 {
			k.Errorf("%s was taken %d times", guid, n)
		}
		if j := jobs.get(k, guid); j.Attempt != 1 || string(j.Payload) != "payload "+guid[len("job-"):] {
			k.Errorf("%s: %+v", guid, j)
		}
	}
	if len(times) != many {
		k.Errorf("%d of %d jobs were taken", len(times), many)
	}
}

// testTexts stores texts that were made to break out of SQL, JSON or patterns.
func testTexts(k *kit) {
	texts := []string{
		"'; DROP TABLE platform_apps; --", `" OR ""="`, `\`, `%`, `_`, "?", "??", "$1", ":a", "{}", "null", `{"a":1}`,
		"--", "/*", "*/",
		"日本語", "🦊", "e\u0301", "é", "\u202etxet", " leading", "trailing ", "a\nb\tc", "<script>&amp;", "\u007f", "\ufffd",
	}
	for i, text := range texts {
		a := &platform.App{
			Resource: platform.Resource{GUID: text}, Name: text, SpaceGUID: "s", Env: map[string]string{text: text},
			Metadata: platform.Metadata{Labels: map[string]string{text: text}, Annotations: map[string]string{text: text}},
		}
		apps.insert(k, a)
		same(k, text, a, apps.get(k, text))
		for field, q := range map[string]platform.Query{
			"guid": platform.Where("guid", text), "name": platform.Where("name", text),
			"label": selecting(text, platform.LabelIn, text),
			"both":  platform.Where("name", text, "none").And(platform.In("guid", "none", text)),
		} {
			apps.expect(k, q, fmt.Sprintf("%q by %s", text, field), text)
		}
		if n := len(apps.guids(k, platform.Query{})); n != i+1 {
			k.Fatalf("%q: %d apps", text, n)
		}
	}
	sorted := slices.Sorted(slices.Values(texts))
	if got := apps.guids(k, platform.Query{Order: "guid"}); !slices.Equal(got, sorted) {
		k.Errorf("by guid: %q, want %q", got, sorted)
	}
	for what, a := range map[string]*platform.App{
		"NUL": {Name: "a\x00b"}, "no UTF-8": {Name: "\xff"},
		"in the guid": {Resource: platform.Resource{GUID: "\x00"}, Name: "x"},
		"in a label":  {Name: "y", Metadata: platform.Metadata{Labels: map[string]string{"k": "\x00"}}},
	} {
		k.refused(fault.Unprocessable, what, func(tx platform.Tx) error { return tx.Apps().Insert(a) })
	}
}

func testFeatureFlags(k *kit) {
	k.view(func(tx platform.Tx) error {
		flags, err := tx.FeatureFlags()
		if len(flags) > 0 {
			k.Errorf("at first: %v", flags)
		}
		return err
	})
	set := func(f platform.FeatureFlag) {
		k.Helper()
		k.update(func(tx platform.Tx) error { return tx.SetFeatureFlag(f) })
	}
	set(platform.FeatureFlag{Name: "b", Enabled: true, CustomErrorMessage: "ask 'Anna'"})
	set(platform.FeatureFlag{Name: "a", Enabled: true})
	set(platform.FeatureFlag{Name: "a", CustomErrorMessage: "no", Updated: moment})
	k.view(func(tx platform.Tx) error {
		flags, err := tx.FeatureFlags()
		for i, f := range flags {
			if time.Since(f.Updated).Abs() > time.Minute {
				k.Errorf("updated at %v", f.Updated)
			}
			flags[i].Updated = time.Time{}
		}
		if want := []platform.FeatureFlag{{Name: "a", CustomErrorMessage: "no"},
			{Name: "b", Enabled: true, CustomErrorMessage: "ask 'Anna'"}}; !slices.Equal(flags, want) {
			k.Errorf("got %+v, want %+v", flags, want)
		}
		return err
	})
}

func testEnvGroups(k *kit) {
	check := func(name string, want map[string]string, set bool) {
		k.Helper()
		k.view(func(tx platform.Tx) error {
			g, err := tx.EnvGroup(name)
			if g.Name != name || fmt.Sprint(g.Var) != fmt.Sprint(want) || g.Updated.IsZero() == set {
				k.Errorf("%s: got %+v, want %v", name, g, want)
			}
			return err
		})
	}
	check("running", nil, false)
	k.update(func(tx platform.Tx) error {
		return tx.SetEnvGroup(platform.EnvGroup{Name: "running", Var: map[string]string{"A": "é'\n", "B": ""}})
	})
	k.update(func(tx platform.Tx) error {
		return tx.SetEnvGroup(platform.EnvGroup{Name: "staging", Var: map[string]string{"C": "3"}, Updated: moment})
	})
	check("running", map[string]string{"A": "é'\n", "B": ""}, true)
	check("staging", map[string]string{"C": "3"}, true)
	k.update(func(tx platform.Tx) error { return tx.SetEnvGroup(platform.EnvGroup{Name: "running"}) })
	check("running", nil, true)
	check("staging", map[string]string{"C": "3"}, true)
}
