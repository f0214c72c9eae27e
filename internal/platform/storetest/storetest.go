package storetest

import (
	"slices"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// Conformance runs the suite on stores from open, which returns a new empty one
// each time.
func Conformance(t *testing.T, open func(t *testing.T) platform.Store) {
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
		{"Permissions", testPermissions},
		{"Marketplace", testMarketplace},
		{"Services", testServices},
		{"Quotas", testQuotas},
		{"Segments", testSegments},
		{"SecurityGroups", testSecurityGroups},
		{"NetworkPolicies", testNetworkPolicies},
		{"Once", testOnce},
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
	store platform.Store
	tx    platform.Tx // that view uses, when there is one
}

// sub is the kit for a sub-test on the same store.
func (k *kit) sub(t *testing.T) *kit { return &kit{T: t, store: k.store} }

// within runs f with a kit that has one transaction for all it looks at: that
// is much faster.
func (k *kit) within(f func(k *kit)) {
	k.Helper()
	k.view(func(tx platform.Tx) error {
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
func (k *kit) update(f func(tx platform.Tx) error) {
	k.Helper()
	k.must(k.store.Update(k.Context(), f))
}

// view runs f in a transaction that must succeed.
func (k *kit) view(f func(tx platform.Tx) error) {
	k.Helper()
	if k.tx != nil {
		k.must(f(k.tx))
		return
	}
	k.must(k.store.View(k.Context(), f))
}

// refused runs f in a transaction that must fail with a code.
func (k *kit) refused(code fault.Code, what string, f func(tx platform.Tx) error) {
	k.Helper()
	if err := k.store.Update(k.Context(), f); !fault.Is(err, code) {
		k.Errorf("%s: %v, want %s", what, err, code)
	}
}

// noun is one kind of resource.
type noun[T any] struct {
	repo func(platform.Tx) platform.Repo[T]
	base func(*T) *platform.Resource
}

func (n noun[T]) insert(k *kit, rows ...*T) {
	k.Helper()
	k.update(func(tx platform.Tx) error {
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
	k.view(func(tx platform.Tx) (err error) {
		row, err = n.repo(tx).Get(guid)
		return err
	})
	return row
}

// guids lists what q selects, and sees that Count and First agree.
func (n noun[T]) guids(k *kit, q platform.Query) (guids []string) {
	k.Helper()
	k.view(func(tx platform.Tx) error {
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
func (n noun[T]) expect(k *kit, q platform.Query, what string, want ...string) {
	k.Helper()
	got := slices.Sorted(slices.Values(n.guids(k, q)))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		k.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// The kinds of resource.
var (
	organizations = noun[platform.Organization]{platform.Tx.Organizations, (*platform.Organization).Base}
	spaces        = noun[platform.Space]{platform.Tx.Spaces, (*platform.Space).Base}
	orgQuotas     = noun[platform.OrganizationQuota]{platform.Tx.OrganizationQuotas, (*platform.OrganizationQuota).Base}
	spaceQuotas   = noun[platform.SpaceQuota]{platform.Tx.SpaceQuotas, (*platform.SpaceQuota).Base}
	segments      = noun[platform.IsolationSegment]{platform.Tx.IsolationSegments, (*platform.IsolationSegment).Base}
	secGroups     = noun[platform.SecurityGroup]{platform.Tx.SecurityGroups, (*platform.SecurityGroup).Base}
	policies      = noun[platform.NetworkPolicy]{platform.Tx.NetworkPolicies, (*platform.NetworkPolicy).Base}
	users         = noun[platform.User]{platform.Tx.Users, (*platform.User).Base}
	roles         = noun[platform.Role]{platform.Tx.Roles, (*platform.Role).Base}
	domains       = noun[platform.Domain]{platform.Tx.Domains, (*platform.Domain).Base}
	routes        = noun[platform.Route]{platform.Tx.Routes, (*platform.Route).Base}
	destinations  = noun[platform.Destination]{platform.Tx.Destinations, (*platform.Destination).Base}
	apps          = noun[platform.App]{platform.Tx.Apps, (*platform.App).Base}
	processes     = noun[platform.Process]{platform.Tx.Processes, (*platform.Process).Base}
	sidecars      = noun[platform.Sidecar]{platform.Tx.Sidecars, (*platform.Sidecar).Base}
	packages      = noun[platform.Package]{platform.Tx.Packages, (*platform.Package).Base}
	builds        = noun[platform.Build]{platform.Tx.Builds, (*platform.Build).Base}
	droplets      = noun[platform.Droplet]{platform.Tx.Droplets, (*platform.Droplet).Base}
	deployments   = noun[platform.Deployment]{platform.Tx.Deployments, (*platform.Deployment).Base}
	revisions     = noun[platform.Revision]{platform.Tx.Revisions, (*platform.Revision).Base}
	tasks         = noun[platform.Task]{platform.Tx.Tasks, (*platform.Task).Base}
	instances     = noun[platform.Instance]{platform.Tx.Instances, (*platform.Instance).Base}
	buildpacks    = noun[platform.Buildpack]{platform.Tx.Buildpacks, (*platform.Buildpack).Base}
	stacks        = noun[platform.Stack]{platform.Tx.Stacks, (*platform.Stack).Base}
	auditEvents   = noun[platform.AuditEvent]{platform.Tx.AuditEvents, (*platform.AuditEvent).Base}
	jobs          = noun[platform.Job]{platform.Tx.Jobs, (*platform.Job).Base}

	appUsageEvents     = noun[platform.AppUsageEvent]{platform.Tx.AppUsageEvents, (*platform.AppUsageEvent).Base}
	serviceUsageEvents = noun[platform.ServiceUsageEvent]{platform.Tx.ServiceUsageEvents,
		(*platform.ServiceUsageEvent).Base}

	instanceRestarts = noun[platform.InstanceRestart]{platform.Tx.InstanceRestarts, (*platform.InstanceRestart).Base}
	serviceBrokers   = noun[platform.ServiceBroker]{platform.Tx.ServiceBrokers, (*platform.ServiceBroker).Base}
	serviceOfferings = noun[platform.ServiceOffering]{platform.Tx.ServiceOfferings, (*platform.ServiceOffering).Base}
	servicePlans     = noun[platform.ServicePlan]{platform.Tx.ServicePlans, (*platform.ServicePlan).Base}
	serviceInstances = noun[platform.ServiceInstance]{platform.Tx.ServiceInstances, (*platform.ServiceInstance).Base}
	serviceBindings  = noun[platform.ServiceBinding]{platform.Tx.ServiceBindings, (*platform.ServiceBinding).Base}
	rotations        = noun[platform.CredentialRotation]{platform.Tx.CredentialRotations,
		(*platform.CredentialRotation).Base}
	gitSources = noun[platform.GitSource]{platform.Tx.GitSources, (*platform.GitSource).Base}
)
