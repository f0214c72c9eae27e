package access

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// quotaKind is the quotas of orgs or of spaces.
type quotaKind struct {
	word  string
	path  string
	owner string // what it applies to, in the API
}

var (
	orgQuotas   = quotaKind{"org quota", "/v3/organization_quotas", "organizations"}
	spaceQuotas = quotaKind{"space quota", "/v3/space_quotas", "spaces"}
)

// limit is a number, or -1 for unlimited.
type limit string

// IsValidValue accepts -1, which otherwise looks like a flag.
func (limit) IsValidValue(value string) error { return core.Rate("").IsValidValue(value) }

// limitFlags are the limits of a quota.
type limitFlags struct {
	Memory    limit `short:"m" value-name:"SIZE" description:"Memory of all processes, such as 10G; -1 for unlimited (default of a new quota: 0)"`
	Process   limit `short:"i" value-name:"SIZE" description:"Memory of one process, such as 1G; -1 for unlimited (default of a new quota: -1)"`
	Routes    limit `short:"r" value-name:"N" description:"Number of routes; -1 for unlimited (default of a new quota: 0)"`
	Services  limit `short:"s" value-name:"N" description:"Number of service instances; -1 for unlimited (default of a new quota: 0)"`
	Instances limit `short:"a" value-name:"N" description:"Number of app instances; -1 for unlimited (default of a new quota: -1)"`
	Ports     limit `long:"reserved-route-ports" value-name:"N" description:"Number of routes with ports; -1 for unlimited (default of a new quota: 0)"`
	LogRate   limit `short:"l" value-name:"SIZE" description:"Log bytes per second of all processes, such as 1M; -1 for unlimited (default of a new quota: -1)"`
	Paid      bool  `long:"allow-paid-service-plans" description:"Allow service plans that are not free"`
}

type newQuotaFlags struct{ limitFlags }

type updateQuotaFlags struct {
	limitFlags
	NotPaid bool   `long:"disallow-paid-service-plans" description:"Do not allow service plans that are not free"`
	Name    string `short:"n" value-name:"NAME" description:"New name"`
}

// count parses a limit in units of one, 1024 or more.
func (l limit) count(unit int64) (*int64, error) {
	text := strings.ToUpper(string(l))
	if text == "-1" {
		return nil, nil //nolint:nilnil // unlimited
	}
	factor := int64(1)
	if unit > 0 {
		text = strings.TrimSuffix(text, "B")
		for i, size := range "KMGT" {
			if strings.HasSuffix(text, string(size)) {
				text, factor = text[:len(text)-1], 1<<(10*(i+1))
			}
		}
		if factor < unit && text != "0" {
			return nil, core.BadSize(string(l))
		}
		factor = max(factor/unit, 1)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil && unit > 0:
		return nil, core.BadSize(string(l))
	case n > math.MaxInt64/factor:
		return nil, fmt.Errorf("%q is too large; use -1 for unlimited", string(l))
	case err != nil || n < 0:
		return nil, fmt.Errorf("%q is neither a number nor -1 for unlimited", string(l))
	}
	n *= factor
	return &n, nil
}

// body returns the limits that were given, as the API takes them.
func (f *limitFlags) body() (map[string]map[string]any, error) {
	out := map[string]map[string]any{}
	for _, one := range []struct {
		flag       string
		value      limit
		unit       int64
		group, key string
	}{
		{"-m", f.Memory, 1 << 20, "apps", "total_memory_in_mb"}, {"-i", f.Process, 1 << 20, "apps",
			"per_process_memory_in_mb"},
		{"-a", f.Instances, 0, "apps", "total_instances"}, {"-l", f.LogRate, 1, "apps", "log_rate_limit_in_bytes_per_second"},
		{"-s", f.Services, 0, "services", "total_service_instances"}, {"-r", f.Routes, 0, "routes", "total_routes"},
		{"--reserved-route-ports", f.Ports, 0, "routes", "total_reserved_ports"},
	} {
		if one.value == "" {
			continue
		}
		n, err := one.value.count(one.unit)
		if err != nil {
			return nil, core.UsageError(one.flag + ": " + err.Error())
		}
		if out[one.group] == nil {
			out[one.group] = map[string]any{}
		}
		out[one.group][one.key] = n
	}
	return out, nil
}

