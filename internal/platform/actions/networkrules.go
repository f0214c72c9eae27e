package actions

import (
	"net/netip"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/safedial"
	"ingot/internal/platform"
)

// ensureSecurityGroups creates the groups that every Cloud Foundry starts with,
// for all spaces, once: an administrator may delete them.
func ensureSecurityGroups(tx platform.Tx) error {
	first, err := tx.Once("default security groups")
	if err != nil || !first {
		return err
	}
	groups := []*platform.SecurityGroup{
		{Name: "public_networks", Rules: publicNetworks()},
		{Name: "dns", Rules: []platform.SecurityRule{
			{Protocol: platform.ProtocolTCP, Destination: "0.0.0.0/0", Ports: "53"},
			{Protocol: platform.ProtocolUDP, Destination: "0.0.0.0/0", Ports: "53"},
		}},
	}
	for _, g := range groups {
		g.Running, g.Staging = true, true
		if err := ensure(tx.SecurityGroups(), platform.Where("name", g.Name), g); err != nil {
			return err
		}
	}
	tx.Announce(platform.Changes{Rules: true})
	return nil
}

// publicNetworks allows all that is not a private or other special network. Cloud
// Foundry's own list leaves out fewer.
func publicNetworks() (rules []platform.SecurityRule) {
	special := safedial.RefusedIPv4()
	slices.SortFunc(special, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	next := netip.IPv4Unspecified()
	for _, p := range special {
		first, last := p.Masked().Addr(), platform.SecurityRule{Destination: p.String()}.Ranges()[0].Last
		if next.IsValid() && next.Less(first) {
			rules = append(rules, platform.SecurityRule{Protocol: platform.ProtocolAll, Destination: next.String() + "-" +
				first.Prev().String()})
		}
		if next.IsValid() && !last.Less(next) {
			next = last.Next()
		}
	}
	if next.IsValid() && next.Is4() {
		rules = append(rules, platform.SecurityRule{Protocol: platform.ProtocolAll, Destination: next.String() +
			"-255.255.255.255"})
	}
	return rules
}

// Lifecycle is when a security group counts for a space.
type Lifecycle string

// The lifecycles: of apps and tasks, and of builds.
const (
	WhileRunning Lifecycle = "running"
	WhileStaging Lifecycle = "staging"
)

// BoundSpaces returns the spaces that a group is bound to.
func (l Lifecycle) BoundSpaces(g *platform.SecurityGroup) *[]string {
	if l == WhileStaging {
		return &g.StagingSpaces
	}
	return &g.RunningSpaces
}

func (p *Platform) recordGroup(tx platform.Tx, what string, by Actor, g *platform.SecurityGroup,
	data map[string]any) error {
	tx.Announce(platform.Changes{Rules: true})
	return p.Record(tx, "audit.security_group."+what, by, Target{GUID: g.GUID, Type: "security_group", Name: g.Name}, data)
}

func groupData(g *platform.SecurityGroup) map[string]any {
	return map[string]any{"request": map[string]any{
		"name": g.Name, "rules": g.Rules, "globally_enabled": map[string]bool{"running": g.Running, "staging": g.Staging},
	}}
}

func groupConflict(name string, err error) error {
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable, "Security group with name '%s' already exists.", name)
	}
	return err
}

// CreateSecurityGroup stores a group.
func (p *Platform) CreateSecurityGroup(tx platform.Tx, by Actor, g *platform.SecurityGroup) error {
	if err := platform.CheckSecurityGroupName(g.Name); err != nil {
		return err
	}
	if err := groupConflict(g.Name, tx.SecurityGroups().Insert(g)); err != nil {
		return err
	}
	return p.recordGroup(tx, "create", by, g, groupData(g))
}

// UpdateSecurityGroup stores a changed group.
func (p *Platform) UpdateSecurityGroup(tx platform.Tx, by Actor, g *platform.SecurityGroup) error {
	if err := platform.CheckSecurityGroupName(g.Name); err != nil {
		return err
	}
	if err := groupConflict(g.Name, tx.SecurityGroups().Update(g)); err != nil {
		return err
	}
	return p.recordGroup(tx, "update", by, g, groupData(g))
}

// DeleteSecurityGroup removes a group, also from its spaces.
func (p *Platform) DeleteSecurityGroup(tx platform.Tx, by Actor, g *platform.SecurityGroup) error {
	if err := tx.SecurityGroups().Delete(g.GUID); err != nil {
		return err
	}
	return p.recordGroup(tx, "delete", by, g, nil)
}

