package platformdb

import (
	"time"

	"ingot/internal/platform"
)

var (
	// The brokers of the spaces that a reader sees, and the service instances that
	// are shared with such a space.
	visibleBrokers = "SELECT b.guid FROM platform_service_brokers b WHERE b.space_guid <> '' AND " +
		"b.space_guid IN (" + visibleSpaces + ")"
	instancesSharedVisible = "SELECT x.instance_guid FROM platform_service_instance_spaces x WHERE x.space_guid IN (" +
		visibleSpaces + ")"

	// visiblePlans is the condition under which a reader sees the plan p: it can be
	// used, or there is an instance of it in a space that the reader sees.
	visiblePlans = `(p.available AND p.visibility = 'public')
		OR p.available AND p.guid IN (SELECT v.plan_guid FROM platform_service_plan_organizations v WHERE v.organization_guid IN (` + visibleOrganizations + `))
		OR p.offering_guid IN (SELECT o.guid FROM platform_service_offerings o WHERE o.broker_guid IN (` + visibleBrokers + `))
		OR p.guid IN (SELECT i.plan_guid FROM platform_service_instances i WHERE i.space_guid IN (` + visibleSpaces + `))
		OR p.guid IN (SELECT i.plan_guid FROM platform_service_instances i WHERE i.guid IN (` + instancesSharedVisible + `))`
)

const (
	// usableIn is the condition under which the plan p can be used in the space s.
	usableIn = `(p.visibility = 'public'
		OR s.organization_guid IN (SELECT v.organization_guid FROM platform_service_plan_organizations v WHERE v.plan_guid = p.guid)
		OR s.guid IN (SELECT b.space_guid FROM platform_service_offerings o JOIN platform_service_brokers b ON b.guid = o.broker_guid
			WHERE o.guid = p.offering_guid))`
)

var serviceBrokers = define(table[platform.ServiceBroker]{
	name: "platform_service_brokers",
	base: (*platform.ServiceBroker).Base, meta: (*platform.ServiceBroker).Meta,
	columns: []column[platform.ServiceBroker]{
		text("name", func(b *platform.ServiceBroker) *string { return &b.Name }),
		text("url", func(b *platform.ServiceBroker) *string { return &b.URL }),
		text("username", func(b *platform.ServiceBroker) *string { return &b.Username }),
		sealed("platform_service_brokers", "password", (*platform.ServiceBroker).Base,
			func(b *platform.ServiceBroker) *string { return &b.Password }),
		text("space_guid", func(b *platform.ServiceBroker) *string { return &b.SpaceGUID }),
		text("state", func(b *platform.ServiceBroker) *platform.BrokerState { return &b.State }),
		sealed("platform_service_brokers", "dashboard_clients", (*platform.ServiceBroker).Base,
			func(b *platform.ServiceBroker) *map[string]string { return &b.DashboardClients }),
	},
	virtual: map[string]field{"organization_guid": orgOfSpace},
	visible: "t.space_guid <> '' AND " + inVisibleSpaces,
})

