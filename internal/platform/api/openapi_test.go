package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ingot/internal/base/web/openapitest"
)

// openAPIPath is where the description of Cloud Foundry's v3 API is: beside
// the repository, or where INGOT_OPENAPI says. It is not ours to ship.
func openAPIPath() string {
	if path := os.Getenv("INGOT_OPENAPI"); path != "" {
		return path
	}
	return filepath.Join("..", "..", "..", "..", "shared", "spec", "cf-v3-openapi.yaml")
}

// openAPI is the description, nil when it is not there. It is read once for all
// tests: that takes a second.
var openAPI = sync.OnceValues(func() (*openapitest.Document, error) {
	text, err := os.ReadFile(openAPIPath())
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return openapitest.Parse(text, amend)
})

// amend puts right where the description is stricter than Cloud Foundry, or
// than what it describes itself elsewhere.
func amend(d *openapitest.Document) {
	schema := func(name string, path ...string) openapitest.Object {
		s := d.At("components", "schemas", name)
		for _, p := range path {
			s = property(d, s, p)
		}
		return s
	}
	properties := func(s openapitest.Object) openapitest.Object { return s["properties"].(openapitest.Object) }
	// The type beside the reference says that it may be null, and the one that it
	// refers to that it may not.
	nullable := maps.Clone(schema("Relationship"))
	nullable["type"] = []any{"object", "null"}
	properties(schema("RelationshipToOne"))["data"] = nullable
	// Links to what a platform lacks are null.
	links := properties(property(d, d.At("paths", "/", "get", "responses", "200", "content", "application/json",
		"schema"), "links"))
	for name, link := range links {
		links[name] = openapitest.Object{"anyOf": []any{link, openapitest.Object{"type": "null"}}}
	}
	// By fields[] more kinds are included, and only the members that were asked for.
	for _, more := range []openapitest.Object{schema("IncludedResources"), schema("ServicePlanList", "included")} {
		more["additionalProperties"] = true
		for _, name := range []string{"spaces", "organizations", "service_offerings"} {
			properties(more)[name] = openapitest.Object{"type": "array"}
		}
	}
	// An event of a task has no process, and so on.
	for _, member := range [][2]string{{"process", "guid"}, {"process", "type"}, {"task", "guid"}, {"buildpack", "guid"}} {
		schema("AppUsageEvent", member[0], member[1])["type"] = []any{"string", "null"}
	}
	// The first version of an app replaces none.
	schema("Deployment", "previous_droplet", "guid")["type"] = []any{"string", "null"}
	// A group that was never set has no such time.
	schema("EnvironmentVariableGroup", "updated_at")["type"] = []any{"string", "null"}
	// Revisions are described without what they consist of. Clients decode the
	// processes as maps of strings.
	text := openapitest.Object{"type": "string"}
	nullable = openapitest.Object{"type": []any{"string", "null"}}
	revision := schema("Revision")["allOf"].([]any)[1].(openapitest.Object)
	properties(revision)["processes"] = openapitest.Object{"type": "object", "additionalProperties": openapitest.Object{
		"type": "object", "required": []any{"command"}, "properties": openapitest.Object{"command": nullable},
		"additionalProperties": false,
	}}
	properties(revision)["sidecars"] = openapitest.Object{"type": "array", "items": openapitest.Object{"type": "object",
		"properties": openapitest.Object{
			"name": text, "command": text, "process_types": openapitest.Object{"type": "array", "items": text},
			"memory_in_mb": openapitest.Object{"type": []any{"integer", "null"}},
		}, "additionalProperties": false}}
}

// property finds a property in the parts of a schema.
func property(d *openapitest.Document, s openapitest.Object, name string) openapitest.Object {
	properties, _ := s["properties"].(openapitest.Object)
	if p := d.Resolve(properties[name]); p != nil {
		return p
	}
	parts, _ := s["allOf"].([]any)
	for _, part := range parts {
		if p := property(d, d.Resolve(part), name); p != nil {
			return p
		}
	}
	return nil
}

