package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"testing"

	"github.com/cloudfoundry/go-cfclient/v3/client"
	"github.com/cloudfoundry/go-cfclient/v3/config"
	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"ingot/internal/platform/services/brokertest"
)

// organizations walks orgs, spaces, their quotas, domains, users and roles.
func (g *goClient) organizations(t *testing.T) {
	ctx := t.Context()
	org := got(g.Organizations.Create(ctx, resource.NewOrganizationCreate("terraformed")))(t)
	org = got(g.Organizations.Update(ctx, org.GUID, &resource.OrganizationUpdate{Name: "terraformed-2",
		Metadata: resource.NewMetadata().WithLabel("example.com", "env", "test")}))(t)
	if org.Name != "terraformed-2" || *org.Metadata.Labels["example.com/env"] != "test" {
		t.Errorf("the org is %+v", org)
	}
	quota := got(g.OrganizationQuotas.Create(ctx, resource.NewOrganizationQuotaCreate("terra-orgs").
		WithAppsTotalMemoryInMB(2048).WithTotalRoutes(9).WithDomains(3).WithPaidServicesAllowed(false)))(t)
	got(g.OrganizationQuotas.Apply(ctx, quota.GUID, []string{org.GUID}))(t)
	quota = got(g.OrganizationQuotas.Update(ctx, quota.GUID, resource.NewOrganizationQuotaUpdate().
		WithName("terra-orgs-2").WithTotalInstances(7)))(t)
	// The client sends null for what is not set, which removes the limit of memory.
	if *quota.Apps.TotalInstances != 7 || quota.Apps.TotalMemoryInMB != nil || *quota.Routes.TotalRoutes != 9 ||
		len(quota.Relationships.Organizations.Data) != 1 {
		t.Errorf("the quota is %+v", quota)
	}
	got(g.Organizations.GetUsageSummary(ctx, org.GUID))(t)

	space := got(g.Spaces.Create(ctx, resource.NewSpaceCreate("grown", org.GUID)))(t)
	space = got(g.Spaces.Update(ctx, space.GUID, &resource.SpaceUpdate{Name: "grown-2"}))(t)
	if err := g.SpaceFeatures.EnableSSH(ctx, space.GUID, false); err != nil {
		t.Error(err)
	}
	if got(g.SpaceFeatures.IsSSHEnabled(ctx, space.GUID))(t) {
		t.Error("ssh is still enabled in the space")
	}
	got(g.Spaces.GetUsageSummary(ctx, space.GUID))(t)
	of := got(g.SpaceQuotas.Create(ctx, resource.NewSpaceQuotaCreate("terra-spaces", org.GUID).
		WithTotalMemoryInMB(512)))(t)
	got(g.SpaceQuotas.Apply(ctx, of.GUID, []string{space.GUID}))(t)
	of = got(g.SpaceQuotas.Update(ctx, of.GUID, resource.NewSpaceQuotaUpdate().WithTotalRoutes(4)))(t)
	if *of.Routes.TotalRoutes != 4 || len(of.Relationships.Spaces.Data) != 1 {
		t.Errorf("the space's quota is %+v", of)
	}
	if err := g.SpaceQuotas.Remove(ctx, of.GUID, space.GUID); err != nil {
		t.Error(err)
	}
	g.done(t, got(g.SpaceQuotas.Delete(ctx, of.GUID))(t))

	domain := resource.NewDomainCreate("terra.example.com")
	domain.Relationships = &resource.DomainRelationships{Organization: &resource.ToOneRelationship{
		Data: &resource.Relationship{GUID: org.GUID}}}
	d := got(g.Domains.Create(ctx, domain))(t)
	demo := g.demoSpace(t).Relationships.Organization.Data.GUID
	got(g.Domains.Share(ctx, d.GUID, demo))(t)
	if err := g.Domains.UnShare(ctx, d.GUID, demo); err != nil {
		t.Error(err)
	}
	got(g.Domains.ListForOrganizationAll(ctx, org.GUID, nil))(t)
	g.done(t, got(g.Domains.Delete(ctx, d.GUID))(t))
	gone(t, "the domain", g.Domains.Get, d.GUID)

	g.members(t, org.GUID, space.GUID)
	g.done(t, got(g.Spaces.Delete(ctx, space.GUID))(t))
	g.done(t, got(g.Organizations.Delete(ctx, org.GUID))(t))
	gone(t, "the org", g.Organizations.Get, org.GUID)
	g.done(t, got(g.OrganizationQuotas.Delete(ctx, quota.GUID))(t))
}

