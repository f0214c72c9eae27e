package storetest

import "ingot/internal/platform"

func checkServiceFields(k *kit) {
	checkFields(k, "ServiceBroker", serviceBrokers, "name=Name", "space_guid=SpaceGUID", "state=State")
	checkFields(k, "ServiceOffering", serviceOfferings, "name=Name", "broker_guid=BrokerGUID", "catalog_id=CatalogID",
		"available=Available")
	checkFields(k, "ServicePlan", servicePlans, "name=Name", "offering_guid=OfferingGUID", "catalog_id=CatalogID",
		"available=Available", "visibility=Visibility")
	checkFields(k, "ServiceInstance", serviceInstances, "type=Type", "name=Name", "space_guid=SpaceGUID",
		"plan_guid=PlanGUID", "last_state=Last.State")
	checkFields(k, "ServiceBinding", serviceBindings, "type=Type", "name=Name", "instance_guid=InstanceGUID",
		"app_guid=AppGUID", "route_guid=RouteGUID", "space_guid=SpaceGUID")
	checkFields(k, "CredentialRotation", rotations, "instance_guid=InstanceGUID", "binding_guid=BindingGUID",
		"app_guid=AppGUID", "space_guid=SpaceGUID", "state=State")
	checkFields(k, "GitSource", gitSources, "app_guid=AppGUID", "space_guid=SpaceGUID")
}

func checkServiceConflicts(k *kit) {
	checkConflicts(k, "ServiceBroker", serviceBrokers,
		[]platform.ServiceBroker{{Name: "b"}}, []platform.ServiceBroker{{Name: "b", SpaceGUID: "s"}},
		[]platform.ServiceBroker{{Name: "B"}})
	checkConflicts(k, "ServiceOffering", serviceOfferings,
		[]platform.ServiceOffering{{BrokerGUID: "b", CatalogID: "c"}},
		[]platform.ServiceOffering{{BrokerGUID: "b", CatalogID: "c"}},
		[]platform.ServiceOffering{{BrokerGUID: "b", CatalogID: "d"}, {BrokerGUID: "a", CatalogID: "c"}})
	checkConflicts(k, "ServicePlan", servicePlans,
		[]platform.ServicePlan{{OfferingGUID: "o", CatalogID: "c"}},
		[]platform.ServicePlan{{OfferingGUID: "o", CatalogID: "c"}},
		[]platform.ServicePlan{{OfferingGUID: "o", CatalogID: "d"}, {OfferingGUID: "p", CatalogID: "c"}})
	checkConflicts(k, "ServiceInstance", serviceInstances,
		[]platform.ServiceInstance{{SpaceGUID: "s", Name: "db"}}, []platform.ServiceInstance{{SpaceGUID: "s", Name: "db"}},
		[]platform.ServiceInstance{{SpaceGUID: "s", Name: "DB"}, {SpaceGUID: "r", Name: "db"}})
	checkConflicts(k, "ServiceBinding", serviceBindings, []platform.ServiceBinding{{}}, nil, []platform.ServiceBinding{{}})
	checkConflicts(k, "GitSource", gitSources, []platform.GitSource{{AppGUID: "a"}}, []platform.GitSource{{AppGUID: "a"}},
		[]platform.GitSource{{AppGUID: "b"}})
	checkConflicts(k, "CredentialRotation", rotations, []platform.CredentialRotation{{}}, nil,
		[]platform.CredentialRotation{{}})
}