var serviceOfferings = define(table[platform.ServiceOffering]{
	name: "platform_service_offerings",
	base: (*platform.ServiceOffering).Base, meta: (*platform.ServiceOffering).Meta,
	columns: []column[platform.ServiceOffering]{
		text("name", func(o *platform.ServiceOffering) *string { return &o.Name }),
		text("description", func(o *platform.ServiceOffering) *string { return &o.Description }),
		text("broker_guid", func(o *platform.ServiceOffering) *string { return &o.BrokerGUID }),
		text("catalog_id", func(o *platform.ServiceOffering) *string { return &o.CatalogID }),
		flag("available", func(o *platform.ServiceOffering) *bool { return &o.Available }),
		flag("bindable", func(o *platform.ServiceOffering) *bool { return &o.Bindable }),
		flag("plan_updateable", func(o *platform.ServiceOffering) *bool { return &o.PlanUpdateable }),
		flag("instances_retrievable", func(o *platform.ServiceOffering) *bool { return &o.InstancesRetrievable }),
		flag("bindings_retrievable", func(o *platform.ServiceOffering) *bool { return &o.BindingsRetrievable }),
		flag("allow_context_updates", func(o *platform.ServiceOffering) *bool { return &o.AllowContextUpdates }),
		flag("shareable", func(o *platform.ServiceOffering) *bool { return &o.Shareable }),
		object("tags", func(o *platform.ServiceOffering) *[]string { return &o.Tags }),
		object("requires", func(o *platform.ServiceOffering) *[]string { return &o.Requires }),
		text("documentation_url", func(o *platform.ServiceOffering) *string { return &o.DocumentationURL }),
		object("catalog_metadata", func(o *platform.ServiceOffering) *map[string]any { return &o.CatalogMetadata }),
	},
	virtual: map[string]field{
		"broker_name": through("broker_guid", "b.name", "b.guid FROM platform_service_brokers b"),
		"usable_in_space_guid": {
			kind: exact, sql: "s.guid",
			within: `t.guid IN (SELECT p.offering_guid FROM platform_service_plans p, platform_spaces s WHERE {} AND ` +
				usableIn + `)`,
		},
		"usable_in_organization_guid": {
			kind: exact, sql: "s.organization_guid",
			within: `t.guid IN (SELECT p.offering_guid FROM platform_service_plans p, platform_spaces s WHERE {} AND ` +
				usableIn + `)`,
		},
	},
	visible: "t.guid IN (SELECT p.offering_guid FROM platform_service_plans p WHERE " + visiblePlans +
		") OR t.broker_guid IN (" + visibleBrokers + ")",
})

var servicePlans = define(table[platform.ServicePlan]{
	name: "platform_service_plans",
	base: (*platform.ServicePlan).Base, meta: (*platform.ServicePlan).Meta,
	columns: []column[platform.ServicePlan]{
		text("name", func(p *platform.ServicePlan) *string { return &p.Name }),
		text("description", func(p *platform.ServicePlan) *string { return &p.Description }),
		text("offering_guid", func(p *platform.ServicePlan) *string { return &p.OfferingGUID }),
		text("catalog_id", func(p *platform.ServicePlan) *string { return &p.CatalogID }),
		flag("available", func(p *platform.ServicePlan) *bool { return &p.Available }),
		flag("free", func(p *platform.ServicePlan) *bool { return &p.Free }),
		flag("bindable", func(p *platform.ServicePlan) *bool { return &p.Bindable }),
		flag("plan_updateable", func(p *platform.ServicePlan) *bool { return &p.PlanUpdateable }),
		flag("binding_rotatable", func(p *platform.ServicePlan) *bool { return &p.BindingRotatable }),
		text("visibility", func(p *platform.ServicePlan) *platform.Visibility { return &p.Visibility }),
		linked("organizations", members{"platform_service_plan_organizations", "plan_guid", "organization_guid"},
			func(p *platform.ServicePlan) *[]string { return &p.Orgs }),
		text("maintenance_version", func(p *platform.ServicePlan) *string { return &p.MaintenanceVersion }),
		text("maintenance_description", func(p *platform.ServicePlan) *string { return &p.MaintenanceDescription }),
		integer("max_polling_seconds", func(p *platform.ServicePlan) *int { return &p.MaxPollingSeconds }),
		object("catalog_metadata", func(p *platform.ServicePlan) *map[string]any { return &p.CatalogMetadata }),
		object("schemas", func(p *platform.ServicePlan) *map[string]any { return &p.Schemas }),
	},
	virtual: map[string]field{
		"offering_name": through("offering_guid", "o.name", "o.guid FROM platform_service_offerings o"),
		"broker_guid":   through("offering_guid", "o.broker_guid", "o.guid FROM platform_service_offerings o"),
		"broker_name": through("offering_guid", "b.name",
			"o.guid FROM platform_service_brokers b JOIN platform_service_offerings o ON o.broker_guid = b.guid"),
		"shown_organization_guid": through("guid", "v.organization_guid",
			"v.plan_guid FROM platform_service_plan_organizations v"),
		"instance_guid": through("guid", "i.guid", "i.plan_guid FROM platform_service_instances i"),
		"usable_in_space_guid": {
			kind: exact, sql: "s.guid",
			within: "t.guid IN (SELECT p.guid FROM platform_service_plans p, platform_spaces s WHERE {} AND " + usableIn + ")",
		},
		"usable_in_organization_guid": {
			kind: exact, sql: "s.organization_guid",
			within: "t.guid IN (SELECT p.guid FROM platform_service_plans p, platform_spaces s WHERE {} AND " + usableIn + ")",
		},
	},
	visible: "t.guid IN (SELECT p.guid FROM platform_service_plans p WHERE " + visiblePlans + ")",
})

