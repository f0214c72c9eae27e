package storetest

import (
	"slices"
	"testing"
	"time"

	"ingot/internal/cf"
	"ingot/internal/fault"
)

// Conformance runs the suite on stores from open, which returns a new empty one
// each time.
func Conformance(t *testing.T, open func(t *testing.T) cf.Store) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(k *kit)
	}{
		{"RoundTrip", testRoundTrip},
		{"Fields", testFields},
		{"Times", testTimes},
		{"Conditions", testConditions},
		{"Mistakes", testMistakes},
		{"VirtualFields", testVirtualFields},
		{"Names", testNames},
		{"WithoutSecrets", testWithoutSecrets},
		{"Order", testOrder},
		{"Pages", testPages},
		{"BigLists", testBigLists},
		{"Labels", testLabels},
		{"Visibility", testVisibility},
		{"SharedVisibility", testSharedVisibility},
		{"Marketplace", testMarketplace},
		{"Services", testServices},
		{"Quotas", testQuotas},
		{"Conflicts", testConflicts},
		{"NotFound", testNotFound},
		{"DeleteAll", testDeleteAll},
		{"Transactions", testTransactions},
		{"ReadOnly", testReadOnly},
		{"ConcurrentUpdates", testConcurrentUpdates},
		{"ConcurrentInserts", testConcurrentInserts},
		{"JobsAreTakenOnce", testJobsAreTakenOnce},
		{"Texts", testTexts},
		{"FeatureFlags", testFeatureFlags},
		{"EnvGroups", testEnvGroups},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.run(&kit{T: t, store: open(t)})
		})
	}
}

// moment has nanoseconds, which a store must keep.
var moment = time.Date(2026, 3, 1, 12, 30, 45, 123456789, time.UTC)

// kit is what a part of the suite works with.
type kit struct {
	*testing.T
	store cf.Store
	tx    cf.Tx // that view uses, when there is one
}

// sub is the kit for a sub-test on the same store.
func (k *kit) sub(t *testing.T) *kit { return &kit{T: t, store: k.store} }

// within runs f with a kit that has one transaction for all it looks at: that
// is much faster.
func (k *kit) within(f func(k *kit)) {
	k.Helper()
	k.view(func(tx cf.Tx) error {
		f(&kit{T: k.T, store: k.store, tx: tx})
		return nil
	})
}

func (k *kit) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// update runs f in a transaction that must succeed.
func (k *kit) update(f func(tx cf.Tx) error) {
	k.Helper()
	k.must(k.store.Update(k.Context(), f))
}

// view runs f in a transaction that must succeed.
func (k *kit) view(f func(tx cf.Tx) error) {
	k.Helper()
	if k.tx != nil {
		k.must(f(k.tx))
		return
	}
	k.must(k.store.View(k.Context(), f))
}

// refused runs f in a transaction that must fail with a code.
func (k *kit) refused(code fault.Code, what string, f func(tx cf.Tx) error) {
	k.Helper()
	if err := k.store.Update(k.Context(), f); !fault.Is(err, code) {
		k.Errorf("%s: %v, want %s", what, err, code)
	}
}

// noun is one kind of resource.
type noun[T any] struct {
	repo func(cf.Tx) cf.Repo[T]
	base func(*T) *cf.Resource
}

func (n noun[T]) insert(k *kit, rows ...*T) {
	k.Helper()
	k.update(func(tx cf.Tx) error {
		for _, row := range rows {
			if err := n.repo(tx).Insert(row); err != nil {
				return err
			}
		}
		return nil
	})
}

func (n noun[T]) get(k *kit, guid string) (row *T) {
	k.Helper()
	k.view(func(tx cf.Tx) (err error) {
		row, err = n.repo(tx).Get(guid)
		return err
	})
	return row
}