func (g *goClient) members(t *testing.T, org, space string) {
	ctx := t.Context()
	token := g.s.adminToken(t)
	user := g.s.call(t, "POST", g.s.API+"/Users", token, map[string]any{"userName": "mason", "password": "s3cret-mason",
		"emails": []any{map[string]any{"value": "mason@example.com"}}}).want(t, 201).id()
	got(g.Users.Create(ctx, resource.NewUserCreateWithGUID(user)))(t)
	got(g.Roles.CreateOrganizationRole(ctx, org, user, resource.OrganizationRoleUser))(t)
	role := got(g.Roles.CreateSpaceRoleWithUsername(ctx, space, "mason", resource.SpaceRoleDeveloper, "uaa"))(t)
	if role.Type != "space_developer" {
		t.Errorf("the role is %+v", role)
	}
	roles, users, err := g.Roles.ListIncludeUsersAll(ctx, nil)
	if err != nil || len(roles) < 2 || len(users) == 0 {
		t.Errorf("%d roles, %d users: %v", len(roles), len(users), err)
	}
	got(g.Organizations.ListUsersAll(ctx, org, nil))(t)
	if all := got(g.Spaces.ListUsersAll(ctx, space, nil))(t); len(all) != 1 {
		t.Errorf("%d users of the space, want 1", len(all))
	}
	theirs := newGoClient(t, config.UserPassword("mason", "s3cret-mason"), g.s.API)
	if all := got(theirs.Spaces.ListAll(ctx, nil))(t); len(all) != 1 || all[0].GUID != space {
		t.Errorf("a developer sees %d spaces, want the own one", len(all))
	}
	if _, err := theirs.Organizations.Update(ctx, org,
		&resource.OrganizationUpdate{Name: "mine"}); !resource.IsNotAuthorizedError(err) {
		t.Errorf("a developer renames the org: %v", err)
	}
	g.done(t, got(g.Roles.Delete(ctx, role.GUID))(t))
	g.done(t, got(g.Users.Delete(ctx, user))(t))
	gone(t, "the user", g.Users.Get, user)
}