var serviceInstances = define(table[platform.ServiceInstance]{
	name: "platform_service_instances",
	base: (*platform.ServiceInstance).Base, meta: (*platform.ServiceInstance).Meta,
	columns: append([]column[platform.ServiceInstance]{
		text("type", func(i *platform.ServiceInstance) *string { return &i.Type }).named("kind"),
		text("name", func(i *platform.ServiceInstance) *string { return &i.Name }),
		text("space_guid", func(i *platform.ServiceInstance) *string { return &i.SpaceGUID }),
		text("plan_guid", func(i *platform.ServiceInstance) *string { return &i.PlanGUID }),
		object("tags", func(i *platform.ServiceInstance) *[]string { return &i.Tags }),
		text("dashboard_url", func(i *platform.ServiceInstance) *string { return &i.DashboardURL }),
		text("syslog_drain_url", func(i *platform.ServiceInstance) *string { return &i.SyslogDrainURL }),
		text("route_service_url", func(i *platform.ServiceInstance) *string { return &i.RouteServiceURL }),
		text("maintenance_version", func(i *platform.ServiceInstance) *string { return &i.MaintenanceVersion }),
		sealed("platform_service_instances", "credentials", (*platform.ServiceInstance).Base,
			func(i *platform.ServiceInstance) *map[string]any { return &i.Credentials }),
		object("broker_metadata", func(i *platform.ServiceInstance) *map[string]any { return &i.BrokerMetadata }),
		linked("shared_spaces", members{"platform_service_instance_spaces", "instance_guid", "space_guid"},
			func(i *platform.ServiceInstance) *[]string { return &i.SharedSpaces }),
	}, lastOperation(func(i *platform.ServiceInstance) *platform.LastOperation { return &i.Last })...),
	virtual: map[string]field{
		"organization_guid": orgOfSpace,
		// In the space, or shared with it. The name is meant to be t's in the
		// first place and x's in the second.
		"visible_in_space_guid": {
			kind: exact, sql: "space_guid",
			within: "(t.guid IN (SELECT i.guid FROM platform_service_instances i WHERE {}) OR t.guid IN (SELECT " +
				"x.instance_guid FROM platform_service_instance_spaces x WHERE {}))",
		},
		"shared_space_guid": through("guid", "x.space_guid",
			"x.instance_guid FROM platform_service_instance_spaces x"),
		"plan_name":     through("plan_guid", "p.name", "p.guid FROM platform_service_plans p"),
		"offering_guid": through("plan_guid", "p.offering_guid", "p.guid FROM platform_service_plans p"),
		"broker_guid": through("plan_guid", "o.broker_guid",
			"p.guid FROM platform_service_offerings o JOIN platform_service_plans p ON p.offering_guid = o.guid"),
	},
	seenBy: []lookup{{"space_guid", visibleSpaces}, {"guid", instancesSharedVisible}},
})

// lastOperation are the columns of the last operation.
func lastOperation[T any](at func(*T) *platform.LastOperation) []column[T] {
	return []column[T]{
		text("last_type", func(row *T) *string { return &at(row).Type }),
		text("last_state", func(row *T) *platform.OperationState { return &at(row).State }),
		text("last_description", func(row *T) *string { return &at(row).Description }),
		moment("last_created_at", func(row *T) *time.Time { return &at(row).Created }),
		moment("last_updated_at", func(row *T) *time.Time { return &at(row).Updated }),
	}
}