// guids lists what q selects, and sees that Count and First agree.
func (n noun[T]) guids(k *kit, q cf.Query) (guids []string) {
	k.Helper()
	k.view(func(tx cf.Tx) error {
		guids = nil
		page, total, err := n.repo(tx).List(q)
		if err != nil {
			return err
		}
		for _, row := range page {
			guids = append(guids, n.base(row).GUID)
		}
		counted, err := n.repo(tx).Count(q)
		if err != nil {
			return err
		}
		if counted != total || q.PerPage == 0 && total != len(page) {
			k.Errorf("%+v: %d listed, %d in all, %d counted", q, len(page), total, counted)
		}
		first, err := n.repo(tx).First(q)
		switch {
		case total == 0 && !fault.Is(err, fault.NotFound):
			k.Errorf("%+v: the first of none is %v, %v", q, first, err)
		case total == 0:
		case err != nil:
			return err
		case q.Page <= 1 && n.base(first).GUID != guids[0]:
			k.Errorf("%+v: first is %s, the list is %v", q, n.base(first).GUID, guids)
		}
		return nil
	})
	return guids
}

// expect compares the guids that q selects, in any order.
func (n noun[T]) expect(k *kit, q cf.Query, what string, want ...string) {
	k.Helper()
	got := slices.Sorted(slices.Values(n.guids(k, q)))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		k.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// The kinds of resource.
var (
	organizations = noun[cf.Organization]{cf.Tx.Organizations, (*cf.Organization).Base}
	spaces        = noun[cf.Space]{cf.Tx.Spaces, (*cf.Space).Base}
	orgQuotas     = noun[cf.OrganizationQuota]{cf.Tx.OrganizationQuotas, (*cf.OrganizationQuota).Base}
	spaceQuotas   = noun[cf.SpaceQuota]{cf.Tx.SpaceQuotas, (*cf.SpaceQuota).Base}
	users         = noun[cf.User]{cf.Tx.Users, (*cf.User).Base}
	roles         = noun[cf.Role]{cf.Tx.Roles, (*cf.Role).Base}
	domains       = noun[cf.Domain]{cf.Tx.Domains, (*cf.Domain).Base}
	routes        = noun[cf.Route]{cf.Tx.Routes, (*cf.Route).Base}
	destinations  = noun[cf.Destination]{cf.Tx.Destinations, (*cf.Destination).Base}
	apps          = noun[cf.App]{cf.Tx.Apps, (*cf.App).Base}
	processes     = noun[cf.Process]{cf.Tx.Processes, (*cf.Process).Base}
	sidecars      = noun[cf.Sidecar]{cf.Tx.Sidecars, (*cf.Sidecar).Base}
	packages      = noun[cf.Package]{cf.Tx.Packages, (*cf.Package).Base}
	builds        = noun[cf.Build]{cf.Tx.Builds, (*cf.Build).Base}
	droplets      = noun[cf.Droplet]{cf.Tx.Droplets, (*cf.Droplet).Base}
	deployments   = noun[cf.Deployment]{cf.Tx.Deployments, (*cf.Deployment).Base}
	tasks         = noun[cf.Task]{cf.Tx.Tasks, (*cf.Task).Base}
	instances     = noun[cf.Instance]{cf.Tx.Instances, (*cf.Instance).Base}
	buildpacks    = noun[cf.Buildpack]{cf.Tx.Buildpacks, (*cf.Buildpack).Base}
	stacks        = noun[cf.Stack]{cf.Tx.Stacks, (*cf.Stack).Base}
	auditEvents   = noun[cf.AuditEvent]{cf.Tx.AuditEvents, (*cf.AuditEvent).Base}
	jobs          = noun[cf.Job]{cf.Tx.Jobs, (*cf.Job).Base}

	serviceBrokers   = noun[cf.ServiceBroker]{cf.Tx.ServiceBrokers, (*cf.ServiceBroker).Base}
	serviceOfferings = noun[cf.ServiceOffering]{cf.Tx.ServiceOfferings, (*cf.ServiceOffering).Base}
	servicePlans     = noun[cf.ServicePlan]{cf.Tx.ServicePlans, (*cf.ServicePlan).Base}
	serviceInstances = noun[cf.ServiceInstance]{cf.Tx.ServiceInstances, (*cf.ServiceInstance).Base}
	serviceBindings  = noun[cf.ServiceBinding]{cf.Tx.ServiceBindings, (*cf.ServiceBinding).Base}
)