// undescribed are answers that Cloud Foundry gives and the description lacks.
var undescribed = map[string]string{
	"PATCH /v3/routes/{guid}/relationships/space 200": "Cloud Foundry has a body, where the description knows none",
}

// absent are members that are described and that we leave out, with the reason.
// The pattern is one of "GET /v3/path .member".
var absent = []struct {
	member *regexp.Regexp
	why    string
}{
	{regexp.MustCompile(`\.method$`), "it is there only for links that are not followed with GET"},
	{regexp.MustCompile(`\.included$|\.included\.\w+$`), "only what was asked for is included"},
	{regexp.MustCompile(`\.relationships\.\w+\.links$`), "only the endpoints of relationships have them"},
	{regexp.MustCompile(`\.lifecycle\.data\.credentials$`), "of the lifecycle cnb, which there is not"},
	{regexp.MustCompile(`\.data\.(image|username|password)$`), "of docker packages only"},
	{regexp.MustCompile(`/packages\S* \S*\.(data\.(error|checksum)|links\.(upload|download))$`), "of bits packages only"},
	{regexp.MustCompile(`\.lifecycle\.data\.(buildpacks|stack)$`), "of the lifecycle buildpack only"},
	{regexp.MustCompile(`health_check\.data\.endpoint$`), "of http checks only"},
	{regexp.MustCompile(`readiness_health_check\.data\.timeout$`),
		"a readiness check has none: the description uses one schema for both"},
	{regexp.MustCompile(`\.links\.(organization|space|quota|shared_organizations|router_group)$`),
		"null relationships have no link"},
	{regexp.MustCompile(`\.links\.(manifest|service_\w+)$`), "a job links only to what it is about"},
	{regexp.MustCompile(`\.service_(offering|broker)_(guid|name)$`), "Cloud Foundry has them among the relationships"},
	{regexp.MustCompile(`/service_brokers\S* \S*\.relationships\.space$`), "brokers for all belong to no space"},
	{regexp.MustCompile(`(/shared_spaces|/relationships/spaces|_quotas/\S+/relationships/\w+) \.links\.related$`),
		"Cloud Foundry has none"},
	{regexp.MustCompile(`/visibility \.organizations$`), "only plans that are shown to some organizations have them"},
	{regexp.MustCompile(`/tasks\S* \S*\.command$`),
		"it is shown only to those who may see secrets, and never in the list of all"},
	{regexp.MustCompile(`/builds\S* \S*\.(checksum|links\.droplet)$`),
		"a build has no checksum, and no droplet until it is done"},
	{regexp.MustCompile(`^GET \S+/stats .*\.(host|usage(\.\w+)?|mem_quota|disk_quota|log_rate_limit)$`),
		"an instance that is down has none, and one that has just started or ended uses nothing"},
	{regexp.MustCompile(`/droplets\S* \S*\.lifecycle\.data\.(buildpacks|stack)$`),
		"droplets show them beside the lifecycle"},
	{regexp.MustCompile(`/droplets\S* \S*\.links\.(package|upload|download)$`), "each is there while it leads somewhere"},
	{regexp.MustCompile(`/deployments\S* \S*(\.options\.\w+|\.links\.(cancel|continue))$`),
		"options are those that were given, and actions those that are possible"},
	{regexp.MustCompile(`/revisions\S* \S*\.(droplet\.(data|links)|enabled)$`),
		"Cloud Foundry has the guid of the droplet beside droplet, and deployable in the place of enabled"},
	{regexp.MustCompile(`/destinations\S* \S*(\.destinations\[\]\.links|\.links\.self|\.metadata|\.pagination)$`),
		"destinations are neither paged nor labelled, and only one of them has links"},
	{regexp.MustCompile(`/shared_organizations \.items$`), "a slip of the description"},
	{regexp.MustCompile(`isolation_segment \.links\.related$`), "there is none to be related to"},
	{regexp.MustCompile(`^GET /v3/spaces/{guid}/features \.(name|description|enabled)$`),
		"the list is described as if it were one of its entries"},
	{regexp.MustCompile(`_quotas\S* \S*(\.metadata|\.links\.organizations)$`), "quotas have neither in Cloud Foundry"},
	{regexp.MustCompile(`security_groups\S* \S*(\.metadata|\.(running|staging)_spaces|\.links\.related)$`),
		"security groups have no metadata or such links in Cloud Foundry, and their spaces are among the relationships"},
	{regexp.MustCompile(`security_groups\S* \S*\.rules\[\]\.(ports|type|code|description)$`),
		"a rule has those of its protocol"},
	{regexp.MustCompile(`sidecars\S* \S*\.(metadata|links)$`), "sidecars have neither in Cloud Foundry"},
	{regexp.MustCompile(`^GET \S+/(processes|organization_quotas|space_quotas|\w*security_groups) \.(total_results|total_pages|first|last|next|previous)$`), "the description puts the members of the pagination beside it as well"},
}