// market fills the world with a broker for all, with a plan for each kind of
// visibility, and one for the space a1; and with an instance in every space,
// that of a1 shared with b1, each bound to the app beside it.
func market(k *kit) {
	k.Helper()
	build(k)
	id := func(guid string) platform.Resource { return platform.Resource{GUID: guid} }
	k.update(func(tx platform.Tx) error {
		var failed error
		check := func(err error) {
			if failed == nil {
				failed = err
			}
		}
		for broker, space := range map[string]string{"all": "", "a1": "space-a1"} {
			check(tx.ServiceBrokers().Insert(&platform.ServiceBroker{Resource: id("broker-" + broker), Name: "the-" + broker,
				SpaceGUID: space}))
			check(tx.ServiceOfferings().Insert(&platform.ServiceOffering{Resource: id("offering-" + broker), Name: "offers-" +
				broker, BrokerGUID: "broker-" + broker, Available: true}))
		}
		for _, plan := range []*platform.ServicePlan{
			{Resource: id("public"), Name: "p", OfferingGUID: "offering-all", Visibility: platform.VisiblePublic},
			{Resource: id("admin"), Name: "q", OfferingGUID: "offering-all", Visibility: platform.VisibleAdmin},
			{Resource: id("org-b-only"), Name: "q", OfferingGUID: "offering-all", Visibility: platform.VisibleOrgs,
				Orgs: []string{"org-b"}},
			{Resource: id("a1-only"), Name: "q", OfferingGUID: "offering-a1", Visibility: platform.VisibleSpace},
		} {
			plan.CatalogID, plan.Available = plan.GUID, true
			check(tx.ServicePlans().Insert(plan))
		}
		for s := range world {
			i := &platform.ServiceInstance{Resource: id("instance-" + s), Name: "db-" + s, SpaceGUID: "space-" + s,
				PlanGUID: "public"}
			switch s {
			case "a1":
				i.SharedSpaces = []string{"space-b1"}
			case "a2":
				i.PlanGUID = "admin"
			}
			check(tx.ServiceInstances().Insert(i))
			check(tx.ServiceBindings().Insert(&platform.ServiceBinding{
				Resource: id("binding-" + s), Type: platform.BindingApp, InstanceGUID: i.GUID, AppGUID: "app-" + s,
				SpaceGUID: "space-" + s,
			}))
		}
		check(tx.ServiceBindings().Insert(&platform.ServiceBinding{
			Resource: id("across"), Type: platform.BindingApp, InstanceGUID: "instance-a1", AppGUID: "app-b1",
			SpaceGUID: "space-b1",
		}))
		return failed
	})
}

// testMarketplace sees who sees which plan, and where each can be used.
func testMarketplace(k *kit) {
	market(k)
	roles.insert(k,
		&platform.Role{Type: platform.SpaceDeveloper, UserGUID: "in-a1", SpaceGUID: "space-a1"},
		&platform.Role{Type: platform.SpaceAuditor, UserGUID: "in-a2", SpaceGUID: "space-a2"},
		&platform.Role{Type: platform.OrgUser, UserGUID: "of-b", OrgGUID: "org-b"},
	)
	for who, want := range map[string]struct{ plans, offerings, brokers []string }{
		"nobody": {[]string{"public"}, []string{"offering-all"}, nil},
		"in-a1":  {[]string{"public", "a1-only"}, []string{"offering-all", "offering-a1"}, []string{"broker-a1"}},
		"in-a2":  {[]string{"public", "admin"}, []string{"offering-all"}, nil},
		"of-b":   {[]string{"public", "org-b-only"}, []string{"offering-all"}, nil},
	} {
		q := platform.Query{Reader: &platform.Reader{UserGUID: who}}
		servicePlans.expect(k, q, "plans for "+who, want.plans...)
		serviceOfferings.expect(k, q, "offerings for "+who, want.offerings...)
		serviceBrokers.expect(k, q, "brokers for "+who, want.brokers...)
	}
	for space, want := range map[string][]string{
		"space-a1": {"public", "a1-only"}, "space-a2": {"public"}, "space-b1": {"public", "org-b-only"}, "none": nil,
	} {
		servicePlans.expect(k, platform.Where("usable_in_space_guid", space), "plans in "+space, want...)
	}
	servicePlans.expect(k, platform.Where("usable_in_organization_guid", "org-b"), "plans in org-b", "public",
		"org-b-only")
	serviceOfferings.expect(k, platform.Where("usable_in_space_guid", "space-b1"), "offerings in b1", "offering-all")
	serviceOfferings.expect(k, platform.Where("usable_in_organization_guid", "org-a"), "offerings in org-a",
		"offering-all", "offering-a1")
	serviceOfferings.expect(k, platform.Where("broker_name", "the-a1"), "offerings by the broker's name", "offering-a1")
	servicePlans.expect(k, platform.Where("broker_name", "the-a1"), "plans by the broker's name", "a1-only")
	servicePlans.expect(k, platform.Where("broker_guid", "broker-all").And(platform.In("name", "q")),
		"plans by broker and name", "admin", "org-b-only")
	servicePlans.expect(k, platform.Where("offering_name", "offers-a1"), "plans by offering", "a1-only")
	servicePlans.expect(k, platform.Where("shown_organization_guid", "org-b"), "plans shown to an organization",
		"org-b-only")
	servicePlans.expect(k, platform.Where("instance_guid", "instance-a2"), "the plan of an instance", "admin")

	// What the broker no longer offers is seen by those who have it only.
	k.update(func(tx platform.Tx) error {
		for _, guid := range []string{"public", "org-b-only"} {
			p, err := tx.ServicePlans().Get(guid)
			if err != nil {
				return err
			}
			p.Available = false
			if err := tx.ServicePlans().Update(p); err != nil {
				return err
			}
		}
		return nil
	})
	servicePlans.expect(k, platform.Query{Reader: &platform.Reader{UserGUID: "of-b"}}, "withdrawn plans")
	servicePlans.expect(k, platform.Query{Reader: &platform.Reader{UserGUID: "in-a1"}}, "withdrawn plans in use",
		"public", "a1-only")
}

