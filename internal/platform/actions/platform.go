package actions

import (
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/tracing"
	"ingot/internal/platform"
	"ingot/internal/platform/actions/metering"
)

// Platform holds what the actions need besides the transaction.
type Platform struct {
	Now func() time.Time
	// Began is when this server process did.
	Began time.Time
	// Defaults of new processes and of staging.
	MemoryMB, DiskMB, StagingMemoryMB, StagingDiskMB int
	// SystemDomain is the domain of the server's own host names. Domains at,
	// below and above it are for administrators.
	SystemDomain string
	// Reserved are the server's own host names: no route or domain may have
	// them, nor lie below.
	Reserved []string
	// TCP is the router group of TCP routes; the zero value means that there are none.
	TCP platform.RouterGroup
	// PortFree returns an error if a port cannot be opened for a new TCP route, because
	// another program has it; nil means that all can.
	PortFree func(port int) error
	// NoMemberLimits is why the memory and processor shares of single sidecars cannot be
	// enforced here, for users; empty if they can.
	NoMemberLimits string
	// Stack is the name of the stack of apps that name none.
	Stack string
}

// New returns the actions with their defaults.
func New() *Platform {
	return &Platform{
		Now: time.Now, Began: time.Now(), MemoryMB: platform.DefaultMemoryMB, DiskMB: platform.DefaultDiskMB,
		StagingMemoryMB: 1024, StagingDiskMB: 4096, Stack: "cflinuxfs4",
	}
}

// Actor is who does something, for the audit events.
type Actor struct {
	GUID string
	Type string // user, client, app, process
	Name string
	Mail string
	// Admin may do what would let others take over what is not theirs.
	Admin bool
	// Origin is the request of the actor.
	Origin tracing.Origin `json:",omitzero"`
}

// Target is what is done to, and where it is.
type Target struct {
	GUID, Type, Name   string
	SpaceGUID, OrgGUID string
}

// Record writes an audit event. One about an app is announced as a line of the
// app's log, if it has a text there.
func (p *Platform) Record(tx platform.Tx, kind string, by Actor, t Target, data map[string]any) error {
	if data == nil {
		data = map[string]any{}
	}
	e := &platform.AuditEvent{
		Type: kind, ActorGUID: by.GUID, ActorType: by.Type, ActorName: by.Name,
		TargetGUID: t.GUID, TargetType: t.Type, TargetName: t.Name, Data: data, SpaceGUID: t.SpaceGUID, OrgGUID: t.OrgGUID,
		Alerted: !platform.Alerting(kind),
	}
	if err := tx.AuditEvents().Insert(e); err != nil {
		return err
	}
	if lines := eventLines(e); len(lines) > 0 {
		tx.Announce(platform.Changes{Lines: lines})
	}
	return nil
}

// internalDomain is the domain of routes that only instances can reach, as in
// every Cloud Foundry.
const internalDomain = "apps.internal"

// EnsureDefaults stores what every platform has and does not exist yet: a stack,
// the shared domain of apps, the internal domain, the shared isolation segment,
// the default quota, usage events, and, at the first start, the default security
// groups.
func (p *Platform) EnsureDefaults(tx platform.Tx, domain string) error {
	if err := ensure(tx.Stacks(), platform.Where("name", p.Stack),
		&platform.Stack{Name: p.Stack, Description: "The system this server runs on", Default: true,
			State: platform.StackActive}); err != nil {
		return err
	}
	for _, d := range []*platform.Domain{{Name: appsDomain(domain)}, {Name: internalDomain, Internal: true}} {
		if err := ensure(tx.Domains(), platform.Where("name", d.Name), d); err != nil {
			return err
		}
	}
	for _, more := range []func(platform.Tx) error{ensureSecurityGroups, p.EnsureSharedSegment, metering.Ensure} {
		if err := more(tx); err != nil {
			return err
		}
	}
	_, err := p.EnsureDefaultQuota(tx)
	return err
}

// ensure inserts a resource if q finds none.
func ensure[T any](repo platform.Repo[T], q platform.Query, resource *T) error {
	_, err := repo.First(q)
	if fault.Is(err, fault.NotFound) {
		return repo.Insert(resource)
	}
	return err
}

// The organization and space of ingot up --demo.
const (
	demoOrg   = "demo"
	demoSpace = "dev"
)

// EnsureDemo creates an organization and a space to start with, with the user
// admin in both. It does nothing if the organization exists.
func (p *Platform) EnsureDemo(tx platform.Tx, adminGUID string) error {
	_, err := tx.Organizations().First(platform.Where("name", demoOrg))
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	by := Actor{GUID: adminGUID, Type: "user", Name: "admin"}
	org := &platform.Organization{Name: demoOrg}
	if err := p.CreateOrganization(tx, by, org); err != nil {
		return err
	}
	space := &platform.Space{Name: demoSpace, OrgGUID: org.GUID}
	if err := p.CreateSpace(tx, by, space); err != nil {
		return err
	}
	for _, t := range []platform.RoleType{platform.SpaceManager, platform.SpaceDeveloper} {
		if err := p.GiveRole(tx, by, &platform.Role{Type: t, UserGUID: adminGUID, SpaceGUID: space.GUID}); err != nil {
			return err
		}
	}
	return nil
}

// FirstSpace returns the names of the oldest space and its organization; without a space that of
// the oldest organization only.
func FirstSpace(tx platform.Tx) (org, space string, err error) {
	oldest := platform.Query{Page: 1, PerPage: 1}
	spaces, _, err := tx.Spaces().List(oldest)
	if err != nil {
		return "", "", err
	}
	orgs, _, err := tx.Organizations().List(oldest)
	if err != nil || len(orgs) == 0 {
		return "", "", err
	}
	if len(spaces) == 0 {
		return orgs[0].Name, "", nil
	}
	of, err := tx.Organizations().Get(spaces[0].OrgGUID)
	if err != nil {
		return "", "", err
	}
	return of.Name, spaces[0].Name, nil
}