// checkOpenAPI compares an answer with the description, if it is there and
// knows the path.
func (f *fixture) checkOpenAPI(r *http.Request, a *answer) {
	f.t.Helper()
	if f.loose {
		return
	}
	d, err := openAPI()
	if err != nil {
		f.t.Fatal(err)
	}
	if d == nil {
		return
	}
	operation := d.Find(r.Method, r.URL.Path)
	if operation == nil {
		return // not described
	}
	what := operation.Method + " " + operation.Path
	report := func(format string, args ...any) {
		f.t.Helper()
		f.t.Errorf("%s (%d) is not as described: %s\n%s", what, a.status, fmt.Sprintf(format, args...), a.body)
	}
	response := operation.Response(a.status)
	if response == nil || a.status < 400 && response.Status == "default" {
		if _, ok := undescribed[what+" "+strconv.Itoa(a.status)]; !ok && a.status < 400 {
			report("it has no answer of this status")
		}
		if a.status >= 400 && a.detail() == "" {
			report("an error has details")
		}
		return
	}
	schema := response.Schema("application/json")
	if schema == nil || !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
		if schema != nil && schema.Node != nil && a.body != "" {
			report("it is not JSON")
		}
		return
	}
	if err := schema.Check([]byte(a.body)); err != nil {
		report("%v", err)
	}
	if a.status < 300 {
		var value any
		if err := json.Unmarshal([]byte(a.body), &value); err != nil {
			report("%v", err)
		}
		var missing []string
		missingMembers(d, schema.Node, value, "", &missing)
		for _, m := range slices.Compact(slices.Sorted(slices.Values(missing))) {
			if !excused(what + " " + m) {
				report("%s is missing", m)
			}
		}
		for _, m := range additionsOf(d, schema.Node, value) {
			if why := refuseAddition(what, m); why != "" {
				report("%s is not described: %s", m, why)
			}
		}
	}
}

// missingMembers collects what an object is described to have and has not: the
// description seldom says that something is required, and clients read all of
// it.
func missingMembers(d *openapitest.Document, s openapitest.Object, value any, path string, out *[]string) {
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			missingMembers(d, d.Resolve(s["items"]), e, path+"[]", out)
		}
	case map[string]any:
		parts, _ := s["allOf"].([]any)
		for _, part := range parts {
			missingMembers(d, d.Resolve(part), value, path, out)
		}
		properties, _ := s["properties"].(openapitest.Object)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			at := path + "." + name
			member, ok := v[name]
			if !ok {
				*out = append(*out, at)
				continue
			}
			missingMembers(d, d.Resolve(properties[name]), member, at, out)
		}
	}
}

func excused(member string) bool {
	for _, a := range absent {
		if a.member.MatchString(member) {
			return true
		}
	}
	return false
}

func TestOpenAPI(t *testing.T) {
	t.Parallel()
	d, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	if d == nil {
		t.Skipf("%s is not there: no response was compared with it (INGOT_OPENAPI names another place)", openAPIPath())
	}
}
