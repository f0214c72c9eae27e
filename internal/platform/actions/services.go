package actions

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// bound is a service instance that an app can use.
type bound struct {
	binding  *platform.ServiceBinding
	instance *platform.ServiceInstance
	plan     *platform.ServicePlan // of managed ones
	offering *platform.ServiceOffering
}

// boundTo reads the bindings of an app that can be used, the oldest first: of
// several to one instance the newest.
func boundTo(tx platform.Tx, app *platform.App) ([]*bound, error) {
	all, _, err := tx.ServiceBindings().List(platform.Where("app_guid", app.GUID).
		And(platform.In("type", platform.BindingApp)))
	if err != nil {
		return nil, err
	}
	var out []*bound
	seen := map[string]bool{}
	for _, b := range slices.Backward(all) {
		if !b.Last.Exists() || seen[b.InstanceGUID] {
			continue
		}
		seen[b.InstanceGUID] = true
		one := &bound{binding: b}
		if one.instance, err = tx.ServiceInstances().Get(b.InstanceGUID); err != nil {
			return nil, err
		}
		one.binding = Effective(b, one.instance)
		if one.instance.PlanGUID != "" {
			if one.plan, err = tx.ServicePlans().Get(one.instance.PlanGUID); err != nil {
				return nil, err
			}
			if one.offering, err = tx.ServiceOfferings().Get(one.plan.OfferingGUID); err != nil {
				return nil, err
			}
		}
		out = append(out, one)
	}
	slices.Reverse(out)
	return out, nil
}

// Effective is a binding with what it gives: of user-provided services that is
// what the instance says now.
func Effective(b *platform.ServiceBinding, i *platform.ServiceInstance) *platform.ServiceBinding {
	if i.Type != platform.ServiceUserProvided {
		return b
	}
	out := *b
	out.Credentials, out.SyslogDrainURL, out.RouteServiceURL = i.Credentials, i.SyslogDrainURL, i.RouteServiceURL
	return &out
}

func (b *bound) name() string {
	if b.binding.Name != "" {
		return b.binding.Name
	}
	return b.instance.Name
}

func (b *bound) label() string {
	if b.offering == nil {
		return platform.ServiceUserProvided
	}
	return b.offering.Name
}