func (k quotaKind) create(ctx context.Context, s *core.Session, w core.Words, f *newQuotaFlags) (core.Result, error) {
	for _, l := range []*limit{&f.Memory, &f.Routes, &f.Services, &f.Ports} {
		if *l == "" {
			*l = "0"
		}
	}
	limits, err := f.body()
	if err != nil {
		return nil, err
	}
	limits["services"]["paid_services_allowed"] = f.Paid
	body := map[string]any{"name": w["QUOTA"]}
	for group, values := range limits {
		body[group] = values
	}
	if k == spaceQuotas {
		body["relationships"] = map[string]any{"organization": cfapi.Relate(s.Config.Org.GUID)}
	}
	s.Acting("Creating "+k.word+" %s", w["QUOTA"])
	return s.Create(ctx, k.word, w["QUOTA"], k.path, body, "already exists")
}

func (k quotaKind) find(ctx context.Context, s *core.Session, name string) (cfapi.Quota, error) {
	kind := strings.ToUpper(k.word[:1]) + k.word[1:]
	return core.Named[cfapi.Quota](ctx, s, kind, k.path, name, k.of(s))
}

// of returns the query for the quotas that the user can choose from.
func (k quotaKind) of(s *core.Session) url.Values {
	if k == spaceQuotas {
		return url.Values{"organization_guids": {s.Config.Org.GUID}}
	}
	return nil
}

func (k quotaKind) update(ctx context.Context, s *core.Session, w core.Words,
	f *updateQuotaFlags) (core.Result, error) {
	if f.Paid && f.NotPaid {
		return nil, core.UsageError("--allow-paid-service-plans and --disallow-paid-service-plans cannot be combined")
	}
	limits, err := f.body()
	if err != nil {
		return nil, err
	}
	if f.Paid || f.NotPaid {
		if limits["services"] == nil {
			limits["services"] = map[string]any{}
		}
		limits["services"]["paid_services_allowed"] = f.Paid
	}
	body := map[string]any{}
	for group, values := range limits {
		body[group] = values
	}
	if f.Name != "" {
		body["name"] = f.Name
	}
	if len(body) == 0 {
		return nil, core.UsageError("nothing to change: give at least one flag")
	}
	s.Acting("Updating "+k.word+" %s", w["QUOTA"])
	q, err := k.find(ctx, s, w["QUOTA"])
	if err != nil {
		return nil, err
	}
	return s.Change(ctx, http.MethodPatch, k.path+"/"+q.GUID, body, "name", cmp.Or(f.Name, q.Name), "guid", q.GUID)
}

func (k quotaKind) delete(ctx context.Context, s *core.Session, w core.Words, f *core.ForceFlag) (core.Result, error) {
	return s.DeleteNamed(ctx, f.Force, k.word, w["QUOTA"], k.path, k.of(s))
}

// assign applies a quota to an org or a space.
func (k quotaKind) assign(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	name := cmp.Or(w["ORG"], w["SPACE"])
	s.Acting("Assigning "+k.word+" %s to %s", w["QUOTA"], name)
	to, err := k.target(ctx, s, name)
	if err != nil {
		return nil, err
	}
	q, err := k.find(ctx, s, w["QUOTA"])
	if err != nil {
		return nil, err
	}
	return s.Change(ctx, http.MethodPost, k.path+"/"+q.GUID+"/relationships/"+k.owner,
		cfapi.RelateAll(to.GUID), "quota", q.Name, "name", to.Name)
}

func (k quotaKind) target(ctx context.Context, s *core.Session, name string) (cfapi.Thing, error) {
	if k == orgQuotas {
		return s.Org(ctx, name)
	}
	return s.Space(ctx, name)
}

// unassign removes a space quota from a space.
func (k quotaKind) unassign(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Removing space quota %s from space %s", w["QUOTA"], w["SPACE"])
	to, err := k.target(ctx, s, w["SPACE"])
	if err != nil {
		return nil, err
	}
	q, err := k.find(ctx, s, w["QUOTA"])
	if err != nil {
		return nil, err
	}
	return s.Change(ctx, http.MethodDelete, k.path+"/"+q.GUID+"/relationships/"+k.owner+"/"+to.GUID, nil, "quota", q.Name,
		"space", to.Name)
}

