package actions

import (
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

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
	return platform.Where("source_guid", p.SourceApp).And(platform.In("dest_guid", p.DestApp)).And(platform.In("protocol", p.Protocol)).
		And(platform.In("first_port", p.FirstPort)).And(platform.In("last_port", p.LastPort))
}

// recordPolicy writes an audit event about the source of a policy.
func (p *Platform) recordPolicy(tx platform.Tx, kind string, by Actor, policy platform.NetworkPolicy) error {
	app, err := tx.Apps().Get(policy.SourceApp)
	if err != nil {
		return err
	}
	return p.RecordApp(tx, kind, by, app, map[string]any{
		"destination_guid": policy.DestApp, "protocol": policy.Protocol, "ports": map[string]int{"start": policy.FirstPort, "end": policy.LastPort},
	})
}

// forgetAppPolicies removes the policies of an app.
func forgetAppPolicies(tx platform.Tx, app string) error {
	n, err := tx.NetworkPolicies().DeleteAll(platform.Where("app_guid", app))
	tx.Announce(platform.Changes{Rules: n > 0})
	return err
}