// testServices asks for instances and bindings by what they belong to, and sees
// that what is shared is seen.
func testServices(k *kit) {
	market(k)
	roles.insert(k,
		&platform.Role{Type: platform.SpaceAuditor, UserGUID: "in-b1", SpaceGUID: "space-b1"},
		&platform.Role{Type: platform.OrgManager, UserGUID: "over-a", OrgGUID: "org-a"},
		&platform.Role{Type: platform.OrgUser, UserGUID: "of-a", OrgGUID: "org-a"})
	for who, want := range map[string]struct{ instances, bindings []string }{
		"in-b1":  {[]string{"instance-b1", "instance-a1"}, []string{"binding-b1", "across"}},
		"over-a": {[]string{"instance-a1", "instance-a2"}, []string{"binding-a1", "binding-a2"}},
		"of-a":   {}, "nobody": {},
	} {
		q := platform.Query{Reader: &platform.Reader{UserGUID: who}}
		serviceInstances.expect(k, q, "instances for "+who, want.instances...)
		serviceBindings.expect(k, q, "bindings for "+who, want.bindings...)
	}
	serviceInstances.expect(k, platform.Where("organization_guid", "org-a"), "instances of an organization", "instance-a1",
		"instance-a2")
	serviceInstances.expect(k, platform.Where("visible_in_space_guid", "space-b1"), "instances in a space", "instance-a1",
		"instance-b1")
	serviceInstances.expect(k, platform.Where("shared_space_guid", "space-b1"), "instances shared with a space",
		"instance-a1")
	serviceInstances.expect(k, platform.Where("plan_name", "q"), "instances by plan", "instance-a2")
	serviceInstances.expect(k, platform.Where("offering_guid", "offering-all"), "instances by offering", "instance-a1",
		"instance-a2", "instance-b1")
	serviceInstances.expect(k, platform.Where("broker_guid", "broker-a1"), "instances by broker")
	serviceBindings.expect(k, platform.Where("app_name", "APP").And(platform.In("instance_guid", "instance-a1")),
		"bindings by app", "binding-a1", "across")
	serviceBindings.expect(k, platform.Where("instance_name", "db-a2"), "bindings by instance", "binding-a2")
	serviceBindings.expect(k, platform.Where("plan_guid", "admin"), "bindings by plan", "binding-a2")
	serviceBindings.expect(k, platform.Where("plan_name", "q"), "bindings by the plan's name", "binding-a2")
	serviceBindings.expect(k, platform.Where("offering_guid", "offering-a1"), "bindings by offering")
	serviceBindings.expect(k, platform.Where("offering_name", "offers-all").And(platform.In("organization_guid", "org-b")),
		"bindings by the offering's name", "across", "binding-b1")
	k.update(func(tx platform.Tx) error {
		i, err := tx.ServiceInstances().Get("instance-a1")
		if err != nil {
			return err
		}
		i.SharedSpaces = nil
		return tx.ServiceInstances().Update(i)
	})
	serviceInstances.expect(k, platform.Query{Reader: &platform.Reader{UserGUID: "in-b1"}}, "instances no longer shared",
		"instance-b1")
}