// cells are the limits, in the order of cf's table.
func quotaCells(q cfapi.Quota) []string {
	number := func(n *int64) string {
		if n == nil {
			return "unlimited"
		}
		return strconv.FormatInt(*n, 10)
	}
	size := func(n *int64, unit int64) string {
		if n == nil {
			return "unlimited"
		}
		return term.Size(*n * unit)
	}
	return []string{
		q.Name, size(q.Apps.Memory, 1<<20), size(q.Apps.Process, 1<<20), number(q.Routes.Total), number(q.Services.Instances),
		map[bool]string{true: "allowed", false: "disallowed"}[q.Services.Paid], number(q.Apps.Instances),
		number(q.Routes.Ports), size(q.Apps.LogRate, 1),
	}
}

var quotaHeading = []string{"name", "total memory", "instance memory", "routes", "service instances",
	"paid service plans", "app instances", "route ports", "log volume per second"}

func (k quotaKind) list(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting %s", k.word+"s")
	return (&core.Listing[cfapi.Quota]{Key: k.word + "s", Heading: quotaHeading, Cells: quotaCells}).
		List(ctx, s, k.path, k.of(s))
}

func (k quotaKind) get(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting "+k.word+" %s", w["QUOTA"])
	q, err := k.find(ctx, s, w["QUOTA"])
	if err != nil {
		return nil, err
	}
	out := &core.Sheet{JSON: q}
	for i, cell := range quotaCells(q) {
		out.Pairs = append(out.Pairs, [2]string{quotaHeading[i], cell})
	}
	return out, nil
}

func quotaCommands() []*core.Command {
	const limits = "[-m SIZE] [-i SIZE] [-r N] [-s N] [-a N] [-l SIZE]"
	return core.InGroup(core.GroupQuotas,
		core.Entry("org-quotas", "", "List org quotas", core.NeedsLogin, orgQuotas.list, "").Alias("quotas"),
		core.Entry("org-quota", "QUOTA", "Show an org quota", core.NeedsLogin, orgQuotas.get, "large").Alias("quota"),
		core.Entry("create-org-quota", "QUOTA "+limits, "Create an org quota", core.NeedsLogin, orgQuotas.create,
			"large -m 100G -r 1000 -s 100 --allow-paid-service-plans").Alias("create-quota"),
		core.Entry("update-org-quota", "QUOTA "+limits+" [-n NAME]", "Update an org quota", core.NeedsLogin, orgQuotas.update,
			"large -m 200G").Alias("update-quota"),
		core.Entry("delete-org-quota", "QUOTA [-f]", "Delete an org quota", core.NeedsLogin, orgQuotas.delete, "large -f").
			Alias("delete-quota").Slow(),
		core.Entry("set-org-quota", "ORG QUOTA", "Assign a quota to an org", core.NeedsLogin, orgQuotas.assign, "acme large").
			Alias("set-quota"),
		core.Entry("space-quotas", "", "List the space quotas of the target org", core.NeedsOrg, spaceQuotas.list, ""),
		core.Entry("space-quota", "QUOTA", "Show a space quota", core.NeedsOrg, spaceQuotas.get, "small"),
		core.Entry("create-space-quota", "QUOTA "+limits, "Create a space quota in the target org", core.NeedsOrg,
			spaceQuotas.create, "small -m 1G -r 10"),
		core.Entry("update-space-quota", "QUOTA "+limits+" [-n NAME]", "Update a space quota", core.NeedsOrg,
			spaceQuotas.update, "small -a 5"),
		core.Entry("delete-space-quota", "QUOTA [-f]", "Delete a space quota", core.NeedsOrg, spaceQuotas.delete,
			"small -f").Slow(),
		core.Entry("set-space-quota", "SPACE QUOTA", "Assign a quota to a space", core.NeedsOrg, spaceQuotas.assign,
			"dev small"),
		core.Entry("unset-space-quota", "SPACE QUOTA", "Remove a quota from a space", core.NeedsOrg, spaceQuotas.unassign,
			"dev small"),
	)
}
