package api_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/web/openapitest"
)

// additions are members that responses have and the description lacks, with the
// reason. The pattern is one of "GET /v3/path .member"; lists are as their
// entries.
//
// An extension of Ingot belongs to the top of a resource, where clients ignore it. It
// never belongs into a map: clients decode the values of maps as one type, and
// stop at a member that does not have it.
var additions = []struct {
	member *regexp.Regexp
	why    string
}{
	// Cloud Foundry has these, and its description is incomplete.
	{regexp.MustCompile(` \.(relationships|links|pagination|included)$`),
		"Cloud Foundry has them where they are not described"},
	{regexp.MustCompile(`^GET /(v3)? \.links\.\w+$`), "Cloud Foundry has more links"},
	{regexp.MustCompile(` \.links\.(app|build|cancel|droplet|space|quota|process_instances|destinations)$`),
		"Cloud Foundry has more links"},
	{regexp.MustCompile(`/revisions\S* \.(deployable|droplet\.guid)$`),
		"Cloud Foundry's names of enabled and droplet.data"},
	{regexp.MustCompile(`/deployments\S* \.status\.(canary|details\.error)$`),
		"steps of a canary, and why a deployment does not advance"},
	{regexp.MustCompile(`^GET /v3/info \.(osbapi_version|rate_limits)$`), "newer than the description"},
	{regexp.MustCompile(`/processes\S* \.process_instances$`), "newer than the description"},
	{regexp.MustCompile(`/routes\S* \.(destinations|options)$`), "routes are described without both"},
	{regexp.MustCompile(`security_groups\S* \.rules\[\]\.log$`), "of TCP rules"},
	{regexp.MustCompile(`/service_(offerings|plans)\S* \.(name|description|available|broker_catalog|costs|free|tags|requires|shareable|documentation_url|maintenance_info|schemas|visibility_type)$`), "offerings and plans are described without most members"},
	{regexp.MustCompile(`/service_plans/{guid}/visibility \.space$`), "of plans of space-scoped brokers"},
	{regexp.MustCompile(`/service_usage_events\S* \.(state|space|organization|service_\w+)$`),
		"events are described without their content"},
	{regexp.MustCompile(`^POST /v3/service_instances \.last_operation$`),
		"the description has it in every other response"},
	{regexp.MustCompile(`/spaces/{guid}/features \.resources$`), "the list is described as if it were one of its entries"},
	{regexp.MustCompile(`/spaces\S* \.suspended$`), "newer than the description"},
	{regexp.MustCompile(`/stacks\S* \.(state|state_reason)$`), "newer than the description"},
	{regexp.MustCompile(`/stats \.(details|fds_quota|instance_guid|instance_internal_ip|instance_ports|isolation_segment|routable)$`), "instances are described without them"},
	{regexp.MustCompile(`/stats \.usage\.cpu_entitlement$`), "newer than the description"},
	{regexp.MustCompile(`/tasks\S* \.(user|log_rate_limit_in_bytes_per_second)$`), "newer than the description"},

	// Extensions of Ingot.
	{regexp.MustCompile(`/revisions\S* \.ingot$`), "settings of processes and sidecars that a rollback restores"},
	{regexp.MustCompile(`/stats \.(members|router|log_lines_lost)$`), "sidecars, requests and lost lines of an instance"},
	{regexp.MustCompile(`/processes\S* \.min_healthy_time$`), "how long a new instance of a deployment has to be ready"},
	{regexp.MustCompile(`/deployments\S* \.options\.min_healthy_time$`),
		"the same for one deployment; clients decode the options as an object with fixed members"},
	{regexp.MustCompile(`/processes\S* \.on_credentials$`), "what happens to the process when credentials are rotated"},
	{regexp.MustCompile(`/sidecars\S* \.options$`), "order, restarts and ports of a sidecar"},
	{regexp.MustCompile(`/destinations\S* \.destinations\[\]\.app\.sidecar$`),
		"a destination that the user mapped to a sidecar; clients decode the app as an object with fixed members"},
}

// refuseAddition returns why a response may not have a member that is not
// described; "" if it may.
func refuseAddition(operation, member string) string {
	if strings.Contains(member, ".*") {
		return "it is inside the value of a map, which clients decode as one type; additions go beside the map"
	}
	at := operation + " " + strings.TrimPrefix(member, ".resources[]")
	for _, a := range additions {
		if a.member.MatchString(at) {
			return ""
		}
	}
	return "if Cloud Foundry does not have it either, it belongs to the top of the resource or to a path of its own; " +
		"list it in additions"
}

// additionsOf returns the members that objects have and are not described to have.
// A value of a map is written as .*, an element of a list as []. Objects that the
// description leaves open are not looked into.
func additionsOf(d *openapitest.Document, s openapitest.Object, value any) []string {
	var found []string
	addMembers(d, []openapitest.Object{s}, value, "", &found)
	found = append(found, mapAdditions(value)...)
	slices.Sort(found)
	return slices.Compact(found)
}