// BindSecurityGroup binds a group to spaces. It may be bound to some already.
func (p *Platform) BindSecurityGroup(tx platform.Tx, by Actor, g *platform.SecurityGroup, l Lifecycle,
	spaces []*platform.Space) error {
	bound := l.BoundSpaces(g)
	var added []string
	for _, s := range spaces {
		if !slices.Contains(*bound, s.GUID) {
			*bound, added = append(*bound, s.GUID), append(added, s.GUID)
		}
	}
	if len(added) == 0 {
		return nil
	}
	if err := tx.SecurityGroups().Update(g); err != nil {
		return err
	}
	return p.recordGroup(tx, "apply", by, g, map[string]any{"lifecycle": l, "space_guids": added})
}

// UnbindSecurityGroup undoes it for one space.
func (p *Platform) UnbindSecurityGroup(tx platform.Tx, by Actor, g *platform.SecurityGroup, l Lifecycle,
	space string) error {
	bound := l.BoundSpaces(g)
	i := slices.Index(*bound, space)
	if i < 0 {
		return NotBound(space)
	}
	*bound = slices.Delete(*bound, i, i+1)
	if err := tx.SecurityGroups().Update(g); err != nil {
		return err
	}
	return p.recordGroup(tx, "unapply", by, g, map[string]any{"lifecycle": l, "space_guids": []string{space}})
}

// NotBound is the refusal to unbind a group from a space.
func NotBound(space string) error {
	return fault.New(fault.Unprocessable,
		"Unable to unbind security group from space with guid '%s'. Ensure the space is bound to this security group.", space)
}

// forgetSpaceRules takes a space from the security groups that it has.
func forgetSpaceRules(tx platform.Tx, space string) error {
	for _, l := range []Lifecycle{WhileRunning, WhileStaging} {
		groups, _, err := tx.SecurityGroups().List(platform.Where(string(l)+"_space_guid", space))
		if err != nil {
			return err
		}
		for _, g := range groups {
			bound := l.BoundSpaces(g)
			*bound = slices.DeleteFunc(*bound, func(s string) bool { return s == space })
			if err := tx.SecurityGroups().Update(g); err != nil {
				return err
			}
		}
	}
	tx.Announce(platform.Changes{Rules: true})
	return nil
}

// CreateNetworkPolicies stores those of the policies that do not exist. An app may
// have at most so many as their source; 0 means any number.
func (p *Platform) CreateNetworkPolicies(tx platform.Tx, by Actor, list []platform.NetworkPolicy, most int) error {
	repo := tx.NetworkPolicies()
	sources := map[string]bool{}
	for i := range list {
		one := list[i]
		_, err := repo.First(samePolicy(one))
		if err == nil {
			continue
		}
		if !fault.Is(err, fault.NotFound) {
			return err
		}
		if err := repo.Insert(&one); err != nil {
			return err
		}
		sources[one.SourceApp] = true
		if err := p.recordPolicy(tx, "audit.app.network-policy.create", by, one); err != nil {
			return err
		}
	}
	for app := range sources {
		n, err := repo.Count(platform.Where("source_guid", app))
		if err != nil {
			return err
		}
		if most > 0 && n > most {
			return fault.New(fault.Forbidden, "policy quota exceeded")
		}
	}
	tx.Announce(platform.Changes{Rules: len(sources) > 0})
	return nil
}

// DeleteNetworkPolicies removes those of the policies that exist.
func (p *Platform) DeleteNetworkPolicies(tx platform.Tx, by Actor, list []platform.NetworkPolicy) error {
	for _, one := range list {
		n, err := tx.NetworkPolicies().DeleteAll(samePolicy(one))
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		tx.Announce(platform.Changes{Rules: true})
		if err := p.recordPolicy(tx, "audit.app.network-policy.delete", by, one); err != nil {
			return err
		}
	}
	return nil
}

func samePolicy(p platform.NetworkPolicy) platform.Query {
	return platform.Where("source_guid", p.SourceApp).And(platform.In("dest_guid", p.DestApp)).
		And(platform.In("protocol", p.Protocol)).
		And(platform.In("first_port", p.FirstPort)).And(platform.In("last_port", p.LastPort))
}

// recordPolicy writes an audit event about the source of a policy.
func (p *Platform) recordPolicy(tx platform.Tx, kind string, by Actor, policy platform.NetworkPolicy) error {
	app, err := tx.Apps().Get(policy.SourceApp)
	if err != nil {
		return err
	}
	return p.RecordApp(tx, kind, by, app, map[string]any{
		"destination_guid": policy.DestApp, "protocol": policy.Protocol, "ports": map[string]int{"start": policy.FirstPort,
			"end": policy.LastPort},
	})
}

// forgetAppPolicies removes the policies of an app.
func forgetAppPolicies(tx platform.Tx, app string) error {
	n, err := tx.NetworkPolicies().DeleteAll(platform.Where("app_guid", app))
	tx.Announce(platform.Changes{Rules: n > 0})
	return err
}