func (b *bound) tags() []string {
	out := []string{}
	add := func(tags []string) {
		for _, t := range tags {
			if !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	if b.offering != nil {
		add(b.offering.Tags)
	}
	add(b.instance.Tags)
	return out
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// entry is the service as VCAP_SERVICES shows it.
func (b *bound) entry() map[string]any {
	credentials := b.binding.Credentials
	if credentials == nil {
		credentials = map[string]any{}
	}
	mounts := []map[string]any{}
	for _, m := range b.binding.VolumeMounts {
		mounts = append(mounts, map[string]any{"container_dir": m["container_dir"], "mode": m["mode"],
			"device_type": m["device_type"]})
	}
	out := map[string]any{
		"label": b.label(), "name": b.name(), "tags": b.tags(), "instance_guid": b.instance.GUID,
		"instance_name": b.instance.Name,
		"binding_guid":  b.binding.GUID, "binding_name": orNull(b.binding.Name), "credentials": credentials,
		"syslog_drain_url": orNull(b.binding.SyslogDrainURL), "volume_mounts": mounts,
	}
	if b.plan != nil {
		out["provider"], out["plan"] = nil, b.plan.Name
	}
	return out
}

// VCAPServices is the variable of that name.
func VCAPServices(tx platform.Tx, app *platform.App) (map[string]any, error) {
	all, err := boundTo(tx, app)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, b := range all {
		list, _ := out[b.label()].([]map[string]any)
		out[b.label()] = append(list, b.entry())
	}
	return out, nil
}

// databaseSchemes are those that DATABASE_URL is made of, and what they become
// there.
var databaseSchemes = map[string]string{"mysql": "mysql2", "mysql2": "mysql2", "postgres": "postgres",
	"postgresql": "postgres"}

// DatabaseURL is the variable of that name: the first address of a database
// among the services of an app, or "".
func DatabaseURL(tx platform.Tx, app *platform.App) (string, error) {
	all, err := boundTo(tx, app)
	if err != nil {
		return "", err
	}
	for _, b := range all {
		uri, _ := b.binding.Credentials["uri"].(string)
		scheme, rest, ok := strings.Cut(uri, "://")
		if as := databaseSchemes[scheme]; ok && as != "" {
			return as + "://" + rest, nil
		}
	}
	return "", nil
}

// ServiceFiles are the services of an app as files, by their paths, if it wants
// them so: one file, or a folder for every binding as servicebinding.io says.
func ServiceFiles(tx platform.Tx, app *platform.App) (map[string][]byte, error) {
	files := map[string][]byte{}
	switch app.FileBased() {
	case platform.FeatureFileBasedVCAP:
		services, err := VCAPServices(tx, app)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(services)
		files["vcap_services"] = text
		return files, err
	case platform.FeatureServiceBindingK8s:
		all, err := boundTo(tx, app)
		if err != nil {
			return nil, err
		}
		for _, b := range all {
			if err := b.files(files); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// files adds the folder of one binding, with the file names of Cloud Foundry: the keys of
// VCAP_SERVICES. Values that are not text are written as JSON, and empty ones
// not at all; a name that cannot be a file's is an error the user can mend.
func (b *bound) files(to map[string][]byte) error {
	dir := b.name()
	if !fileName(dir) {
		return fault.New(fault.Unprocessable,
			"the service binding %q cannot be a folder: give the binding a name of alphanumeric characters, '-' and '.', or "+
				"switch off the feature %s", dir, platform.FeatureServiceBindingK8s)
	}
	content := map[string]any{}
	maps.Copy(content, b.binding.Credentials)
	own := b.entry()
	for _, k := range []string{"binding_guid", "binding_name", "instance_guid", "instance_name", "label", "name", "plan",
		"syslog_drain_url", "tags", "volume_mounts"} {
		if v := own[k]; v != nil {
			content[k] = v
		}
	}
	content["type"], content["provider"] = b.label(), b.label()
	for k, v := range content {
		if !fileName(k) {
			return fault.New(fault.Unprocessable,
				"the credential %q of the service binding %q cannot be a file: switch off the feature %s", k, dir,
				platform.FeatureServiceBindingK8s)
		}
		path := dir + "/" + k
		if _, taken := to[path]; taken {
			return fault.New(fault.Unprocessable, "two service bindings are called %q: give one of them another name", dir)
		}
		if text, ok := v.(string); ok {
			to[path] = []byte(text)
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if !slices.Contains([]string{"null", "[]", "{}"}, string(text)) {
			to[path] = text
		}
	}
	return nil
}

// fileName reports whether a text can name one file or folder.
func fileName(s string) bool {
	return s != "" && len(s) <= 253 && s != "." && s != ".." && !strings.ContainsAny(s, "/\\\x00")
}

// Drain is where an app's log goes besides its own.
type Drain struct {
	BindingGUID string
	URL         string
	// Certificate and Key are shown to the receiver over TLS; CA is who signed
	// its certificate. PEM; empty is none.
	Certificate, Key, CA string
}

// DrainsOf are the syslog drains of an app.
func DrainsOf(tx platform.Tx, appGUID string) ([]Drain, error) {
	all, _, err := tx.ServiceBindings().List(platform.Where("app_guid", appGUID).
		And(platform.In("type", platform.BindingApp)))
	if err != nil {
		return nil, err
	}
	var out []Drain
	for _, b := range all {
		i, err := tx.ServiceInstances().Get(b.InstanceGUID)
		if err != nil {
			return nil, err
		}
		if b := Effective(b, i); b.SyslogDrainURL != "" && b.Last.Exists() {
			text := func(name string) string { s, _ := b.Credentials[name].(string); return s }
			out = append(out, Drain{b.GUID, b.SyslogDrainURL, text("cert"), text("key"), text("ca")})
		}
	}
	return out, nil
}

// dropBindings removes the bindings of an app, route or instance that no broker
// knows of. Those that a broker made have to be gone by then: package services
// sees to that.
func (p *Platform) dropBindings(tx platform.Tx, by Actor, field, guid string) error {
	all, _, err := tx.ServiceBindings().List(platform.Where(field, guid))
	if err != nil {
		return err
	}
	for _, b := range all {
		instance, err := tx.ServiceInstances().Get(b.InstanceGUID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err == nil && instance.Type == platform.ServiceManaged {
			return fault.New(fault.Unprocessable, "The service instance '%s' is still bound: unbind it first.", instance.Name)
		}
		if err := p.RemoveBinding(tx, by, b, instance); err != nil {
			return err
		}
	}
	return nil
}

// InsertBinding stores a new binding.
func (p *Platform) InsertBinding(tx platform.Tx, b *platform.ServiceBinding) error {
	announceBinding(tx, b)
	return tx.ServiceBindings().Insert(b)
}

// UpdateBinding stores a changed binding.
func (p *Platform) UpdateBinding(tx platform.Tx, b *platform.ServiceBinding) error {
	announceBinding(tx, b)
	return tx.ServiceBindings().Update(b)
}

// announceBinding has the route table look again at the route of a binding, which
// may have another route service, and the log drains at its app.
func announceBinding(tx platform.Tx, b *platform.ServiceBinding) {
	announceApp(tx, b.AppGUID)
	if b.RouteGUID != "" {
		announceRoute(tx, b.RouteGUID)
	}
}

// RemoveBinding removes the row of a binding and records that.
func (p *Platform) RemoveBinding(tx platform.Tx, by Actor, b *platform.ServiceBinding,
	instance *platform.ServiceInstance) error {
	if err := tx.ServiceBindings().Delete(b.GUID); err != nil {
		return err
	}
	announceBinding(tx, b)
	return p.RecordBinding(tx, "delete", by, b, instance)
}

// RecordBinding writes an audit event about a binding; what is create, delete
// and their like.
func (p *Platform) RecordBinding(tx platform.Tx, what string, by Actor, b *platform.ServiceBinding,
	instance *platform.ServiceInstance) error {
	kind := map[string]string{platform.BindingApp: "service_binding", platform.BindingKey: "service_key",
		platform.BindingRoute: "service_route_binding"}[b.Type]
	t := Target{GUID: b.GUID, Type: kind, Name: b.Name, SpaceGUID: b.SpaceGUID}
	space, err := tx.Spaces().Get(b.SpaceGUID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err == nil {
		t.OrgGUID = space.OrgGUID
	}
	data := map[string]any{"service_instance_guid": b.InstanceGUID}
	if instance != nil {
		data["service_instance_name"] = instance.Name
	}
	if b.AppGUID != "" {
		data["app_guid"] = b.AppGUID
	}
	if b.RouteGUID != "" {
		data["route_guid"] = b.RouteGUID
	}
	return p.Record(tx, "audit."+kind+"."+what, by, t, map[string]any{"request": data})
}

// RecordInstance writes an audit event about a service instance.
func (p *Platform) RecordInstance(tx platform.Tx, what string, by Actor, i *platform.ServiceInstance,
	data map[string]any) error {
	kind := "service_instance"
	if i.Type == platform.ServiceUserProvided {
		kind = "user_provided_service_instance"
	}
	t := Target{GUID: i.GUID, Type: kind, Name: i.Name, SpaceGUID: i.SpaceGUID}
	space, err := tx.Spaces().Get(i.SpaceGUID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err == nil {
		t.OrgGUID = space.OrgGUID
	}
	return p.Record(tx, "audit."+kind+"."+what, by, t, map[string]any{"request": data})
}

// RemoveInstance removes the row of a service instance with its bindings.
func (p *Platform) RemoveInstance(tx platform.Tx, by Actor, i *platform.ServiceInstance, what string) error {
	all, _, err := tx.ServiceBindings().List(platform.Where("instance_guid", i.GUID))
	if err != nil {
		return err
	}
	for _, b := range all {
		if err := p.RemoveBinding(tx, by, b, i); err != nil {
			return err
		}
	}
	if _, err := tx.CredentialRotations().DeleteAll(platform.Where("instance_guid", i.GUID)); err != nil {
		return err
	}
	if err := tx.ServiceInstances().Delete(i.GUID); err != nil {
		return err
	}
	return p.RecordInstance(tx, what, by, i, nil)
}

// dropServices removes the services of a space that no broker knows of, and
// the sharing of others with it.
func (p *Platform) dropServices(tx platform.Tx, by Actor, s *platform.Space) error {
	all, _, err := tx.ServiceInstances().List(platform.Where("space_guid", s.GUID))
	if err != nil {
		return err
	}
	for _, i := range all {
		if i.Type == platform.ServiceManaged {
			return fault.New(fault.Unprocessable, "The space '%s' still has the service instance '%s': delete it first.",
				s.Name, i.Name)
		}
		if err := p.RemoveInstance(tx, by, i, "delete"); err != nil {
			return err
		}
	}
	shared, _, err := tx.ServiceInstances().List(platform.Where("shared_space_guid", s.GUID))
	if err != nil {
		return err
	}
	for _, i := range shared {
		i.SharedSpaces = slices.DeleteFunc(i.SharedSpaces, func(guid string) bool { return guid == s.GUID })
		if err := tx.ServiceInstances().Update(i); err != nil {
			return err
		}
	}
	brokers, _, err := tx.ServiceBrokers().List(platform.Where("space_guid", s.GUID))
	if err != nil {
		return err
	}
	for _, b := range brokers {
		if err := p.RemoveBroker(tx, by, b); err != nil {
			return err
		}
	}
	return nil
}

// BrokerUnused refuses to remove a broker of whose services there are instances.
func (p *Platform) BrokerUnused(tx platform.Tx, b *platform.ServiceBroker) error {
	used, err := tx.ServiceInstances().Count(platform.Where("broker_guid", b.GUID))
	if err == nil && used > 0 {
		err = fault.New(fault.BrokerNotRemovable, "Can not remove brokers that have associated service instances: %s", b.Name)
	}
	return err
}

// RemoveBroker removes a broker with what it offers. It is refused while there
// are instances of that.
func (p *Platform) RemoveBroker(tx platform.Tx, by Actor, b *platform.ServiceBroker) error {
	if err := p.BrokerUnused(tx, b); err != nil {
		return err
	}
	if _, err := tx.ServicePlans().DeleteAll(platform.Where("broker_guid", b.GUID)); err != nil {
		return err
	}
	if _, err := tx.ServiceOfferings().DeleteAll(platform.Where("broker_guid", b.GUID)); err != nil {
		return err
	}
	if err := tx.ServiceBrokers().Delete(b.GUID); err != nil {
		return err
	}
	return p.Record(tx, "audit.service_broker.delete", by, Target{GUID: b.GUID, Type: "service_broker", Name: b.Name,
		SpaceGUID: b.SpaceGUID}, nil)
}

// forgetOrganization takes an organization from the plans that were shown to it and
// the segments it was entitled to, and removes its space quotas.
func forgetOrganization(tx platform.Tx, guid string) error {
	if _, err := tx.SpaceQuotas().DeleteAll(platform.Where("organization_guid", guid)); err != nil {
		return err
	}
	if err := forgetEntitlements(tx, guid); err != nil {
		return err
	}
	plans, _, err := tx.ServicePlans().List(platform.Where("shown_organization_guid", guid))
	if err != nil {
		return err
	}
	for _, plan := range plans {
		plan.Orgs = slices.DeleteFunc(plan.Orgs, func(g string) bool { return g == guid })
		if err := tx.ServicePlans().Update(plan); err != nil {
			return err
		}
	}
	return nil
}