// mapAdditions returns the members inside maps that all resources have in the same
// form, whether the description has these maps or not: links, relationships and metadata.
func mapAdditions(value any) []string {
	var found []string
	within := func(path string, v any, allowed ...string) map[string]any {
		object, _ := v.(map[string]any)
		for name := range object {
			if !slices.Contains(allowed, name) {
				found = append(found, path+"."+name)
			}
		}
		return object
	}
	top, _ := value.(map[string]any)
	resources, _ := top["resources"].([]any)
	included, _ := top["included"].(map[string]any)
	for _, more := range included {
		list, _ := more.([]any)
		resources = append(resources, list...)
	}
	for _, r := range append(resources, value) {
		resource, _ := r.(map[string]any)
		links, _ := resource["links"].(map[string]any)
		for _, link := range links {
			within(".links.*", link, "href", "method", "meta")
		}
		relationships, _ := resource["relationships"].(map[string]any)
		for _, to := range relationships {
			data := within(".relationships.*", to, "data", "links")["data"]
			list, ok := data.([]any)
			if !ok {
				list = []any{data}
			}
			for _, one := range list {
				within(".relationships.*.data", one, "guid")
			}
		}
		within(".metadata.*", resource["metadata"], "labels", "annotations")
	}
	return found
}

// addMembers adds those of a value that all schemas describe together.
func addMembers(d *openapitest.Document, schemas []openapitest.Object, value any, path string, out *[]string) {
	described := newDescribed(d, schemas)
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			addMembers(d, described.items, e, path+"[]", out)
		}
	case map[string]any:
		if described.open || len(described.members)+len(described.values) == 0 {
			return
		}
		for name, member := range v {
			switch known := described.members[name]; {
			case known != nil:
				addMembers(d, known, member, path+"."+name, out)
			case len(described.values) > 0:
				addMembers(d, described.values, member, path+".*", out)
			default:
				*out = append(*out, path+"."+name)
			}
		}
	}
}

// described is what schemas say about the content of a value.
type described struct {
	doc     *openapitest.Document
	members map[string][]openapitest.Object
	values  []openapitest.Object // of a map
	items   []openapitest.Object // of a list
	open    bool                 // it may have any member
}

func newDescribed(d *openapitest.Document, schemas []openapitest.Object) *described {
	all := &described{doc: d, members: map[string][]openapitest.Object{}}
	for _, s := range schemas {
		all.add(s)
	}
	return all
}

func (all *described) add(s openapitest.Object) {
	properties, _ := s["properties"].(openapitest.Object)
	for name, p := range properties {
		all.members[name] = append(all.members[name], all.doc.Resolve(p))
	}
	switch more := s["additionalProperties"].(type) {
	case bool:
		all.open = all.open || more
	case openapitest.Object:
		all.values = append(all.values, all.doc.Resolve(more))
	}
	if items := all.doc.Resolve(s["items"]); items != nil {
		all.items = append(all.items, items)
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		parts, _ := s[key].([]any)
		for _, part := range parts {
			all.add(all.doc.Resolve(part))
		}
	}
	if then := all.doc.Resolve(s["then"]); then != nil {
		all.add(then)
	}
}

// TestAdditions sees which members of a response are found to be additions, and
// which of those are refused.
func TestAdditions(t *testing.T) {
	t.Parallel()
	d, err := openapitest.Parse([]byte(`
openapi: 3.1.0
info: {title: t, version: "1"}
paths: {}
components:
  schemas:
    Thing:
      allOf:
        - properties: {guid: {type: string}}
        - properties:
            processes: {additionalProperties: {properties: {command: {type: string}}}}
            usage: {properties: {mem: {type: integer}}}
            data: {}
            metadata: {properties: {labels: {additionalProperties: {type: string}}}}
            list: {type: array, items: {properties: {name: {type: string}}}}
            any: {additionalProperties: true, properties: {a: {type: string}}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string][]string{
		`{"guid":"g","processes":{"web":{"command":"run"}},"metadata":{"labels":{"a":"b"}}}`: nil,
		`{"guid":"g","ingot":{"a":1}}`:                       {".ingot"},
		`{"processes":{"web":{"command":"run","memory":1}}}`: {".processes.*.memory"},
		`{"usage":{"mem":1,"lost":2}}`:                       {".usage.lost"},
		`{"data":{"a":1},"any":{"b":{"c":1}}}`:               nil,
		`{"metadata":{"notes":{}},"list":[{"name":"a"},{"b":1},{"b":2}]}`: {".list[].b", ".metadata.*.notes",
			".metadata.notes"},
		`{"data":{},"usage":{},"any":{"links":1}}`: nil,
		`{"resources":[{"links":{"self":{"href":"a","title":"b"}}}],"included":{"spaces":[{"relationships":{"org":{"data":{"guid":"g","name":"n"}}}}]}}`: {
			".included", ".links.*.title", ".relationships.*.data.name", ".resources",
		},
	} {
		var value any
		if err := json.Unmarshal([]byte(body), &value); err != nil {
			t.Fatal(err)
		}
		if got := additionsOf(d, d.At("components", "schemas", "Thing"), value); !slices.Equal(got, want) {
			t.Errorf("%s: additions are %q, want %q", body, got, want)
		}
	}
	for member, refused := range map[string]bool{
		"GET /v3/revisions/{guid} .ingot":                      false,
		"GET /v3/apps/{guid}/revisions .resources[].ingot":     false,
		"GET /v3/revisions/{guid} .processes.*.memory":         true,
		"GET /v3/processes/{guid}/stats .resources[].usage.io": true,
		"GET /v3/apps/{guid} .color":                           true,
	} {
		i := strings.LastIndex(member, " ")
		if why := refuseAddition(member[:i], member[i+1:]); (why != "") != refused {
			t.Errorf("%s: refused with %q, want %t", member, why, refused)
		}
	}
	for i, a := range additions {
		if a.why == "" {
			t.Errorf("addition %d has no reason", i)
		}
	}
}