// platform walks what administrators set for all.
func (g *goClient) platform(t *testing.T) {
	ctx := t.Context()
	space := g.demoSpace(t)
	group := got(g.SecurityGroups.Create(ctx, &resource.SecurityGroupCreate{Name: "terra-rules",
		Rules: []*resource.SecurityGroupRule{
			resource.NewSecurityGroupRuleTCP("10.1.2.0/24", false).WithPorts("443,8443"),
			resource.NewSecurityGroupRuleUDP("10.1.2.3").WithPorts("53"),
			resource.NewSecurityGroupRuleICMP("10.1.2.3", 8, 0),
			resource.NewSecurityGroupRuleAll("10.9.0.1-10.9.0.9")}}))(t)
	got(g.SecurityGroups.BindRunningSecurityGroup(ctx, group.GUID, []string{space.GUID}))(t)
	got(g.SecurityGroups.BindStagingSecurityGroup(ctx, group.GUID, []string{space.GUID}))(t)
	if all := got(g.SecurityGroups.ListRunningForSpaceAll(ctx, space.GUID, nil))(t); len(all) == 0 {
		t.Error("no security groups of the space")
	}
	group = got(g.SecurityGroups.Update(ctx, group.GUID, &resource.SecurityGroupUpdate{Name: "terra-rules-2"}))(t)
	if len(group.Rules) != 4 {
		t.Errorf("%d rules, want 4", len(group.Rules))
	}
	for _, unbind := range []error{g.SecurityGroups.UnBindRunningSecurityGroup(ctx, group.GUID, space.GUID),
		g.SecurityGroups.UnBindStagingSecurityGroup(ctx, group.GUID, space.GUID)} {
		if unbind != nil {
			t.Error(unbind)
		}
	}
	g.done(t, got(g.SecurityGroups.Delete(ctx, group.GUID))(t))

	on, said := true, "not today"
	got(g.FeatureFlags.Update(ctx, resource.FeatureFlagRouteCreation, &resource.FeatureFlagUpdate{Enabled: &on,
		CustomErrorMessage: &said}))(t)
	if f := got(g.FeatureFlags.Get(ctx, resource.FeatureFlagRouteCreation))(t); !f.Enabled ||
		f.CustomErrorMessage != said {
		t.Errorf("the flag is %+v", f)
	}
	if all := got(g.FeatureFlags.ListAll(ctx, nil))(t); len(all) < 10 {
		t.Errorf("%d feature flags", len(all))
	}
	got(g.EnvVarGroups.UpdateStaging(ctx, &resource.EnvVarGroupUpdate{Var: map[string]string{"TERRA": "staged"}}))(t)
	if v := got(g.EnvVarGroups.GetStaging(ctx))(t); v.Var["TERRA"] != "staged" {
		t.Errorf("variables of staging are %v", v.Var)
	}
	got(g.EnvVarGroups.GetRunning(ctx))(t)

	segment := got(g.IsolationSegments.Create(ctx, resource.NewIsolationSegmentCreate("terra-segment")))(t)
	org := space.Relationships.Organization.Data.GUID
	got(g.IsolationSegments.EntitleOrganization(ctx, segment.GUID, org))(t)
	if all := got(g.IsolationSegments.ListOrganizationRelationships(ctx, segment.GUID))(t); len(all) != 1 {
		t.Errorf("the segment's orgs are %v", all)
	}
	if err := g.IsolationSegments.RevokeOrganization(ctx, segment.GUID, org); err != nil {
		t.Error(err)
	}
	if err := g.IsolationSegments.Delete(ctx, segment.GUID); err != nil {
		t.Error(err)
	}

	var bits bytes.Buffer
	w := zip.NewWriter(&bits)
	for _, name := range []string{"bin/detect", "bin/compile", "bin/release"} {
		h := &zip.FileHeader{Name: name}
		h.SetMode(0o755)
		f := got(w.CreateHeader(h))(t)
		got(f.Write([]byte("#!/bin/sh\nexit 1\n")))(t)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	pack := got(g.Buildpacks.Create(ctx, resource.NewBuildpackCreate("terra-pack")))(t)
	job, _, err := g.Buildpacks.Upload(ctx, pack.GUID, "terra.zip", &bits)
	if err != nil {
		t.Fatal(err)
	}
	g.done(t, job)
	off := false
	got(g.Buildpacks.Update(ctx, pack.GUID, &resource.BuildpackCreateOrUpdate{Enabled: &off}))(t)
	if pack = got(g.Buildpacks.Get(ctx, pack.GUID))(t); pack.Enabled || pack.State != "READY" {
		t.Errorf("the buildpack is %+v", pack)
	}
	g.done(t, got(g.Buildpacks.Delete(ctx, pack.GUID))(t))
	got(g.Stacks.ListAll(ctx, nil))(t)
	got(g.Root.Get(ctx))(t)
}

// services walks brokers, plans, instances and bindings.
func (g *goClient) services(t *testing.T, b *brokertest.Broker) {
	ctx := t.Context()
	space := g.demoSpace(t)
	g.done(t, got(g.ServiceBrokers.Create(ctx, resource.NewServiceBrokerCreate("terra-broker", b.URL,
		brokertest.Username,
		brokertest.Password)))(t))
	brokers := client.NewServiceBrokerListOptions()
	brokers.Names = client.Filter{Values: []string{"terra-broker"}}
	broker := got(g.ServiceBrokers.Single(ctx, brokers))(t)
	plans := client.NewServicePlanListOptions()
	plans.Names = client.Filter{Values: []string{"sync"}}
	plans.ServiceBrokerGUIDs = client.Filter{Values: []string{broker.GUID}}
	plan := got(g.ServicePlans.Single(ctx, plans))(t)
	got(g.ServicePlansVisibility.Update(ctx, plan.GUID,
		resource.NewServicePlanVisibilityUpdate(resource.ServicePlanVisibilityPublic)))(t)
	if v := got(g.ServicePlansVisibility.Get(ctx, plan.GUID))(t); v.Type != "public" {
		t.Errorf("the plan is visible to %s", v.Type)
	}
	got(g.ServiceOfferings.ListAll(ctx, nil))(t)

	size := json.RawMessage(`{"size":3}`)
	create := resource.NewServiceInstanceCreateManaged("terra-db", space.GUID, plan.GUID)
	create.Parameters, create.Tags = &size, []string{"sql"}
	g.done(t, got(g.ServiceInstances.CreateManaged(ctx, create))(t))
	find := client.NewServiceInstanceListOptions()
	find.Names = client.Filter{Values: []string{"terra-db"}}
	db := got(g.ServiceInstances.Single(ctx, find))(t)
	if db.LastOperation.State != "succeeded" || db.Tags[0] != "sql" {
		t.Errorf("the instance is %+v", db)
	}
	name := "terra-db-2"
	job, _, err := g.ServiceInstances.UpdateManaged(ctx, db.GUID,
		&resource.ServiceInstanceManagedUpdate{Name: &name, Tags: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	g.done(t, job)
	got(g.ServiceInstances.GetUserPermissions(ctx, db.GUID))(t)

	key := resource.NewServiceCredentialBindingCreateKey(db.GUID, "terra-key")
	job, _, err = g.ServiceCredentialBindings.Create(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	g.done(t, job)
	bindings := client.NewServiceCredentialBindingListOptions()
	bindings.ServiceInstanceGUIDs = client.Filter{Values: []string{db.GUID}}
	bound := got(g.ServiceCredentialBindings.Single(ctx, bindings))(t)
	if details := got(g.ServiceCredentialBindings.GetDetails(ctx, bound.GUID))(t); len(details.Credentials) == 0 {
		t.Error("a key without credentials")
	}
	g.done(t, got(g.ServiceCredentialBindings.Delete(ctx, bound.GUID))(t))
	g.done(t, got(g.ServiceInstances.Delete(ctx, db.GUID))(t))
	gone(t, "the instance", g.ServiceInstances.Get, db.GUID)

	secret := json.RawMessage(`{"user":"u","password":"p"}`)
	own := resource.NewServiceInstanceCreateUserProvided("terra-own", space.GUID)
	own.Credentials = &secret
	mine := got(g.ServiceInstances.CreateUserProvided(ctx, own))(t)
	if text := got(g.ServiceInstances.GetUserProvidedCredentials(ctx, mine.GUID))(t); !bytes.Contains(*text,
		[]byte(`"password"`)) {
		t.Errorf("credentials are %s", *text)
	}
	app := got(g.Applications.Create(ctx, resource.NewAppCreate("terra-bound", space.GUID)))(t)
	_, bound, err = g.ServiceCredentialBindings.Create(ctx,
		resource.NewServiceCredentialBindingCreateApp(mine.GUID, app.GUID))
	if err != nil || bound == nil {
		t.Fatalf("binding: %+v %v", bound, err)
	}
	g.done(t, got(g.ServiceCredentialBindings.Delete(ctx, bound.GUID))(t))
	g.done(t, got(g.ServiceInstances.Delete(ctx, mine.GUID))(t))
	g.done(t, got(g.Applications.Delete(ctx, app.GUID))(t))
	g.done(t, got(g.ServiceBrokers.Delete(ctx, broker.GUID))(t))
	gone(t, "the broker", g.ServiceBrokers.Get, broker.GUID)
}