var serviceBindings = define(table[platform.ServiceBinding]{
	name: "platform_service_bindings",
	base: (*platform.ServiceBinding).Base, meta: (*platform.ServiceBinding).Meta,
	columns: append([]column[platform.ServiceBinding]{
		text("type", func(b *platform.ServiceBinding) *string { return &b.Type }).named("kind"),
		text("name", func(b *platform.ServiceBinding) *string { return &b.Name }),
		text("instance_guid", func(b *platform.ServiceBinding) *string { return &b.InstanceGUID }),
		text("app_guid", func(b *platform.ServiceBinding) *string { return &b.AppGUID }),
		text("route_guid", func(b *platform.ServiceBinding) *string { return &b.RouteGUID }),
		text("space_guid", func(b *platform.ServiceBinding) *string { return &b.SpaceGUID }),
		text("broker_id", func(b *platform.ServiceBinding) *string { return &b.BrokerID }),
		text("syslog_drain_url", func(b *platform.ServiceBinding) *string { return &b.SyslogDrainURL }),
		text("route_service_url", func(b *platform.ServiceBinding) *string { return &b.RouteServiceURL }),
		object("volume_mounts", func(b *platform.ServiceBinding) *[]map[string]any { return &b.VolumeMounts }),
		sealed("platform_service_bindings", "credentials", (*platform.ServiceBinding).Base,
			func(b *platform.ServiceBinding) *map[string]any { return &b.Credentials }),
	}, lastOperation(func(b *platform.ServiceBinding) *platform.LastOperation { return &b.Last })...),
	virtual: map[string]field{
		"organization_guid": orgOfSpace,
		"app_name": {
			kind: folded, sql: "a.name_key",
			within: "t.app_guid IN (SELECT a.guid FROM platform_apps a WHERE {})",
		},
		"instance_name": through("instance_guid", "i.name", "i.guid FROM platform_service_instances i"),
		"plan_guid":     through("instance_guid", "i.plan_guid", "i.guid FROM platform_service_instances i"),
		"plan_name": through("instance_guid", "p.name",
			"i.guid FROM platform_service_plans p JOIN platform_service_instances i ON i.plan_guid = p.guid"),
		"offering_guid": through("instance_guid", "p.offering_guid",
			"i.guid FROM platform_service_plans p JOIN platform_service_instances i ON i.plan_guid = p.guid"),
		"offering_name": through("instance_guid", "o.name",
			`i.guid FROM platform_service_offerings o JOIN platform_service_plans p ON p.offering_guid = o.guid
				JOIN platform_service_instances i ON i.plan_guid = p.guid`),
	},
	seenBy: inSpaces,
})

var credentialRotations = define(table[platform.CredentialRotation]{
	name: "platform_credential_rotations",
	base: (*platform.CredentialRotation).Base,
	columns: []column[platform.CredentialRotation]{
		text("request_guid", func(r *platform.CredentialRotation) *string { return &r.RequestGUID }),
		text("instance_guid", func(r *platform.CredentialRotation) *string { return &r.InstanceGUID }),
		text("binding_guid", func(r *platform.CredentialRotation) *string { return &r.BindingGUID }),
		text("app_guid", func(r *platform.CredentialRotation) *string { return &r.AppGUID }),
		text("space_guid", func(r *platform.CredentialRotation) *string { return &r.SpaceGUID }),
		text("old_id", func(r *platform.CredentialRotation) *string { return &r.OldID }),
		text("new_id", func(r *platform.CredentialRotation) *string { return &r.NewID }),
		text("state", func(r *platform.CredentialRotation) *platform.RotationState { return &r.State }),
		text("method", func(r *platform.CredentialRotation) *platform.RotationMethod { return &r.Method }),
		text("deployment_guid", func(r *platform.CredentialRotation) *string { return &r.DeploymentGUID }),
		object("waits", func(r *platform.CredentialRotation) *[]string { return &r.Waits }),
		integer("grace_seconds", func(r *platform.CredentialRotation) *int { return &r.GraceSeconds }),
		flag("restart", func(r *platform.CredentialRotation) *bool { return &r.Restart }),
		flag("forced", func(r *platform.CredentialRotation) *bool { return &r.Forced }),
		moment("revoke_at", func(r *platform.CredentialRotation) *time.Time { return &r.RevokeAt }),
		text("description", func(r *platform.CredentialRotation) *string { return &r.Description }),
	},
	seenBy: inSpaces,
})
